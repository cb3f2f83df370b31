"""The SQLite store: one file, many processes, nothing acknowledged that is not on disk.

Appends go through one write connection. Threads that append at once share a transaction (a savepoint each,
one COMMIT, none acknowledged before it); processes take turns on a lock. Reads
run on connections of their own.
"""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from stator.errors import (
    StatorError,
    StoreBusy,
    StoreCorrupt,
    StoreFailed,
    StoreReadOnly,
    WrongProcess,
)
from stator.model.exchange.bookmark import Bookmark
from stator.model.exchange.packed import Packed
from stator.model.log.commit import Commit, Draft
from stator.model.log.delta import Op, Version
from stator.model.log.query import (
    CallQuery,
    CallRow,
    Finding,
    Head,
    Holder,
    KeyTouch,
    Lease,
    Page,
    Read,
    SessionQuery,
    SessionRow,
    StoreInfo,
    TurnRow,
    UsageBy,
    check_limit,
    check_limits,
)
from stator.model.records.types import Entry
from stator.model.sessions.ownership import Ownership
from stator.model.views.sql_views import AS_IS, Shown
from stator.store.drafts import opening_record
from stator.store.port import Durability
from stator.store.reads_together import answered
from stator.store.sqlite import bookmarks, connection, lock_holders, space
from stator.store.sqlite.append import Appender
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.driver_lock import DriverLocks
from stator.store.sqlite.lease_table import Leases
from stator.store.sqlite.projection import SEQ_MASK, SQL
from stator.store.sqlite.queries import (
    calls,
    chosen,
    commits,
    heads,
    places,
    session_list,
    state,
    touches,
    turns,
    usage,
)
from stator.store.sqlite.queries.lineage import SessionPlace
from stator.store.sqlite.queries.session_counts import Counting
from stator.store.sqlite.queries.tails import KeptTails
from stator.store.sqlite.read_pool import ReadPool
from stator.store.sqlite.store_lock import ReadLock, WriteLock, check_log
from stator.store.sqlite.writer import PATIENCE_S, AppendRequest, SaltBlock, Writer

if TYPE_CHECKING:  # loaded only by `verify`
    from stator.model.log.log_walk import SessionLog

T = TypeVar("T")
OWN_META = ("store", "blob_key", "epoch")
"""What a store says of itself that every program needs."""


def _nobody_watches() -> None:
    """What is called after a write until something else is set."""


def _leave(pid: int, readers: ReadPool, writer: Writer, drivers: DriverLocks) -> None:
    """Close connections and give up locks; in a forked child, which has none, nothing."""
    if os.getpid() != pid:
        return
    try:
        readers.close()
        writer.leave()
    finally:
        drivers.close()


