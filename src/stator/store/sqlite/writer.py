"""Writing: the one connection that changes a store file, and the transactions that go through it.

Threads that append at once share a transaction (a savepoint each, one COMMIT, none acknowledged before it);
processes take turns, on a lock of our own and on SQLite's. The files are looked at before a transaction begins
and before it is answered.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Protocol, TypeVar

import apsw

from stator.errors import HeadMoved, StatorError, StoreError, StoreFailed
from stator.model.exchange.bookmark import Bookmark
from stator.model.log.commit import Commit, Draft
from stator.model.records.tables import REMOVALS
from stator.store.drafts import is_barrier
from stator.store.port import Durability
from stator.store.sqlite import connection, space
from stator.store.sqlite.connection import FileGuard, Patience
from stator.store.sqlite.store_lock import WriteLock, busy, check_log

T = TypeVar("T")
GROUP_MAX = 64
"""Appends that may share one transaction."""
TRIES = 3
"""How often a transaction whose files vanished is run again."""
CHECKPOINT_MAX = 8 * connection.CHECKPOINT_PAGES
"""Pages of the WAL from which on a checkpoint does not wait for a moment without readers: where readers overlap without
a pause, the log would grow for ever. SQLite's own locks still protect them."""
SALT_BLOCK_BYTES = 1024
MOMENT_S = 0.25
"""How long a question waits for other writers."""
PATIENCE_S = 1.0
"""How long a removal waits for readers that are about to be done."""


class AppendRequest:
    """One thread's append, from the queue to its answer."""

    __slots__ = (
        "barrier",
        "bookmark",
        "done",
        "drafts",
        "error",
        "fresh",
        "if_head",
        "removes",
        "result",
        "session",
    )

    def __init__(
        self,
        session: str,
        drafts: Sequence[Draft],
        if_head: str | None,
        barrier: bool,
        fresh: bool,
        bookmark: Bookmark | None = None,
    ) -> None:
        self.session = session
        self.drafts = drafts
        self.if_head = if_head
        self.barrier = barrier
        """Whether the caller asks to have it synced; its drafts may ask for it too."""
        self.removes = not REMOVALS.isdisjoint(map(_kind, drafts))
        self.fresh = fresh
        self.bookmark = bookmark
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


_kind: Callable[[Draft], str] = attrgetter("kind")


def _must_sync(request: AppendRequest) -> bool:
    return request.barrier or any(map(is_barrier, request.drafts))


class SaltBlock:
    """Random bytes for salts, drawn in blocks. To be used under the writer's lock, and not after a fork: a store does
    not survive one."""

    def __init__(self, draw: Callable[[int], bytes]) -> None:
        self._draw = draw
        self._block = b""
        self._used = 0

    def __call__(self, size: int) -> bytes:
        start, end = self._used, self._used + size
        if end > len(self._block):
            self._block = self._draw(max(size, SALT_BLOCK_BYTES))
            start, end = 0, size
        self._used = end
        return self._block[start:end]


