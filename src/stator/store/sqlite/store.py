"""The SQLite store: one file, many processes, nothing acknowledged that is not on disk.

Appends go through one write connection. Threads that append at once share a transaction (a
savepoint each, one COMMIT, none told before it); processes take turns on SQLite's write lock. Reads
run on connections of their own.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import apsw
import msgspec

from stator.errors import (
    BadTurn,
    Busy,
    Conflict,
    IdReused,
    InvalidInput,
    StatorError,
    StoreCorrupt,
    StoreReadOnly,
    WrongProcess,
)
from stator.model import chain
from stator.model.commit import CONTINUED, Commit, Draft, Upsert
from stator.model.delta import Op, Version
from stator.model.ids import check_id, from_bytes, to_bytes
from stator.model.query import (
    CallQuery,
    CallRow,
    Counts,
    Finding,
    Head,
    Holder,
    Lease,
    Page,
    SessionQuery,
    SessionRow,
    StoreInfo,
    Touch,
    TurnRow,
    check_limit,
)
from stator.model.seal import Place as Spot
from stator.model.seal import same_part, scrub, seal
from stator.model.session import check_lease, check_transition
from stator.model.state import Entry, SessionRecord
from stator.store.port import Durability
from stator.store.rows import to_row
from stator.store.sqlite import (
    audit,
    calls,
    connection,
    erasure,
    lease,
    listing,
    projection,
    reader,
    sandbox,
    touches,
    turns,
)
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.live import Live
from stator.store.sqlite.projection import SEQ_MASK, SQL, Ledger
from stator.store.sqlite.reader import Place
from stator.store.sqlite.writer import Request, Writer

if TYPE_CHECKING:  # loaded by whoever writes first: reading does without its patterns
    from stator.model.redact import Redactor

T = TypeVar("T")
TAILS_MAX = 1000
"""Unflushed commits one process may leave over all its sessions."""

_pack = msgspec.msgpack.Encoder().encode
_encode_record = msgspec.json.Encoder(order="sorted").encode


class SqliteStore:
    """See `store.port.Store` for what each method promises."""

    def __init__(
        self,
        path: str,
        *,
        durability: Durability = "full",
        read_only: bool = False,
        redact: bool = True,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
        salts: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """Open an existing store. `clock` gives µs since 1970, `salts` that many random bytes."""
        self.path = os.path.realpath(path) if path else ""
        self._durability = durability
        self._read_only = read_only
        self._redact = redact
        self._clock = clock
        self._salts = salts
        self._pid = os.getpid()
        self._closed = False
        self._live: dict[str, Live] = {}
        self._unflushed = 0
        self._recent: set[bytes] = set()
        """Ids of unflushed commits this process knows of, whatever their session."""
        self._idle: list[apsw.Connection] = []
        self._leases: dict[int, Lease] = {}
        self._writer = Writer(self, durability)
        first = connection.open_connection(self.path, "read")
        self._idle.append(first)
        with connection.translated(self.path):
            meta: dict[str, Any] = dict(many(first, "SELECT key, value FROM meta"))
        if not {"store", "blob_key", "epoch"} <= meta.keys():
            raise StoreCorrupt(f"{self.path}: it does not say what it is", hint="restore a copy")
        self._store_id = str(meta["store"])
        self._blob_key = bytes(meta["blob_key"])

    # -- life -------------------------------------------------------------------------------------

    def info(self) -> StoreInfo:
        with self._reading() as db:
            version = db.pragma("user_version")
            pages = db.pragma("page_count")
            (tails,) = one(db, SQL["session_tails"])
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
            },
        )

    def close(self) -> None:
        if self._closed or os.getpid() != self._pid:
            return
        with self._writer.lock:
            for held in list(self._leases.values()):
                with contextlib.suppress(StatorError):
                    self.release(held)
            if self._unflushed:
                with contextlib.suppress(StatorError):
                    self._writer.transaction(self._flush_all)
            self._closed = True
            self.drop_readers()
            self._writer.close()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def sync(self) -> None:
        # Any write under synchronous=FULL syncs the WAL, and with it everything before; this one changes nothing.
        self._write(lambda db: db.execute("UPDATE meta SET value = value WHERE key = 'epoch'"))

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
        try:
            db = self._idle.pop()
        except IndexError:
            db = connection.open_connection(self.path, "read")
        try:
            with connection.translated(self.path):
                db.execute("BEGIN")
                yield db
        finally:
            if db.in_transaction:
                with contextlib.suppress(apsw.Error):
                    db.execute("ROLLBACK")
            if self._closed:
                db.close()
            else:
                self._idle.append(db)

    def _write(self, work: Callable[[apsw.Connection], T]) -> T:
        self._check_writable()
        return self._writer.transaction(work)

    def _check_writable(self) -> None:
        self._check()
        if self._read_only:
            raise StoreReadOnly("this store was opened for reading", store=self.path)

    def drop_readers(self) -> None:
        """Close idle readers: one that maps the files of a lost log keeps SQLite from seeing the new."""
        while self._idle:
            self._idle.pop().close()

    def forget_all(self) -> None:
        self._live.clear()
        self._recent.clear()
        self._unflushed = 0

    # -- sessions ---------------------------------------------------------------------------------

    def create(self, drafts: Sequence[Draft]) -> tuple[SessionRow, bool]:
        record = opening_record(drafts)
        session, created = self._write(lambda db: self._create(db, record, drafts))
        return self.session(session), created

    def _create(
        self, db: apsw.Connection, record: SessionRecord, drafts: Sequence[Draft]
    ) -> tuple[str, bool]:
        if self._redact:
            record, drafts = self._scrub_names(record, drafts)
        there = one(db, SQL["session_by_name"], (record.tenant, record.project, record.name))
        if there is not None:
            return from_bytes(there[1], "session"), False
        live = self._begin(db, record, drafts[0])
        for draft in drafts:
            self._append_one(db, live, draft)
        self._flush(db, live)
        return record.id, True

    def _begin(self, db: apsw.Connection, record: SessionRecord, first: Draft) -> Live:
        """A row for a session that has no commit yet; what its lineage lends it is flushed."""
        if one(db, SQL["session_by_id"], (to_bytes(record.id),)):
            raise Conflict(f"session {record.id} exists under another name", session=record.id)
        if one(db, SQL["session_by_name"], (record.tenant, record.project, record.name)):
            raise Conflict(
                f"there is another session {record.name!r:.80} in {record.project!r:.80}",
                hint="close and rename one of them, or use another project",
                session=record.id,
            )
        for segment in record.lineage:
            self._flush_session(db, segment.session)
        self._insert_session(db, record)
        return self._open_live(db, record.id, first=first)

    def _scrub_names(
        self, record: SessionRecord, drafts: Sequence[Draft]
    ) -> tuple[SessionRecord, Sequence[Draft]]:
        """What a session is found by, redacted under the store's key: the same name, the same session."""
        scrub = _redactor(self._blob_key.hex()).scrub
        clean = msgspec.structs.replace(
            record,
            name=scrub(record.name),
            agent=scrub(record.agent),
            project=scrub(record.project),
            tenant=scrub(record.tenant),
            aliases=[[scrub(part) for part in alias] for alias in record.aliases],
        )
        changes = tuple(
            Upsert("session", clean) if getattr(change, "record", None) is record else change
            for change in drafts[0].changes
        )
        return clean, [msgspec.structs.replace(drafts[0], changes=changes), *drafts[1:]]

    def _insert_session(self, db: apsw.Connection, record: SessionRecord) -> int:
        now = record.created
        low = record.lineage[-1].upto if record.lineage else 0
        row = (
            to_bytes(record.id),
            record.tenant,
            record.project,
            record.name,
            record.agent,
            record.mode,
            record.status,
            to_bytes(record.parent.session) if record.parent else None,
            _encode_record(record),
            now,
            now,
            low,
            b"",
        )
        s: int = one(db, SQL["session_insert"], row)[0]
        for source, foreign_id in record.aliases:
            db.execute(SQL["alias_insert"], (record.tenant, source, foreign_id, s))
        return s

    def session(self, session: str) -> SessionRow:
        with self._reading() as db:
            return listing.row_of(self._lease_path, self._place(db, session))

    def sessions(
        self, query: SessionQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[SessionRow]:
        check_limit(limit)
        with self._reading() as db:
            return listing.page(db, self._lease_path, query, cursor, limit)

    # -- the lease --------------------------------------------------------------------------------

    @property
    def _lease_path(self) -> str:
        return self.path + "-lease"

    def acquire(self, session: str, holder: Holder, *, take: bool = False) -> Lease:
        locked: list[int] = []
        try:
            granted = self._write(lambda db: self._acquire(db, session, holder, take, locked))
        except BaseException:
            for epoch in locked:  # it was never published, and is the next acquirer's
                lease.let_go(self._lease_path, epoch)
            raise
        self._leases[granted.epoch] = granted
        return granted

    def _acquire(
        self, db: apsw.Connection, session: str, holder: Holder, take: bool, locked: list[int]
    ) -> Lease:
        place = reader.load_place(db, session, with_tail=False)
        current = lease.holder(self._lease_path, place.holder, place.epoch)
        if current is not None and current.live and not take:
            raise Busy(
                f"session {place.record.name!r} ({session}) is driven by {current.program or 'a program'}"
                f" on {current.host}, pid {current.pid}, since {current.since}",
                holder=current,
                hint='open it with busy="read" to look, "fork" to branch, "take" to displace it',
                session=session,
            )
        epoch: int = one(db, SQL["next_epoch"])[0]
        # Locked before the epoch is published: nobody can find it unheld.
        lease.hold(self._lease_path, epoch)
        locked.append(epoch)
        db.execute(
            SQL["session_lease"],
            (epoch, _pack(msgspec.structs.replace(holder, epoch=epoch)), place.s),
        )
        self.forget(session)
        return Lease(session, epoch, current if current and current.live else None)

    def release(self, lease_: Lease) -> None:
        self._write(lambda db: self._release(db, lease_))
        self._leases.pop(lease_.epoch, None)
        lease.let_go(self._lease_path, lease_.epoch)

    def _release(self, db: apsw.Connection, held: Lease) -> None:
        live = self._session_live(db, held.session)
        if len(live.place.tail):
            self._flush(db, live)
        if live.place.epoch == held.epoch:
            db.execute(SQL["session_lease"], (held.epoch, None, live.place.s))
            live.place.holder = None

    # -- appending --------------------------------------------------------------------------------

    def append(
        self,
        session: str,
        drafts: Sequence[Draft],
        *,
        if_head: str | None = None,
        barrier: bool = False,
        fresh: bool = False,
    ) -> list[Commit]:
        self._check_writable()
        if not drafts:
            return []
        commits = self._writer.append(Request(session, drafts, if_head, barrier, fresh))
        if any(draft.kind == "erasure" for draft in drafts):
            self._writer.truncate()
        return commits

    def append_request(self, db: apsw.Connection, request: Request) -> list[Commit]:
        live = self._session_live(db, request.session)
        if request.if_head is not None:
            first = scrub(request.drafts[0], live.redactor)
            if (
                self._already(db, live, first) is None
            ):  # else it landed, and is only asked for again
                request.check_head(live.hash, live.seq)
        commits = []
        for draft in request.drafts:
            live = self._session_live(db, request.session)  # an erasure may have dropped it
            commits.append(self._append_one(db, live, draft, request.fresh))
        if len(live.place.tail) >= projection.TAIL_MAX:
            self._flush(db, live)
        elif self._unflushed >= TAILS_MAX:
            for other in list(self._live.values()):
                self._flush(db, other)
        return commits

    def _append_one(
        self, db: apsw.Connection, live: Live, draft: Draft, fresh: bool = False
    ) -> Commit:
        """Seal one draft and write its row; the caller's transaction makes it durable."""
        place = live.place
        session = place.record.id
        if draft.session != session:
            raise InvalidInput(f"draft {draft.id} is for another session", session=draft.session)
        if draft.origin is not None:
            draft = scrub(draft, live.redactor)  # what is compared below is what was recorded
        if not fresh or draft.origin is not None:
            there = self._already(db, live, draft)
            if there is not None:
                return there
        if draft.kind in ("open", "fork"):
            if not live.unborn:
                raise InvalidInput(f"session {session} has begun already", path="$.kind")
        else:
            check_lease(
                mode=place.record.mode,
                kind=draft.kind,
                epoch=draft.epoch,
                current=place.epoch if place.holder else 0,
                session=session,
            )
            check_transition(draft.kind, place.record.status, session)
        spot = Spot(live.seq + 1, next_turn(draft, live), self._clock(), live.hash)
        sealed = seal(draft, spot, live, live.redactor, self._salts)
        self._insert(db, live, sealed.commit, sealed.keys)
        if draft.kind == "erasure":
            self._flush(db, live)
            erasure.erase(db, live.place, draft, sealed.commit.seq, self._digest(place))
            self.forget_all()
        return sealed.commit

    def _insert(self, db: apsw.Connection, live: Live, commit: Commit, keys: Sequence[str]) -> None:
        place = live.place
        key = reader.key(place.s, commit.seq)
        row = to_row(commit, self._digest(place))
        for digest, data, size in row.blobs:
            slot = put_blob(db, digest, data, size)
            db.execute(SQL["blob_use_insert"], (slot, key))
        db.execute(SQL["log_insert"], (key, row.id, row.hash, row.salts, row.body))
        if not place.dirty:
            db.execute(SQL["session_dirty"], (place.s,))
            place.dirty = True
        before = place.record
        live.advance(commit, keys)
        self._recent.add(row.id)
        self._unflushed += 1
        if place.record is not before:
            record = place.record
            db.execute(
                SQL["session_record"],
                (
                    record.name,
                    record.agent,
                    record.status,
                    _encode_record(record),
                    commit.at,
                    place.s,
                ),
            )

    def _already(self, db: apsw.Connection, live: Live, draft: Draft) -> Commit | None:
        """The commit this draft already is, or `IdReused`; None if it is new."""
        identifier = to_bytes(check_id(draft.id, "commit"))
        seq = live.place.tail.ids.get(identifier)
        if seq is None and identifier in self._recent:
            raise IdReused(f"commit {draft.id} is in another session", commit=draft.id)
        if seq is None:
            key = projection.find_commit(db, identifier)
            if key is not None:
                owner, seq = key >> projection.SEQ_BITS, key & SEQ_MASK
                if not any(x.s == owner and seq <= x.upto for x in live.place.stretches):
                    raise IdReused(f"commit {draft.id} is in another session", commit=draft.id)
        if seq is not None:
            commit = self._read_at(db, live.place, seq)
            before = _Past(db, live.place, seq - 1)
            if same_part(draft, commit, before, live.redactor):
                return commit
            raise IdReused(
                f"commit {draft.id} is @{seq} already, with another body",
                hint="make a new id for a new commit",
                commit=draft.id,
                session=draft.session,
            )
        return self._by_origin(db, live, draft)

    def _by_origin(self, db: apsw.Connection, live: Live, draft: Draft) -> Commit | None:
        if draft.origin is None:
            return None
        slot = (draft.kind, *draft.origin, draft.attempt)
        seq = live.place.tail.origins.get(slot)
        if seq is None:
            for stretch in live.place.stretches:
                row = one(db, SQL["origin_find"], (stretch.s, *slot))
                if row is not None and row[0] <= stretch.upto:
                    seq = row[0]
        return None if seq is None else self._read_at(db, live.place, seq)

    def _read_at(self, db: apsw.Connection, place: Place, seq: int) -> Commit:
        return reader.read_commits(
            db, place, after=seq - 1, upto=seq, newest_first=False, limit=1, load=True
        )[0]

    def _session_live(self, db: apsw.Connection, session: str) -> Live:
        live = self._live.get(session)
        if live is None:
            live = self._open_live(db, session)
        elif live.generation != self._writer.generation and self._changed(db, live):
            self.forget(session)
            live = self._open_live(db, session)
        live.generation = self._writer.generation
        return live

    def _changed(self, db: apsw.Connection, live: Live) -> bool:
        """Whether someone else moved this session's head, lease or projections."""
        place = live.place
        row = one(db, SQL["session_by_id"], (to_bytes(place.record.id),))
        if row is None or row[2] != place.epoch or row[5] != place.flushed:
            return True
        return reader.last_seq(db, place.stretches[-1]) != live.seq

    def _open_live(self, db: apsw.Connection, session: str, first: Draft | None = None) -> Live:
        place = reader.load_place(db, session)
        live = Live(db, place, self._redactor(db, place, first), unborn=first is not None)
        live.generation = self._writer.generation
        self._live[session] = live
        self._unflushed += len(place.tail)
        self._recent.update(place.tail.ids)
        return live

    def forget(self, session: str) -> None:
        live = self._live.pop(session, None)
        if live is not None:
            self._unflushed -= len(live.place.tail)
            self._recent.difference_update(live.place.tail.ids)

    def _redactor(self, db: apsw.Connection, place: Place, first: Draft | None) -> Redactor | None:
        """The session's redactor: its key is content of the first commit of its oldest ancestor."""
        if not self._redact:
            return None
        key = ""
        if first is not None and first.kind == "open":
            key = first.key
        else:
            oldest = reader.read_one(db, place.stretches[0], 1)
            if isinstance(oldest.content.get("key"), bytes):
                key = oldest.value("key")
        # Without a key of its own (or after it was erased), one that the store alone knows.
        first_id = place.stretches[0].session
        return _redactor(key or hmac.digest(self._blob_key, first_id.encode(), "sha256").hex())

    def _digest(self, place: Place) -> Callable[[bytes], bytes]:
        """Blobs are addressed by a digest keyed per store and tenant: equality across tenants does not show."""
        secret = self._blob_key + place.record.tenant.encode()
        return lambda data: hmac.digest(secret, data, "sha256")

    # -- flushing ---------------------------------------------------------------------------------

    def _flush(self, db: apsw.Connection, live: Live) -> None:
        place = live.place
        if not len(place.tail):
            return
        self._unflushed -= len(place.tail)
        place.ledger = projection.flush(
            db, place.s, place.tail, place.ledger, place.low, place.lineage
        )
        place.flushed = live.seq
        place.dirty = False
        self._recent.difference_update(place.tail.ids)
        place.tail = projection.Tail()

    def _flush_session(self, db: apsw.Connection, session: str) -> None:
        self._flush(db, self._session_live(db, session))

    def _flush_all(self, db: apsw.Connection) -> None:
        for session in list(self._live):
            self._flush_session(db, session)

    def _flush_dirty(self, db: apsw.Connection) -> None:
        for identifier in listing.dirty(db):
            self._flush_session(db, from_bytes(identifier, "session"))

    def rebuild(self) -> None:
        self.forget_all()
        self._write(self._rebuild)
        self.forget_all()

    def _rebuild(self, db: apsw.Connection) -> None:
        projection.wipe(db)
        sessions = many(db, SQL["session_ids"])
        for s, identifier in sessions:
            place = reader.load_place(db, from_bytes(identifier, "session"), with_tail=False)
            db.execute(SQL["session_reset"], (place.low, b"", s))
            place.flushed, place.ledger = place.low, Ledger()
            for tail in reader.tails(db, place):
                place.ledger = projection.flush(db, s, tail, place.ledger, place.low, place.lineage)
        self._unflushed = 0

    # -- reading ----------------------------------------------------------------------------------

    def _read(self, session: str, question: Callable[[apsw.Connection, Place], T]) -> T:
        with self._reading() as db:
            return question(db, self._place(db, session))

    def _place(self, db: apsw.Connection, session: str) -> Place:
        """A session's place in a reader's snapshot; its tail from this process's writer if that is the same.

        So that a driver who asks about its own session does not read back what it just wrote.
        """
        place = reader.load_place(db, session, with_tail=False)
        if not place.dirty:
            return place
        live = self._live.get(session)
        same = live is not None and live.place.flushed == place.flushed
        shared = live.place.tail.copy() if live is not None and same else None
        if shared and shared.commits[-1].seq == reader.last_seq(db, place.stretches[-1]):
            place.tail = shared
        else:
            reader.load_tail(db, place)
        return place

    def head(self, session: str) -> Head:
        return self._read(session, turns.read_head)

    def commits(
        self,
        session: str,
        *,
        after: int = 0,
        upto: int | None = None,
        newest_first: bool = False,
        limit: int = 1000,
        load: bool = True,
    ) -> list[Commit]:
        check_limit(limit)
        with self._reading() as db:
            place = reader.load_place(db, session, with_tail=False)
            return reader.read_commits(
                db, place, after=after, upto=upto, newest_first=newest_first, limit=limit, load=load
            )

    def locate(self, text: str, session: str | None = None) -> list[tuple[str, int]]:
        with self._reading() as db:
            return reader.locate(db, text, session)

    def turns(
        self,
        session: str,
        *,
        after: int = 0,
        upto: int | None = None,
        newest_first: bool = False,
        limit: int = 1000,
    ) -> list[TurnRow]:
        check_limit(limit)
        return self._read(
            session,
            lambda db, place: turns.read_turns(
                db, place, after=after, upto=upto, newest_first=newest_first, limit=limit
            ),
        )

    def entries(
        self, session: str, collection: str, *, at: int | None = None, limit: int | None = None
    ) -> list[Entry]:
        if limit is not None:
            check_limit(limit)
        return self._read(
            session, lambda db, place: reader.read_entries(db, place, collection, at, limit)
        )

    def find(
        self, session: str, collection: str, key: str, *, at: int | None = None
    ) -> Entry | None:
        return self._read(
            session, lambda db, place: reader.find_entry(db, place, collection, key, at)
        )

    def versions(
        self, session: str, *, after: int, upto: int, collections: Sequence[str] = ()
    ) -> list[Version]:
        return self._read(
            session,
            lambda db, place: reader.read_versions(
                db, place, after=after, upto=upto, collections=collections
            ),
        )

    def replaced(self, session: str, ops: Sequence[Op]) -> list[Version | None]:
        with self._reading() as db:
            place = reader.load_place(db, session, with_tail=False)
            return reader.read_replaced(db, place, ops)

    def touches(
        self,
        collection: str,
        key: str,
        *,
        session: str | None = None,
        project: str | None = None,
        limit: int = 100,
    ) -> list[Touch]:
        check_limit(limit)
        with self._reading() as db:
            if session is not None:
                place = self._place(db, session)
                return touches.place_touches(db, place, collection, key, limit)
            return touches.store_touches(db, collection, key, project, limit)

    def calls(
        self, query: CallQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[CallRow]:
        check_limit(limit)
        with self._reading() as db:
            if query.session is not None:
                place = self._place(db, query.session)
                before = cursor[0] if cursor else SEQ_MASK
                return calls.read_calls(db, place, query, before=before, limit=limit)
            return calls.store_calls(db, query, cursor, limit)

    def counts(self, session: str) -> Counts:
        return self._read(
            session, lambda _, place: projection.counts(place.tail.counted(place.ledger, place.low))
        )

    # -- keeping ----------------------------------------------------------------------------------

    def ingest(self, commits: Sequence[Commit]) -> int:
        if not commits:
            return 0
        return self._write(lambda db: self._ingest(db, commits))

    def _ingest(self, db: apsw.Connection, commits: Sequence[Commit]) -> int:
        first = commits[0]
        known = one(db, SQL["session_by_id"], (to_bytes(first.session),))
        if known is None:
            live = self._begin(db, ingested_record(commits), _opening_draft(first))
        else:
            live = self._session_live(db, first.session)
        new = 0
        for commit in commits:
            if commit.seq <= live.seq:
                mine = self._read_at(db, live.place, commit.seq)
                chain.must_match(mine, commit)
                continue
            chain.must_follow(commit, live.hash, live.seq + 1)
            self._insert(db, live, commit, reader.resolve_keys(db, live.place, commit))
            new += 1
            if len(live.place.tail) >= projection.TAIL_MAX:
                self._flush(db, live)
        self._flush(db, live)
        self.forget(first.session)
        return new

    def audit(self) -> Iterator[Finding]:
        with self._reading() as db:
            yield from audit.audit(db, self.path)

    def usage(self) -> dict[str, int]:
        with self._reading() as db:
            return audit.usage(db)

    def sql(
        self, query: str, *, row_limit: int = 1000, seconds: float = 5.0
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        self._check()
        if not self._read_only:
            self._write(self._flush_dirty)  # views show projections only
        db = connection.open_connection(self.path, "read")
        try:
            with connection.translated(self.path):
                return sandbox.run(db, query, row_limit=row_limit, seconds=seconds)
        finally:
            db.close()


class _Past:
    """The state as a commit met it: the reducer's view at an earlier seq."""

    def __init__(self, db: apsw.Connection, place: Place, at: int) -> None:
        self._db, self._place, self._at = db, place, at

    def find(self, collection: str, key: str) -> Entry | None:
        return reader.find_entry(self._db, self._place, collection, key, self._at)

    def all(self, collection: str) -> Sequence[Entry]:
        return reader.read_entries(self._db, self._place, collection, self._at, None)


def next_turn(draft: Draft, live: Live) -> int:
    """The number of the turn a draft belongs to: the last one begun, or the one it begins."""
    if draft.kind == "turn":
        if draft.status == CONTINUED and live.turn and not live.turn_open:
            return live.turn
        if live.turn_open:
            raise BadTurn(
                f"turn {live.turn} of session {draft.session} is still open",
                hint="end it first",
                session=draft.session,
            )
        return live.turn + 1
    if draft.kind == "turn_end" and not live.turn_open:
        raise BadTurn(f"no turn of session {draft.session} is open", session=draft.session)
    return live.turn


def put_blob(db: apsw.Connection, digest: bytes, data: bytes, size: int) -> int:
    """Keep a blob once; the slot it is in."""
    slot = int.from_bytes(digest[:8], "big") >> 1
    while (row := one(db, SQL["blob_get"], (slot,))) is not None:
        if row[0] == digest:
            return slot
        slot += 1
    db.execute(SQL["blob_insert"], (slot, digest, size, data))
    return slot


def opening_record(drafts: Sequence[Draft]) -> SessionRecord:
    """The session record in the `open` or `fork` draft that leads a new session."""
    if drafts and drafts[0].kind in ("open", "fork"):
        for change in drafts[0].changes:
            if isinstance(change, Upsert) and isinstance(change.record, SessionRecord):
                return change.record
    raise InvalidInput("a session begins with its open or fork commit", path="$.kind")


def ingested_record(commits: Sequence[Commit]) -> SessionRecord:
    """The session record in the commit that leads an ingested session."""
    first = commits[0]
    for op in first.delta if first.kind in ("open", "fork") else ():
        record = getattr(op, "record", None)
        if isinstance(record, SessionRecord):
            return record
    raise InvalidInput(
        f"session {first.session} is not here and these commits do not begin it",
        hint="ingest its first commits, or its parent, before these",
        session=first.session,
    )


def _opening_draft(commit: Commit) -> Draft:
    key = commit.content.get("key")
    return Draft(
        id=commit.id,
        session=commit.session,
        kind=commit.kind,
        key=commit.value("key") if isinstance(key, bytes) else "00",
    )


def _redactor(key: str) -> Redactor:
    from stator.model.redact import Redactor

    return Redactor(bytes.fromhex(key))
