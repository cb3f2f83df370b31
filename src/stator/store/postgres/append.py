"""Appending: how drafts become rows.

An append is tried at once with what the writer remembers of the session: one round trip, and the server compares. If
anything is not as remembered, or a draft is refused, or may be there already, it is done again with the session's
row locked: what is decided then is decided about what is there.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec

from stator.errors import (
    BrokenChain,
    Conflict,
    HeadMoved,
    IdReused,
    InvalidInput,
    NotFound,
    StatorError,
    StoreUnreachable,
)
from stator.model.exchange.bookmark import Bookmark
from stator.model.log import chain
from stator.model.log.commit import Commit, Draft
from stator.model.log.seal import Place, admitted, same_origin, same_part, seal
from stator.model.records.tables import REMOVALS
from stator.model.records.types import SessionRecord
from stator.model.sessions.lifecycle import lent_upto
from stator.model.values.ids import check_id, from_bytes, to_bytes
from stator.store.drafts import (
    is_barrier,
    next_turn,
    opening_record,
    redactor,
    scrub_names,
    with_recorded_origin,
)
from stator.store.port import Durability
from stator.store.postgres import removal
from stator.store.postgres.bookmark_rows import bookmark_get, bookmark_put, check_bookmark
from stator.store.postgres.connection import (
    WRITE,
    Connections,
    Rows,
    SerializeAgain,
    Statement,
    Taken,
    Transaction,
)
from stator.store.postgres.live_session import RemoteLive, RemotePastState, keys_statement, small
from stator.store.postgres.queries.commit_rows import commit_of, named
from stator.store.postgres.schema import Tenant
from stator.store.postgres.session_row import MAX_SEQ, FoundSession, by_id, found, key_of, must_find
from stator.store.postgres.text import digest, packed
from stator.store.postgres.written import (
    Keyed,
    alias_statements,
    session_columns,
    written,
)

if TYPE_CHECKING:
    from stator.model.log.redact import Redactor

CREATE_TRIES = 3
"""How often a session is looked for that another process makes at the same time."""
LIVE_MAX = 1_000
"""Sessions that one store object remembers."""


class StaleSession(Exception):
    """The session is not as the writer remembered it."""


class PostgresAppender:
    """The sessions that one store object writes."""

    def __init__(
        self,
        connections: Connections,
        tenant: Tenant,
        durability: Durability,
        *,
        redact: bool,
        clock: Callable[[], int],
        salts: Callable[[int], bytes],
        owner: str = "",
    ) -> None:
        """`owner` is the tenant of sessions that name none."""
        self.connections = connections
        self._owner = owner
        self._secret = tenant.secret
        self._durability = durability
        self._redact = redact
        self._clock = clock
        self._salts = salts
        self._live: dict[str, RemoteLive] = {}
        self._redactors: dict[str, Redactor] = {}
        self._lock = threading.Lock()
        # A lock that a thread holds stays; one that nobody holds leaves by itself.
        self._locks: WeakValueDictionary[str, threading.RLock] = WeakValueDictionary()

    # -- what is remembered -----------------------------------------------------------------------

    @contextmanager
    def _alone(self, session: str) -> Iterator[None]:
        """One thread of this process at a time appends to a session."""
        with self._lock:
            lock = self._locks.setdefault(session, threading.RLock())
        with lock:
            yield

    def forget(self, session: str) -> None:
        self._live.pop(session, None)

    def forget_all(self) -> None:
        self._live.clear()
        self._redactors.clear()

    def _remember(self, live: RemoteLive) -> None:
        with self._lock:
            if len(self._live) >= LIVE_MAX:
                self._live.pop(next(iter(self._live)))
            self._live[live.known.id] = live

    def opened(self, session: str, rows: list[Rows]) -> RemoteLive:
        """A session as the rows of `opening` show it."""
        known = must_find(rows[0], session)
        live = RemoteLive(
            known, self._redactor_of(known, rows[2]), self._digest(known.record), rows[1]
        )
        live.keep_small(rows[3])
        return live

    def prime(self, session: str, rows: list[Rows]) -> None:
        """Remember a session as the rows of `opening` show it."""
        with self._alone(session):
            self._remember(self.opened(session, rows))

    def opening(self, session: str, *, lock: bool = False) -> list[Statement]:
        first = named(session, [1], [], MAX_SEQ, False)
        return [by_id(session, lock=lock), keys_statement(session), first, small(session)]

    def _redactor_of(self, known: FoundSession, first: Rows) -> Redactor | None:
        """The session's redactor: its key is content of the first commit of its oldest ancestor."""
        if not self._redact:
            return None
        oldest = known.record.lineage[0].session if known.record.lineage else known.id
        if oldest not in self._redactors:
            key = ""
            if first:
                commit = commit_of(first[0], load=False)
                if isinstance(commit.content.get("key"), bytes):
                    key = commit.value("key")
            self._keep_redactor(oldest, key)
        return self._redactors[oldest]

    def _keep_redactor(self, oldest: str, key: str) -> None:
        if len(self._redactors) >= LIVE_MAX:
            self._redactors.clear()
        own = hmac.digest(self._secret, oldest.encode(), "sha256").hex()
        self._redactors[oldest] = redactor(key or own)

    def _digest(self, record: SessionRecord) -> Callable[[bytes], bytes]:
        secret = self._secret + record.tenant.encode("utf-8", "surrogatepass")
        return lambda data: hmac.digest(secret, data, "sha256")

    # -- appending --------------------------------------------------------------------------------

    def append(
        self,
        session: str,
        drafts: Sequence[Draft],
        *,
        if_head: str | None,
        barrier: bool,
        bookmark: Bookmark | None,
    ) -> list[Commit]:
        durable = self._is_durable(drafts, barrier)
        with self._alone(session):
            if bookmark is None and not any(_needs_a_look(draft) for draft in drafts):
                try:
                    return self._at_once(session, drafts, if_head, durable)
                except StoreUnreachable:
                    self.forget(session)
                    raise
                except (StatorError, StaleSession, Taken, SerializeAgain):
                    self.forget(session)  # it may be refused for what is remembered wrongly
            try:
                return self.connections.write(
                    partial(self._locked, session, drafts, if_head, bookmark, durable)
                )
            except Taken as taken:
                self.forget(session)
                raise taken_error(taken, session) from taken
            except BaseException:
                self.forget(session)
                raise

    def _is_durable(self, drafts: Sequence[Draft], barrier: bool) -> bool:
        if self._durability == "barrier":
            return barrier or any(map(is_barrier, drafts))
        return self._durability == "full"

    def _at_once(
        self, session: str, drafts: Sequence[Draft], if_head: str | None, durable: bool
    ) -> list[Commit]:
        """Append to the session as it is remembered."""
        live = self._live.get(session)
        if live is None:
            live = self.opened(session, self.connections.read(*self.opening(session)))
        live.ask = self.connections.read
        if if_head is not None and if_head != live.hash:
            raise StaleSession
        before = live.record
        live.look_ahead(drafts)
        commits: list[Keyed] = []
        for draft in drafts:
            check_id(draft.id, "commit")
            if live.has_applied(draft.id):
                raise StaleSession
            commits.append(self.sealed(live, draft))
        with self.connections.transaction(WRITE) as db:
            db.durable = durable
            rows = db.ask(*written(live, commits, before), commit=True)
        if not rows[0]:
            raise StaleSession
        live.landed()
        self._remember(live)
        return [commit for commit, _ in commits]

    def sealed(self, live: RemoteLive, draft: Draft) -> Keyed:
        """The commit that a draft becomes; the session then has it."""
        session = live.known.id
        if draft.session != session:
            raise InvalidInput(f"draft {draft.id} is for another session", session=draft.session)
        if draft.kind in ("open", "fork"):
            if not live.unborn:
                raise InvalidInput(f"session {session} has begun already", path="$.kind")
        else:
            draft = admitted(draft, live.record, live.epoch if live.held else 0)
        place = Place(live.seq + 1, next_turn(draft, live), self._clock(), live.hash)
        sealed = seal(draft, place, live, live.redactor, self._salts)
        live.advance(sealed.commit, sealed.keys)
        return sealed.commit, sealed.keys

    def _locked(
        self,
        session: str,
        drafts: Sequence[Draft],
        if_head: str | None,
        note: Bookmark | None,
        durable: bool,
        db: Transaction,
    ) -> list[Commit]:
        """Append with the session's row locked."""
        db.durable = durable
        rows = db.ask(
            *self.opening(session, lock=True),
            known_ids(drafts),
            bookmark_get(session, "" if note is None else note.name),
        )
        live = self.opened(session, rows[:4])
        live.ask = db.ask
        if note is not None:
            check_bookmark(live, note, rows[5])
        there = {row[0]: row for row in rows[4]}
        work = _LockedAppend(self, db, live, there)
        landed = bool(drafts) and if_head not in (None, live.hash) and work.already(drafts[0])
        if if_head not in (None, live.hash) and not landed:
            raise _head_moved(live)
        answers = [work.add(draft) for draft in drafts]
        last = work.pending_statements()
        if note is not None:
            last.append(bookmark_put(work.live, note))
        checked = bool(work.commits)
        done = db.ask(*last, commit=True)
        if checked and not done[0]:
            raise SerializeAgain("the session's row moved while it was locked")
        work.live.landed()
        self._remember(work.live)
        return answers

    def barrier(self, db: Transaction) -> None:
        """A synchronous commit: everything that was committed before it is then durable too."""
        db.ask(Statement("sync"), commit=True)

    # -- sessions ---------------------------------------------------------------------------------

    def create(
        self, drafts: Sequence[Draft], bookmark: Bookmark | None
    ) -> tuple[FoundSession, bool]:
        record = opening_record(drafts)
        if self._redact:
            record, drafts = scrub_names(record, drafts, self._secret)
        check_id(record.id, "session")
        durable = self._durability != "relaxed"
        for _ in range(CREATE_TRIES):
            there, same, *base, used = self.connections.write(
                lambda db: db.ask(*self.base(record), known_ids(drafts), commit=True)
            )
            if there:
                return found(there[0]), False
            if same:
                raise Conflict(f"session {record.id} exists under another name", session=record.id)
            if used:
                identifier = from_bytes(used[0][0], "commit")
                raise IdReused(f"commit {identifier} is in another session", commit=identifier)
            try:
                work = partial(self._create, record, drafts, bookmark, durable, base[0][0][0])
                return self.connections.write(work), True
            except Taken as taken:  # another process was first: look at what it made
                self.forget(record.id)
                refused = taken_error(taken, record.id)
        raise refused

    def _create(
        self,
        record: SessionRecord,
        drafts: Sequence[Draft],
        note: Bookmark | None,
        durable: bool,
        s: int,
        db: Transaction,
    ) -> FoundSession:
        db.durable = durable
        first = drafts[0]
        live, statements = self.begun(db, record, s, first.key if first.kind == "open" else "")
        work = _LockedAppend(self, db, live, {}, begins=statements)
        for draft in drafts:
            work.add(draft)
        statements = work.pending_statements()
        if note is not None:
            statements.append(bookmark_put(work.live, note))
        *_, rows = db.ask(*statements, by_id(record.id), commit=True)
        work.live.landed()
        self._remember(work.live)
        return found(rows[0])

    def base(self, record: SessionRecord) -> list[Statement]:
        """What must be known before a session can begin: whether it is there, and its number."""
        called = session_columns(record)["called"]
        return [
            Statement("session_by_name", {"called": called}),
            by_id(record.id),
            Statement("next_session"),
        ]

    def _ancestors(self, db: Transaction, record: SessionRecord) -> Rows:
        return db.many(
            "ancestors",
            sessions=[key_of(part.session) for part in record.lineage],
            uptos=[part.upto for part in record.lineage],
        )

    def placed(self, record: SessionRecord) -> SessionRecord:
        """A session's record as in its row: one from elsewhere that names no tenant is the connection's here."""
        if record.tenant or not self._owner:
            return record
        return msgspec.structs.replace(record, tenant=self._owner)

    def begun(
        self, db: Transaction, record: SessionRecord, s: int, key: str
    ) -> tuple[RemoteLive, list[Statement]]:
        """A session without a commit yet, and the statements that are still to be sent for its row."""
        record = self.placed(record)
        ancestors = self._ancestors(db, record) if record.lineage else []
        parts = _parts(record, ancestors, s)
        low = lent_upto(record.lineage)
        prev, turn, turn_open = bytes.fromhex(chain.GENESIS), 0, False
        if record.lineage:
            by_session = {row[0]: row for row in ancestors}
            prev, turn = by_session[key_of(record.lineage[-1].session)][2:4]
            mark = db.one(
                "last_mark",
                turn=turn,
                part_s=parts["part_s"][:-1],
                part_after=parts["part_after"][:-1],
                part_upto=parts["part_upto"][:-1],
            )
            turn_open = mark is not None and mark[0] == "turn"
        place = {"low": low, "base": prev, "turn": turn, "turn_open": turn_open}
        insert = Statement("session_insert", {**new_session(record), **parts, **place, "s": s})
        statements = [insert, *(alias_statements(record, s)[1:] if record.aliases else [])]
        known = FoundSession(
            s, record.id, record, 0, None, low, prev, turn, turn_open, record.created, low,
            parts["part_s"], parts["part_after"], parts["part_upto"], (0, 0, 0, 0, 0),
        )  # fmt: skip
        keys: Rows | None = []
        first: Rows = []
        if record.lineage:  # its state is asked for by its own id, so that its row has to be there
            *_, keys, first, _ = db.ask(*statements, *self.opening(record.id)[1:])
            statements = []
        elif self._redact:
            self._keep_redactor(record.id, key)
        live = RemoteLive(known, self._redactor_of(known, first), self._digest(record), keys)
        live.unborn = True
        live.ask = db.ask
        return live, statements