class LogLength:
    """How many pages the log has, as SQLite says after each commit. An object of its own: a connection keeps it."""

    def __init__(self) -> None:
        self.pages = 0

    def __call__(self, db: apsw.Connection, name: str, pages: int) -> int:
        self.pages = pages
        return apsw.SQLITE_OK


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

    def __init__(self, owner: Owner, durability: Durability, locked: WriteLock) -> None:
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
        self.locked = locked
        self._patience = Patience(store=owner.path)
        """SQLite's busy handler: for writers that do not know our lock."""
        self._log_saved = False
        """Whether the log was removed, and everything in it copied by us: it may be missing."""
        self._log = LogLength()
        self._acknowledged = 0
        """Pages in the WAL after our last commit that was answered."""
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
            if not self._log_saved:
                check_log(self.path)
            self._log_saved = False
            self._synchronous = self._calm
            self._db = connection.open_connection(
                self.path, "write", self._synchronous, self._patience
            )
            # A first read makes SQLite open the WAL, so that the guard knows which one is ours.
            self._db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            self._guard = FileGuard(self.path)
            self._data_version = -1
            self._acknowledged = self._log.pages = 0
            self._db.set_wal_hook(self._log)
        return self._db

    def close(self, *, fold: bool = False) -> None:
        """Forget the connection and everything that was believed through it.

        `fold`: SQLite may fold the log into the file and remove it, should no other process have the file open.
        """
        db, self._db = self._db, None
        guard, self._guard = self._guard, None
        self._owner.forget_all()
        if fold and guard is not None:
            guard.permit_removal()
        if db is not None:
            with contextlib.suppress(apsw.Error):
                db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(not fold))
                db.close()
        if guard is not None:
            guard.close()

    def give_up_lost(self) -> None:
        """Close the connection if its files were removed: it keeps readers of this process from the new ones."""
        with self.lock:
            db, guard = self._db, self._guard
            if db is None or guard is None or db.in_transaction or not guard.is_lost():
                return
            try:
                self.locked.acquire(PATIENCE_S)
                self._renew(db, guard)
            finally:
                self.locked.release()

    def leave(self) -> None:
        """The store is not used any more: the last to leave folds the log into the file."""
        fold = False
        try:
            fold = self._may_fold()
        finally:
            self.close(fold=fold)
            self.locked.close()

    def _may_fold(self) -> bool:
        """Whether nobody else uses the store. First, what only a removed log holds is saved."""
        db, guard = self._db, self._guard
        # A store that was deleted, with its folder as a rule, has nothing to be folded into.
        if db is None or guard is None or not os.path.exists(self.path):
            return False
        lost = guard.is_lost()
        try:
            self.locked.acquire(PATIENCE_S)
        except StoreError:
            if lost:
                raise
            return False  # another process writes, so it is there, and leaves later
        if lost:
            with connection.translated(self.path):
                self._renew(db, guard)
                self.open()
        return self.locked.is_alone()

    def transaction(
        self,
        work: Callable[[apsw.Connection], T],
        *,
        barrier: bool = True,
        seconds: float | None = None,
    ) -> T:
        """Run `work` in a transaction that is committed, guarded and only then answered.

        One whose files were removed under it is run again on a new connection; commits are known by
        id, so nothing lands twice. `seconds` is how long to wait for other writers.
        """
        with self.lock:
            try:
                self._patience.seconds = connection.BUSY_SECONDS if seconds is None else seconds
                self.locked.acquire(self._patience.seconds)
                return self._held_transaction(work, self._sure if barrier else self._calm)
            except apsw.BusyError as error:
                raise busy(self.path, self._patience.waited_s) from error
            except apsw.Error as error:
                raise connection.translate(error, self.path) from error
            finally:
                # Here, and not beside `acquire`: an interrupt can come at any line.
                self.locked.release()

    def attempt(self, work: Callable[[apsw.Connection], object]) -> None:
        """Run `work` in a transaction where that takes no wait, and leave it where nobody can write now: for a
        question, which is answered in any case."""
        with contextlib.suppress(StoreError):
            self.transaction(work, seconds=MOMENT_S)

    def _held_transaction(self, work: Callable[[apsw.Connection], T], level: str) -> T:
        """The same, with the write lock held."""
        for _ in range(TRIES):
            db = self._db or self.open()
            guard = self._guard
            assert guard is not None
            if not guard.memory_lost():
                result = self._attempt(db, work, level)
                # After COMMIT and before the answer: a commit in a file that was unlinked must not be acknowledged.
                guard.check_store()
                if not guard.wal_lost():
                    self._data_version = db.data_version()
                    self._acknowledged = self._log.pages
                    if self._acknowledged >= connection.CHECKPOINT_PAGES:
                        self._checkpoint(db)
                    if self.unfinished:
                        self._finish(db, 0.0, whole=False)
                    return result
            self._renew(db, guard)
        raise StoreFailed(
            f"{self.path}: {self.path}-wal or {self.path}-shm was removed while this program used it",
            hint="nothing was acknowledged; close other connections of this program to the store, then try again",
            store=self.path,
        )

    def _renew(self, db: apsw.Connection, guard: FileGuard) -> None:
        """Give up a connection whose files were removed; the next one opens those that are there now."""
        if guard.wal_lost():
            self._save_log(db, guard)
            self._log_saved = True
        self.close()
        self._owner.drop_readers()

    def _save_log(self, db: apsw.Connection, guard: FileGuard) -> None:
        """Copy what only the removed log holds into the store file, where that overwrites nobody's work."""
        if guard.wal_is_vacant():
            try:
                self.locked.without_readers(PATIENCE_S)
                # Also where nothing is left to copy: it lets the next log begin at its beginning.
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
            finally:
                self.locked.admit_readers()
            return
        pages, kept = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        # What was not acknowledged is run again. A program that removes the log in order copies it first.
        if kept < min(pages, self._acknowledged):
            raise StoreFailed(
                f"{guard.wal} was removed while this program used it, and another program has written since:"
                f" {pages - kept} pages that this program wrote are in no file any more",
                hint="nothing more is acknowledged; restore the store from a backup",
                store=self.path,
            )

    def _checkpoint(self, db: apsw.Connection) -> None:
        """Copy a log that has become long into the file. In place of SQLite's own checkpoints, which do not know
        our locks."""
        try:
            if self.locked.without_readers() or self._acknowledged >= CHECKPOINT_MAX:
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error:
            return  # what was committed is in the log and stays there, and a broken disk fails the next write
        finally:
            self.locked.admit_readers()

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
            if not self.unfinished and not (whole and space.is_marked(self.open())):
                return
            try:
                self.locked.acquire(connection.BUSY_SECONDS)
                self._finish(self.open(), seconds, whole=whole)
            finally:
                self.locked.release()

    def _finish(self, db: apsw.Connection, seconds: float, *, whole: bool) -> None:
        guard = self._guard
        try:
            # With files that were removed, the next transaction deals.
            if guard is not None and not guard.is_lost() and self.locked.without_readers(seconds):
                self.unfinished = not space.finish(db, self._patience, seconds, whole=whole)
        finally:
            self.locked.admit_readers()

    # -- appends ----------------------------------------------------------------------------------

    def append(self, request: AppendRequest, landed: Callable[[], object]) -> list[Commit]:
        """Append through the queue: the thread that has the lock writes for all that wait. `landed` is called once it
        is in the log: here, so that an interrupt of it is answered with what is known of the append."""
        try:
            self._queue.append(request)
            with self.lock:
                if not request.done:
                    self._run_queue(request)
            if request.error is None:
                if request.removes:
                    self.finish(PATIENCE_S)
                landed()
                return request.result
        except BaseException as error:
            known = "was committed" if self._settle(request) else "was not committed"
            if request.drafts:
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
            # Where barriers are synced as all others are, nobody need look for them.
            barrier = self._sure != self._calm and any(map(_must_sync, group))
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
