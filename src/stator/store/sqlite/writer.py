"""Writing: the one connection that changes a store file, and the transactions that go through it.

Threads that append at once share a transaction (a savepoint each, one COMMIT, none acknowledged before it);
processes take turns on SQLite's write lock. Every transaction is guarded before it is answered.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import apsw

from stator.errors import HeadMoved, StatorError, StoreFailed
from stator.model.log.commit import Commit, Draft
from stator.model.records.tables import BARRIERS
from stator.store.port import Durability
from stator.store.sqlite import connection, space
from stator.store.sqlite.connection import FileGuard

T = TypeVar("T")
GROUP_MAX = 64
"""Appends that may share one transaction."""
TRIES = 3
"""How often a transaction whose WAL vanished is run again."""
PATIENCE_S = 1.0
"""How long a removal waits for readers that are about to be done."""


class AppendRequest:
    """One thread's append, from the queue to its answer."""

    __slots__ = ("barrier", "done", "drafts", "error", "fresh", "if_head", "result", "session")

    def __init__(
        self,
        session: str,
        drafts: Sequence[Draft],
        if_head: str | None,
        barrier: bool,
        fresh: bool,
    ) -> None:
        self.session = session
        self.drafts = drafts
        self.if_head = if_head
        self.barrier = barrier or any(map(is_barrier, drafts))
        self.fresh = fresh
        self.done = False
        self.error: BaseException | None = None
        self.result: list[Commit] = []

    def check_head(self, head: str, seq: int) -> None:
        """Compare-and-set: the head must be the one the caller saw."""
        if self.if_head is not None and self.if_head != head:
            raise HeadMoved(
                f"session {self.session} is at @{seq} {head[:12]}, not at {self.if_head[:12]}",
                head=head,
                hint="read the new commits, then decide again",
                session=self.session,
            )


def is_barrier(draft: Draft) -> bool:
    return draft.kind in BARRIERS or (draft.kind == "call" and draft.effect == "write")


class Owner(Protocol):
    """The store a writer writes for."""

    path: str

    def append_request(self, db: apsw.Connection, request: AppendRequest) -> list[Commit]:
        """Append what a request asks for, inside the open transaction."""
        ...

    def forget(self, session: str) -> None:
        """Drop what is believed of a session: its part of a transaction was undone."""
        ...

    def forget_all(self) -> None:
        """Drop everything that is believed through the write connection."""
        ...

    def drop_readers(self) -> None:
        """Close idle read connections: the files under them are gone."""
        ...