class _LockedAppend:
    """One append while the session's row is locked."""

    def __init__(
        self, appender: PostgresAppender, db: Transaction, live: RemoteLive,
        there: dict[bytes, Any], begins: Sequence[Statement] | None = None,
    ) -> None:  # fmt: skip
        """`there`: the rows of known ids. `begins`: of a session that is new, what is to be sent before anything."""
        self._is_new = begins is not None
        self._begins = list(begins or ())
        self._added: list[Commit] = []
        self._given: set[object] = set()
        """The ids and origins of what was added here."""
        self._appender = appender
        self._db = db
        self.live = live
        self._there = there
        self.commits: list[Keyed] = []
        self._before = live.record

    def add(self, draft: Draft) -> Commit:
        if draft.session != self.live.known.id:
            raise InvalidInput(f"draft {draft.id} is for another session", session=draft.session)
        there = self.already(draft)
        if there is not None:
            return there
        keyed = self._appender.sealed(self.live, draft)
        self.commits.append(keyed)
        self._added.append(keyed[0])
        self._given |= {keyed[0].id, keyed[0].origin}
        if draft.kind in REMOVALS:
            self._remove(draft, keyed[0].seq)
        return keyed[0]

    def pending_statements(self) -> list[Statement]:
        """What is still to be written."""
        begins, self._begins = self._begins, []
        own = written(self.live, self.commits, self._before) if self.commits else []
        return begins + own

    def _remove(self, draft: Draft, by: int) -> None:
        """Take away what an erasure or a purge says is to go, and look at the session again."""
        live = self.live
        self._db.ask(*self.pending_statements())
        live.landed()
        self._db.be_patient()
        if draft.kind == "erasure":
            removal.erase(self._db, live, draft, by)
        else:
            removal.purge(self._db, live, draft)
        session = live.known.id
        self._appender.forget_all()
        rows = self._db.ask(*self._appender.opening(session))
        self.live = self._appender.opened(session, rows)
        self.live.ask = self._db.ask
        self.commits, self._before = [], self.live.record

    def already(self, draft: Draft) -> Commit | None:
        """The commit this draft already is, or `IdReused`; None if it is new."""
        live = self.live
        identifier = to_bytes(check_id(draft.id, "commit"))
        known = draft if draft.origin is None else with_recorded_origin(draft, live.redactor)
        if draft.id in self._given or (known.origin is not None and known.origin in self._given):
            for commit in self._added:
                if commit.id == draft.id or same_origin(known, commit):
                    self._flush()  # it is compared with the state before it
                    return self._same(draft, known, commit)
        row = self._there.get(identifier)
        if row is not None:
            seq = live.seq_in([row])
            if not seq:
                raise IdReused(f"commit {draft.id} is in another session", commit=draft.id)
            return self._same(draft, known, self._read([seq])[0])
        return self._by_origin(known)

    def _flush(self) -> None:
        if self.commits:
            self._db.ask(*self.pending_statements())
            self.live.landed()
            self.commits, self._before = [], self.live.record

    def _same(self, draft: Draft, known: Draft, commit: Commit) -> Commit:
        if same_origin(known, commit):
            return commit
        before = RemotePastState(self.live, commit.seq - 1)
        if commit.id == draft.id and same_part(draft, commit, before, self.live.redactor):
            return commit
        raise IdReused(
            f"commit {draft.id} exists already, at @{commit.seq}, with another body",
            hint="use a new id for a new commit",
            commit=draft.id,
            session=draft.session,
        )

    def _by_origin(self, draft: Draft) -> Commit | None:
        if draft.origin is None or (self._is_new and not self.live.record.lineage):
            return None
        values = {"session": key_of(self.live.known.id), "origins": [digest(*draft.origin)]}
        (rows,) = self._db.ask(Statement("known_origins", values))
        found_there = self._read([seq for (seq,) in rows]) if rows else []
        return next((commit for commit in found_there if same_origin(draft, commit)), None)

    def _read(self, seqs: Sequence[int]) -> list[Commit]:
        (rows,) = self._db.ask(named(self.live.known.id, seqs, [], MAX_SEQ, True))
        return [commit_of(row) for row in rows]