class SqliteStore:
    """See `store.port.StorePort` for what each method promises."""

    remote = False
    needs_tenant = False

    def __init__(
        self,
        path: str,
        *,
        durability: Durability = "full",
        read_only: bool = False,
        redact: bool = True,
        damaged: bool = False,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
        salts: Callable[[int], bytes] | None = None,
    ) -> None:
        """Open an existing store. `clock` gives µs since 1970, `salts` that many random bytes.

        `damaged` opens a file that is refused otherwise, for `logs` and `audit` alone.
        """
        self.wrote: Callable[[], object] = _nobody_watches
        self.path = os.path.realpath(path) if path else ""
        self._durability = durability
        self._read_only = read_only or damaged
        self._pid = os.getpid()
        self._closed = False
        connection.check_path(self.path)
        if not damaged:
            check_log(self.path)  # before we are present ourselves
        locked = WriteLock(self.path)
        locked.enter(create=False)
        self._readers = ReadPool(self.path)
        self._tails = KeptTails()
        try:
            meta = {} if damaged else self._read_meta()
            locked.enter(create=not damaged)
        except BaseException:
            self._readers.close()
            locked.close()
            raise
        self._store_id = str(meta.get("store", ""))
        self._blob_key = bytes(meta.get("blob_key", b""))
        self._counting = Counting()
        self._appender = Appender(
            self.path,
            self._blob_key,
            durability,
            redact=redact,
            clock=clock,
            salts=salts or SaltBlock(os.urandom),
            drop_readers=self._readers.drop,
            locked=locked,
        )
        self._writer = self._appender.writer
        self._readers.on_stale = self._writer.give_up_lost
        self._leases = Leases(self._appender)
        # Also where a program ends or forgets it without closing: SQLite alone would fold the log without our locks.
        # None of these refers to this object, which would never be forgotten then.
        drivers = self._appender.drivers
        self._leave = weakref.finalize(
            self, _leave, self._pid, self._readers, self._writer, drivers
        )

    @property
    def ownership(self) -> Ownership:
        return self._appender.ownership

    @ownership.setter
    def ownership(self, known: Ownership) -> None:
        self._appender.ownership = known

    def _read_meta(self) -> dict[str, Any]:
        """What the file says of itself; the connection that reads it is the first of the readers."""
        with self._readers.snapshot() as db:
            # not all rows: how far sources were read is there too, and can be long
            rows = many(db, "SELECT key, value FROM meta WHERE key IN (?, ?, ?)", OWN_META)
            meta: dict[str, Any] = dict(rows)
            wrong = [
                name
                for name, kind in (("store", str), ("blob_key", bytes), ("epoch", int))
                if not isinstance(meta.get(name), kind)
            ]
        if wrong:
            raise StoreCorrupt(
                f"{self.path}: its metadata is incomplete: {', '.join(wrong)}",
                hint="stator verify shows what can be read; restore a backup",
                store=self.path,
            )
        return meta

    # -- life -------------------------------------------------------------------------------------

    def info(self) -> StoreInfo:
        with self._reading() as db:
            version = db.pragma("user_version")
            pages = db.pragma("page_count")
            (tails,) = one(db, SQL["session_tails"])
            unfinished = space.is_marked(db)
        return StoreInfo(
            id=self._store_id,
            url=f"sqlite:///{self.path}",
            kind="sqlite",
            schema=int(version),
            durability=self._durability,
            read_only=self._read_only,
            detail={
                "path": self.path,
                "bytes": int(pages) * 4096,
                "sqlite": apsw.sqlite_lib_version(),
                "tails": tails,
                "unfinished": unfinished,
                "readers": lock_holders.readers(self.path) if unfinished else [],
            },
        )

    def close(self) -> None:
        if self._closed or os.getpid() != self._pid:
            return
        with self._writer.lock:
            try:
                self._finish_writing()
            finally:
                # Whatever failed before: a lock that is kept would keep others out for as long as this process lives.
                self._closed = True
                self._leave()

    def _finish_writing(self) -> None:
        for held in list(self._leases.held.values()):
            with contextlib.suppress(StatorError):
                self.release(held)
        if self._appender.unflushed:
            with contextlib.suppress(StatorError):
                self._writer.transaction(self._appender.flush_all)
        if self._writer.removed:
            with contextlib.suppress(StatorError):
                self._writer.finish(whole=True)

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def sync(self) -> None:
        # Any write under synchronous=FULL syncs the WAL, and with it everything before; this one changes nothing.
        self._write(lambda db: db.execute("UPDATE meta SET value = value WHERE key = 'epoch'"))
        self._writer.finish(PATIENCE_S, whole=True)

    def _check(self) -> None:
        if self._closed:
            raise WrongProcess("this store is closed", hint="connect again", store=self.path)
        if os.getpid() != self._pid:
            raise WrongProcess(
                "this store was opened by another process and does not survive a fork",
                hint="connect again in the child",
                store=self.path,
            )

    # -- connections ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        """A read connection with one consistent snapshot."""
        self._check()
        with self._readers.snapshot() as db:
            yield db

    def _write(self, work: Callable[[apsw.Connection], T], *, seconds: float | None = None) -> T:
        self._check_writable()
        return self._writer.transaction(work, seconds=seconds)

    def _check_writable(self) -> None:
        self._check()
        if self._read_only:
            raise StoreReadOnly("this store was opened for reading", store=self.path)

    # -- sessions ---------------------------------------------------------------------------------

    def create(
        self, drafts: Sequence[Draft], *, bookmark: Bookmark | None = None
    ) -> tuple[SessionRow, bool]:
        record = opening_record(drafts)
        session, created = self._write(
            lambda db: self._appender.create(db, record, drafts, bookmark),
            seconds=connection.OPEN_S if record.mode == "driven" else None,
        )
        self.wrote()
        return self.session(session), created

    def session(self, session: str, *, counted: bool = False) -> SessionRow:
        with self._reading() as db:
            place = places.load_place(db, session)
            counts = self._counting.counts(db, self._with_tail(db, place)) if counted else None
            return session_list.row_of(db, self._appender.drivers, place, counts)

    def together(self, *reads: Read) -> list[Any]:
        self._check()
        with self._readers.shared():
            return answered(self, reads)

    def sessions(
        self, query: SessionQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[SessionRow]:
        check_limit(limit)
        with self._reading() as db:
            return session_list.page(db, self._appender.drivers, query, cursor, limit)

    # -- the lease --------------------------------------------------------------------------------

    def acquire(
        self, session: str, holder: Holder, *, take: bool = False, over: int = 0, newest: int = 0
    ) -> Lease:
        self._check_writable()
        try:
            lease = self._leases.acquire(session, holder, take, over)
        except StoreBusy as error:
            raise self._leases.named(error, self.session(session)) from error
        if not newest:
            return lease
        last = self.commits(session, newest_first=True, limit=newest, load=False)
        return Lease(session, lease.epoch, lease.displaced, tuple(last))

    def release(self, lease: Lease) -> None:
        self._check_writable()
        self._leases.release(lease)

    # -- appending --------------------------------------------------------------------------------

    def append(
        self,
        session: str,
        drafts: Sequence[Draft],
        *,
        if_head: str | None = None,
        barrier: bool = False,
        fresh: bool = False,
        bookmark: Bookmark | None = None,
    ) -> list[Commit]:
        self._check_writable()
        if not drafts and bookmark is None:
            return []
        request = AppendRequest(session, drafts, if_head, barrier, fresh, bookmark)
        return self._writer.append(request, self.wrote)

    def bookmark(self, session: str, name: str) -> Bookmark | None:
        with self._reading() as db:
            return bookmarks.read(db, places.load_place(db, session).s, name)

    # -- reading ----------------------------------------------------------------------------------

    def _read(self, session: str, question: Callable[[apsw.Connection, SessionPlace], T]) -> T:
        with self._reading() as db:
            return question(db, self._place(db, session))

    def _place(self, db: apsw.Connection, session: str) -> SessionPlace:
        """A session's place in a reader's snapshot, with its tail."""
        known = self._readers.places
        if session not in known:
            known[session] = self._with_tail(db, places.load_place(db, session))
        return known[session]

    def _with_tail(self, db: apsw.Connection, place: SessionPlace) -> SessionPlace:
        session = place.record.id
        if not place.dirty:
            self._tails.forget(session)
            return place
        # A driver that asks about its own session does not decode what it just wrote.
        live = self._appender.live.get(session)
        written = list(live.place.tail.commits) if live is not None else ()
        place.tail = self._tails.read(db, place, written)
        return place

    def head(self, session: str) -> Head:
        with self._reading() as db:
            place = places.load_place(db, session)
            head = turns.head_by_last_rows(db, place) if place.dirty else None
            return head or turns.read_head(db, self._with_tail(db, place))

    def heads(
        self, known: Mapping[str, int], *, project: str | None = None, others: bool = False
    ) -> dict[str, int]:
        with self._reading() as db:
            return heads.heads(db, known, project, others=others)

    def commits(
        self,
        session: str,
        *,
        after: int = 0,
        upto: int | None = None,
        newest_first: bool = False,
        limit: int = 1000,
        load: bool = True,
        seqs: Collection[int] | None = None,
        ids: Collection[str] | None = None,
        rewinds: bool = False,
        origins: Collection[tuple[str, str]] | None = None,
    ) -> list[Commit]:
        check_limit(limit)
        with self._reading() as db:
            if ids is None and origins is None and not rewinds:
                place = places.load_place(db, session)
            else:
                place = self._place(db, session)
                seqs = chosen.chosen_seqs(
                    db, place, seqs, ids=ids, origins=origins, rewinds=rewinds, upto=upto
                )
            return commits.read_commits(
                db,
                place,
                after=after,
                upto=upto,
                newest_first=newest_first,
                limit=limit,
                load=load,
                seqs=seqs,
            )

    def packed(
        self, session: str, *, after: int = 0, upto: int | None = None, limit: int = 1000
    ) -> list[Packed]:
        check_limit(limit)
        with self._reading() as db:
            place = places.load_place(db, session)
            return commits.read_packed(db, place, after=after, upto=upto, limit=limit)

    def locate(self, text: str, session: str | None = None) -> list[tuple[str, int]]:
        with self._reading() as db:
            return places.locate(db, text, None if session is None else self._place(db, session))

    def turns(
        self,
        session: str,
        *,
        after: int = 0,
        upto: int | None = None,
        newest_first: bool = False,
        limit: int = 1000,
        keys: Collection[str] | None = None,
        prompts: bool = False,
        ends: bool = False,
        standing: bool = False,
    ) -> list[TurnRow]:
        check_limit(limit)
        return self._read(
            session,
            lambda db, place: chosen.chosen_turns(
                db,
                place,
                after=after,
                upto=upto,
                newest_first=newest_first,
                limit=limit,
                keys=keys,
                prompts=prompts,
                ends=ends,
                standing=standing,
            ),
        )

    def entries(
        self,
        session: str,
        *collections: str,
        at: int | None = None,
        limit: int | Mapping[str, int] | None = None,
        keys: Collection[str] | None = None,
        prefix: str = "",
    ) -> list[Entry]:
        limits = check_limits(collections, limit)
        return self._read(
            session, lambda db, place: state.read_chosen(db, place, limits, at, keys, prefix)
        )

    def versions(
        self, session: str, *, after: int, upto: int, collections: Sequence[str] = ()
    ) -> list[Version]:
        return self._read(
            session,
            lambda db, place: state.read_versions(
                db, place, after=after, upto=upto, collections=collections
            ),
        )

    def replaced(self, session: str, ops: Sequence[Op]) -> list[Version | None]:
        with self._reading() as db:
            return state.read_replaced(db, places.load_place(db, session), ops)

    def touches(
        self,
        collection: str,
        key: str,
        *,
        session: str | None = None,
        project: str | None = None,
        limit: int = 100,
    ) -> list[KeyTouch]:
        check_limit(limit)
        with self._reading() as db:
            if session is not None:
                place = self._place(db, session)
                return touches.place_touches(db, place, collection, key, limit)
            return touches.store_touches(db, self._place, collection, key, project, limit)

    def calls(
        self, query: CallQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[CallRow]:
        check_limit(limit)
        with self._reading() as db:
            if query.session is not None:
                place = self._place(db, query.session)
                before = cursor[0] if cursor else SEQ_MASK
                return calls.read_calls(db, place, query, before=before, limit=limit)
            return calls.store_calls(db, self._place, query, cursor, limit)

    def chunk_heads(self, chunk: int | None = None) -> list[tuple[str, int, int]]:
        """Of every session, or of a chunk of them: its id, its head, and when that was appended. Indexes compare it."""
        with self._reading() as db:
            return list(session_list.chunk_heads(db, chunk))

    def head_sums(self) -> dict[int, str]:
        """By chunk of sessions, what differs as soon as its `chunk_heads` do; much quicker to have."""
        with self._reading() as db:
            return session_list.head_sums(db)

    # -- keeping ----------------------------------------------------------------------------------

    def ingest(
        self, commits: Iterable[Commit], *, projects: Mapping[str, str] | None = None
    ) -> int:
        attempts = count()

        def work(db: apsw.Connection) -> tuple[int, bool]:
            if next(attempts) and isinstance(commits, Iterator):
                raise StoreFailed(
                    f"{self.path}: the write-ahead log was lost",
                    hint="nothing was written; import them again",
                )
            return self._appender.ingest(db, commits, projects or {})

        new, erased = self._write(work)
        self.wrote()
        if erased:
            self._writer.finish(PATIENCE_S)
        return new

    def rebuild(self) -> None:
        from stator.model.log.log_walk import must_verify  # long, and seldom asked for
        from stator.store.sqlite.log_scan import LogScan

        def work(db: apsw.Connection) -> None:
            must_verify(LogScan(db, self._blob_key).logs())
            self._appender.rebuild(db)

        self._appender.forget_all()
        self._write(work)
        self._appender.forget_all()

    def logs(self, session: str | None = None) -> Iterator[SessionLog]:
        from stator.store.sqlite.log_scan import LogScan

        with self._auditing() as db:
            yield from LogScan(db, self._blob_key).logs(session)

    def audit(self, *, skip: Collection[str] = ()) -> Iterator[Finding]:
        from stator.store.sqlite import audit as checks

        with self._auditing() as db:
            yield from checks.audit(db, skip)

    @contextlib.contextmanager
    def _auditing(self) -> Iterator[apsw.Connection]:
        """A connection of its own, with one snapshot, that reads past damage."""
        self._check()
        lock = ReadLock(self.path)
        try:
            lock.acquire()
            with contextlib.closing(connection.open_to_audit(self.path)) as db:
                db.execute("BEGIN")
                yield db
        finally:
            lock.close()

    def usage(self, *, by: UsageBy = "content", session: str | None = None) -> dict[str, int]:
        with self._reading() as db:
            return usage.usage(db, by, session, self._counting, self._place)

    def sql(
        self, query: str, *, row_limit: int = 1000, seconds: float = 5.0, shown: Shown = AS_IS
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        self._check()
        if not self._read_only:
            self._writer.attempt(self._appender.flush_dirty)  # views show projections only
        from stator.store.sqlite.sandbox import process  # few programs ask in SQL

        return process.run(self.path, query, row_limit=row_limit, seconds=seconds, shown=shown)