class Writer:
    """The write connection of one store in one process."""

    def __init__(self, owner: Owner, durability: Durability) -> None:
        self.path = owner.path
        self._owner = owner
        # Reentrant: `append` holds it while it runs `transaction`, which holds it while it runs `finish`.
        self.lock = threading.RLock()
        self.generation = 0
        """Grows whenever another connection has written: what was cached before must be looked at again."""
        self._calm = "FULL" if durability == "full" else "NORMAL"
        """How a transaction without a barrier is synced."""
        self._sure = "NORMAL" if durability == "relaxed" else "FULL"
        """How one with a barrier is."""
        self._queue: deque[AppendRequest] = deque()
        self._db: apsw.Connection | None = None
        self._guard: FileGuard | None = None
        self._synchronous = ""
        self._data_version = -1
        self._began = False
        """Whether the transaction that runs, or ran last, has begun."""
        self._settled = True
        """Whether the last transaction was committed, or undone to the end."""
        self.unfinished = False
        """Whether what was removed, here or elsewhere, is not gone from the WAL yet."""
        self.removed = False
        """Whether this process removed something."""

    def open(self) -> apsw.Connection:
        if self._db is None:
            self._synchronous = self._calm
            self._db = connection.open_connection(self.path, "write", self._synchronous)
            # A first read makes SQLite open the WAL, so that the guard knows which one is ours.
            self._db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            self._guard = FileGuard(self.path)
            self._data_version = -1
        return self._db

    def close(self) -> None:
        """Forget the connection and everything that was believed through it."""
        db, self._db, self._guard = self._db, None, None
        self._owner.forget_all()
        if db is not None:
            with contextlib.suppress(apsw.Error):
                db.close()

    def transaction(self, work: Callable[[apsw.Connection], T], *, barrier: bool = True) -> T:
        """Run `work` in a transaction that is committed, guarded and only then answered.

        One whose WAL was unlinked under it is run again on a new connection; commits are known by
        id, so nothing lands twice.
        """
        with self.lock:
            for _ in range(TRIES):
                try:
                    db = self._db or self.open()
                    result = self._attempt(db, work, self._sure if barrier else self._calm)
                except apsw.Error as error:
                    raise connection.translate(error, self.path) from error
                guard = self._guard
                assert guard is not None
                # After COMMIT and before the answer: a commit in a file that was unlinked must not be acknowledged.
                guard.check_store()
                if not guard.wal_lost():
                    self._data_version = db.data_version()
                    if self.unfinished:
                        self.finish()
                    return result
                self.close()
                self._owner.drop_readers()
        raise StoreFailed(
            f"{self.path}: another program keeps removing the write-ahead log",
            hint="something opens the file without SQLite; nothing was acknowledged",
            store=self.path,
        )

    def _attempt(self, db: apsw.Connection, work: Callable[[apsw.Connection], T], level: str) -> T:
        if not self._settled:  # an interrupt came while the last one was being undone
            self._undo(db)
        if self._synchronous != level:
            db.execute(f"PRAGMA synchronous={level}")
            self._synchronous = level
        self._began = self._settled = False
        try:
            # IMMEDIATE waits for the write lock now. A transaction that begins by reading fails at its first write,
            # without waiting, if another process wrote in between.
            db.execute("BEGIN IMMEDIATE")
            self._began = True
            # Asked under the write lock: from here on no other process can make the answer wrong.
            if db.data_version() != self._data_version:
                self.generation += 1
                self.unfinished = space.is_marked(db, space.MARK)
            result = work(db)
            db.execute("COMMIT")
            self._settled = True
        except BaseException as error:
            self._abandon(db, error)
            raise
        return result

    def _abandon(self, db: apsw.Connection, error: BaseException) -> None:
        """Roll back; after an I/O error, believe nothing that went through this connection."""
        # `_run_queue` takes `_began` without an open transaction as a COMMIT that happened. Here it did not.
        if db.in_transaction or isinstance(error, apsw.Error):
            self._began = False
        self._undo(db)
        if isinstance(error, (apsw.IOError, apsw.CorruptError, apsw.NotADBError)):
            self.close()

    def _undo(self, db: apsw.Connection) -> None:
        """Roll back what is open and drop what was believed of it."""
        if db.in_transaction:
            with contextlib.suppress(apsw.Error):
                db.execute("ROLLBACK")
        self._owner.forget_all()
        self._settled = True

    def finish(self, seconds: float = 0.0, *, whole: bool = False) -> None:
        """Have what was removed gone from the WAL and the free pages too; `whole`: from every page.

        A reader in another process may hold that back; then the next writer tries again.
        """
        with self.lock, connection.translated(self.path):
            if self.unfinished or (whole and space.is_marked(self.open())):
                self.unfinished = not space.finish(self.open(), seconds, whole=whole)

    # -- appends ----------------------------------------------------------------------------------

    def append(self, request: AppendRequest) -> list[Commit]:
        """Append through the queue: the thread that has the lock writes for all that wait."""
        try:
            self._queue.append(request)
            with self.lock:
                if not request.done:
                    self._run_queue(request)
            if request.error is None:
                return request.result
        except BaseException as error:
            known = "was committed" if self._settle(request) else "was not committed"
            error.add_note(f"commit {request.drafts[-1].id} {known}")
            raise
        raise request.error

    def _settle(self, request: AppendRequest) -> bool:
        """Whether an append that was interrupted is in the log; it is not tried again."""
        with self.lock:
            if request in self._queue:
                self._queue.remove(request)
            return request.done and request.error is None

    def _run_queue(self, mine: AppendRequest) -> None:
        """Append `mine` and what other threads queued: one transaction, answered after its COMMIT.

        An interrupt can come at any line. After COMMIT every append is done; before it, the appends of other
        threads return to the queue, because the interrupt was not theirs.
        """
        group = [mine]
        self._began = False
        try:
            while self._queue and len(group) < GROUP_MAX:
                other = self._queue.popleft()
                if other is not mine:
                    group.append(other)
            barrier = mine.barrier or any(request.barrier for request in group)
            self.transaction(partial(self._append_group, group), barrier=barrier)
            for request in group:
                request.done = True
        except StatorError as error:
            # Nothing of the group was committed. In a group of several, the refusal of one append never gets
            # here: `_append_each` keeps it in that append's own `error`.
            for request in group:
                request.error, request.done = error, True
        except BaseException as error:
            committed = self._began and self._db is not None and not self._db.in_transaction
            for request in group:
                request.done = committed or request is mine
                if not request.done:
                    self._queue.appendleft(request)
            if not committed:
                mine.error = error
            raise

    def _append_group(self, group: list[AppendRequest], db: apsw.Connection) -> None:
        try:
            if len(group) == 1:
                group[0].result = self._owner.append_request(db, group[0])
            else:
                self._append_each(db, group)
        finally:
            for request in group:
                request.fresh = False  # should this run again, the ids may be there already

    def _append_each(self, db: apsw.Connection, group: list[AppendRequest]) -> None:
        for request in group:
            request.error = None
            db.execute("SAVEPOINT request")
            try:
                request.result = self._owner.append_request(db, request)
            except StatorError as error:
                # This leaves the savepoint open; RELEASE below closes it in both cases.
                db.execute("ROLLBACK TO request")
                self._owner.forget(request.session)
                request.error = error
            db.execute("RELEASE request")