def new_session(record: SessionRecord) -> dict[str, Any]:
    """What the row of a new session says for good, and what its record says."""
    return {
        **session_columns(record),
        "id": to_bytes(record.id),
        "mode": record.mode,
        "tenant": packed(record.tenant),
        "parent": key_of(record.parent.session) if record.parent else None,
        "created": record.created,
    }


def _head_moved(live: RemoteLive) -> HeadMoved:
    return HeadMoved(
        f"session {live.known.id} is at {live.hash[:12]}, @{live.seq}",
        head=live.hash,
        hint="read its head, then decide again",
        session=live.known.id,
    )


def known_ids(drafts: Sequence[Draft]) -> Statement:
    """The statement that finds commits with the ids of drafts."""
    ids = [to_bytes(check_id(draft.id, "commit")) for draft in drafts]
    return Statement("known_ids", {"ids": ids})


def _needs_a_look(draft: Draft) -> bool:
    """Whether more than the session's head decides what becomes of a draft."""
    return draft.origin is not None or draft.kind in REMOVALS


def _parts(record: SessionRecord, ancestors: Rows, s: int) -> dict[str, list[int]]:
    """The parts of a session's log. A fork must follow a commit that is there, over parts without a hole."""
    known = {row[0]: row for row in ancestors}
    edge = 0
    last = b""
    numbers: list[int] = []
    for part in record.lineage:
        row = known.get(key_of(part.session))
        if row is None:
            raise NotFound(f"no session {part.session}", session=part.session)
        if part.after != edge or row[2] is None:
            raise InvalidInput(
                f"the lineage of {record.id} does not match this store",
                path="$.lineage",
                session=record.id,
            )
        numbers.append(row[1])
        edge, last = part.upto, row[2]
    if record.lineage and (record.parent is None or record.parent.hash != last.hex()):
        raise BrokenChain(
            f"@{edge} of the parent is {last.hex()[:12]}",
            hint="nothing was written",
            session=record.id,
        )
    return {
        "part_s": [*numbers, s],
        "part_after": [*(part.after for part in record.lineage), edge],
        "part_upto": [*(part.upto for part in record.lineage), MAX_SEQ],
    }


def taken_error(taken: Taken, session: str) -> StatorError:
    if taken.key == "session_called":
        return Conflict(
            "there is another session of that name in the project",
            hint="close and rename one of them, or use another project",
            session=session,
        )
    if taken.key == "log_id":
        return IdReused("a commit with that id is in another session", session=session)
    return Conflict(f"session {session} exists already", session=session)
