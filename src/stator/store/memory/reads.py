"""The reading half of the memory store: every answer is computed from the commits, each time it is asked for."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Self

import msgspec

from stator.errors import (
    BadQuery,
    NotFound,
    WrongProcess,
)
from stator.model.exchange.bookmark import Bookmark
from stator.model.exchange.packed import Packed, pack
from stator.model.log import turn_keys
from stator.model.log.chain import GENESIS
from stator.model.log.commit import (
    CONTINUED,
    Commit,
    size_of,
)
from stator.model.log.delta import (
    Drop,
    Op,
    Put,
    Version,
)
from stator.model.log.log_walk import SessionLog, Unreadable
from stator.model.log.query import (
    GONE,
    NEWEST,
    CallQuery,
    CallRow,
    Counts,
    Finding,
    Head,
    Holder,
    KeyTouch,
    Page,
    Read,
    SessionQuery,
    SessionRow,
    StoreInfo,
    TurnRow,
    UsageBy,
    check_collection,
    check_limit,
    check_limits,
)
from stator.model.log.rewinds import rewind_of, rewind_tags, stands, visible, with_ends
from stator.model.log.seal import (
    Salts,
)
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import Entry, SessionRecord, chosen
from stator.model.sessions.lifecycle import (
    lent_upto,
)
from stator.model.sessions.ownership import OWN
from stator.model.sessions.retention import tier_of
from stator.model.views.sql_views import AS_IS, Shown
from stator.store.memory.answers import (
    LogState,
    calls_in,
    is_turn_open,
    is_wanted,
    matches,
    versions_from_start,
)
from stator.store.reads_together import answered

LOCATED_MAX = 10


class KeptSession:
    """A session and its own commits; what came before its fork is in its ancestors."""

    def __init__(self, number: int, record: SessionRecord) -> None:
        self.number = number
        self.record = record
        self.commits: list[Commit] = []
        self.epoch = 0
        self.holder: Holder | None = None
        self.readings: dict[str, Bookmark] = {}

    @property
    def low(self) -> int:
        """The seq before its own first commit."""
        return lent_upto(self.record.lineage)


def _as_kept(kept: KeptSession) -> Iterator[Commit | Unreadable]:
    seq = kept.low + 1
    for commit in list(kept.commits):
        if commit.seq > seq:
            yield Unreadable(seq, commit.seq - 1, "missing")
        yield commit
        seq = commit.seq + 1


def _rewinds_in(log: Sequence[Commit]) -> list[Commit]:
    """The rewinds of a log that follow their tags."""
    places = {seq + 1 for seq, _ in rewind_tags(LogState(log).all("tags"))}
    return [commit for commit in log if commit.seq in places and commit.kind == "rewind"]


class MemoryReads:
    """See `store.port` for what each method promises."""

    remote = False
    needs_tenant = False
    counts_beats = False
    """Whether holders are known by a counter (`beat`), as in a store at a distance."""

    def __init__(
        self,
        *,
        redact: bool = True,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
        salts: Salts = secrets.token_bytes,
    ) -> None:
        """An empty store. `clock` gives µs since 1970, `salts` that many random bytes."""
        self.ownership = OWN
        self.wrote: Callable[[], object] = lambda: None
        self._redact = redact
        self._clock = clock
        self._salts = salts
        self._secret = secrets.token_bytes(16)
        self._lock = threading.RLock()
        self._closed = False
        self._id = secrets.token_hex(16)
        self._sessions: dict[str, KeptSession] = {}
        self._begun = 0
        self._last_epoch = 0

    # -- life -------------------------------------------------------------------------------------

    def info(self) -> StoreInfo:
        return StoreInfo(id=self._id, url="memory:", kind="memory", schema=0, durability="none")

    def close(self) -> None:
        self._closed = True
        self._sessions = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def sync(self) -> None:
        self._check()

    def _check(self) -> None:
        if self._closed:
            raise WrongProcess("this store is closed", hint="connect again")

    def _find(self, session: str) -> KeptSession:
        self._check()
        if session not in self._sessions:
            raise NotFound(f"no session {session}", session=session)
        return self._sessions[session]

    def _log(self, kept: KeptSession, upto: int | None = None) -> list[Commit]:
        """Every commit a session can see: its lineage's and its own."""
        parts = [
            [c for c in self._find(part.session).commits if part.after < c.seq <= part.upto]
            for part in kept.record.lineage
        ]
        log = [commit for part in (*parts, kept.commits) for commit in part]
        return log if upto is None else [commit for commit in log if commit.seq <= upto]

    def session(self, session: str, *, counted: bool = False) -> SessionRow:
        with self._lock:
            row = self._row(self._find(session))
            return msgspec.structs.replace(row, counts=self._counts(session)) if counted else row

    def sessions(
        self, query: SessionQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[SessionRow]:
        check_limit(limit)
        with self._lock:
            self._check()
            found = sorted(
                ((kept.commits[-1].used, kept.number), kept)
                for kept in self._sessions.values()
                if matches(kept.record, query) and self._may_hold(kept, query.holds)
            )[::-1]
            rest = [(place, kept) for place, kept in found if cursor is None or place < cursor]
            page = rest[:limit]
            more = page[-1][0] if len(rest) > limit else None
            return Page([self._row(kept) for _, kept in page], more)

    def _may_hold(self, kept: KeptSession, collection: str | None) -> bool:
        return collection is None or any(
            isinstance(op, Put) and op.collection == collection
            for commit in self._log(kept)
            for op in commit.delta
        )

    def _row(self, kept: KeptSession) -> SessionRow:
        return SessionRow(
            record=kept.record,
            epoch=kept.epoch,
            head=kept.commits[-1].seq,
            holder=kept.holder,
            turns=kept.commits[-1].turn,
            updated=kept.commits[-1].used,
        )

    def head(self, session: str) -> Head:
        with self._lock:
            log = self._log(self._find(session))
            return Head(log[-1].seq, log[-1].hash, log[-1].turn, is_turn_open(log))

    def heads(
        self, known: Mapping[str, int], *, project: str | None = None, others: bool = False
    ) -> dict[str, int]:
        with self._lock:
            self._check()
            there = {
                id: kept.commits[-1].seq
                for id, kept in self._sessions.items()
                if project in (None, kept.record.project)
            }
            lost = (id for id, seq in known.items() if id not in there and seq != GONE)
            moved = dict.fromkeys(lost, GONE)
            for id, seq in there.items():
                if known[id] != seq if id in known else others:
                    moved[id] = seq
            return moved

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
        with self._lock:
            log = self._log(self._find(session), upto)
            if seqs is not None or ids is not None or rewinds:
                wanted = {c.seq for c in _rewinds_in(log)} if rewinds else set()
                wanted.update(seqs or ())
                if NEWEST in wanted:
                    wanted.update(c.seq for c in log[-1:])
                log = [c for c in log if c.seq in wanted or c.id in (ids or ())]
            log = [c for c in log if c.seq > after]
            log = [c for c in log if origins is None or c.origin in origins]
            return (log[::-1] if newest_first else log)[:limit]

    def packed(
        self, session: str, *, after: int = 0, upto: int | None = None, limit: int = 1000
    ) -> list[Packed]:
        return list(map(pack, self.commits(session, after=after, upto=upto, limit=limit)))

    def locate(self, text: str, session: str | None = None) -> list[tuple[str, int]]:
        digits = text.removeprefix("k_")
        if not 4 <= len(digits) <= 64 or not set(digits) <= set("0123456789abcdef"):
            return []
        with self._lock:
            self._check()
            logs = (
                [self._log(self._find(session))]
                if session is not None
                else [kept.commits for kept in self._sessions.values()]
            )
            return [
                (commit.session, commit.seq)
                for log in logs
                for commit in log
                if commit.hash.startswith(digits) or commit.id.endswith(digits)
            ][:LOCATED_MAX]

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
        with self._lock:
            log = self._log(self._find(session))
            keyed = None if keys is None else self._keyed(session, list(keys))
            wanted = None if keyed is None else {c.turn for c in log if c.seq in keyed}
            found: dict[int, TurnRow] = {}
            for commit in log:
                if commit.turn <= after or (upto is not None and commit.turn > upto):
                    continue
                if wanted is not None and commit.turn not in wanted:
                    continue
                row = found.get(commit.turn) or TurnRow(
                    turn=commit.turn,
                    first=commit.seq,
                    last=commit.seq,
                    at=commit.at,
                    began=commit if prompts else None,
                )
                status = commit.status if commit.kind == "turn_end" else row.status
                status = "" if commit.kind == "turn" else status
                found[commit.turn] = msgspec.structs.replace(row, last=commit.seq, status=status)
            rows = [row for turn, row in sorted(found.items(), reverse=newest_first) if turn]
            if standing:
                known = [one for c in _rewinds_in(log) if (one := rewind_of(c)) is not None]
                in_force = visible(known, log[-1].seq)
                rows = [row for row in rows if stands(in_force, row.first)]
            if ends:
                rows = with_ends(rows, rewind_tags(LogState(log).all("tags")))
            return rows[:limit]

    def _keyed(self, session: str, keys: Sequence[str]) -> set[int]:
        """The seqs of `turn` commits with one of these keys."""
        own = self._find(session)
        parts = [(part.session, part.after, part.upto) for part in own.record.lineage]
        low = parts[-1][2] if parts else 0
        seqs: set[int] = set()
        for owner, after, upto in [*parts, (session, low, own.commits[-1].seq)]:
            found = turn_keys.matching(self._find(owner).commits, keys)
            seqs.update(seq for seq in found if after < seq <= upto)
        return seqs

    # -- state ------------------------------------------------------------------------------------

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
        with self._lock:
            view = LogState(self._log(self._find(session), at))
            return [
                entry
                for name, most in limits.items()
                for entry in chosen(view.all(name), keys, prefix)[:most]
            ]

    def versions(
        self, session: str, *, after: int, upto: int, collections: Sequence[str] = ()
    ) -> list[Version]:
        for collection in collections:
            check_collection(collection)
        with self._lock:
            return [
                version
                for version in versions_from_start(self._log(self._find(session), upto))
                if version.seq > after and version.op.collection in (collections or COLLECTIONS)
            ]

    def replaced(self, session: str, ops: Sequence[Op]) -> list[Version | None]:
        with self._lock:
            log = self._log(self._find(session))
            last = {(v.op.collection, v.op.id, v.seq): v for v in versions_from_start(log)}
            return [last.get((op.collection, op.id, op.was)) for op in ops]

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
        check_collection(collection)
        with self._lock:
            self._check()
            chosen = [self._find(session)] if session else list(self._sessions.values())[::-1]
            return [
                KeyTouch(
                    session=owner,
                    seq=version.seq,
                    turn=version.turn,
                    id=version.op.id,
                    key=key,
                    collection=collection,
                    dropped=isinstance(version.op, Drop),
                )
                for kept in chosen
                if project is None or kept.record.project == project
                for owner, version in self._touched(kept, lineage=session is not None)
                if (version.op.collection, version.key) == (collection, key)
            ][:limit]

    def _touched(self, kept: KeptSession, *, lineage: bool) -> list[tuple[str, Version]]:
        """Every version with the session that wrote it, newest first."""
        log = self._log(kept)
        owners = {commit.seq: commit.session for commit in log}
        low = 0 if lineage else kept.low
        return [(owners[v.seq], v) for v in versions_from_start(log) if v.seq > low][::-1]

    def calls(
        self, query: CallQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[CallRow]:
        check_limit(limit)
        with self._lock:
            self._check()
            if query.session is not None:
                log = self._log(self._find(query.session))
                found: list[tuple[tuple[int, ...], CallRow]] = [
                    ((row.seq,), row) for row in calls_in(log)[::-1]
                ]
            else:
                found = [
                    ((kept.number, row.seq), row)
                    for kept in list(self._sessions.values())[::-1]
                    if query.project in (None, kept.record.project)
                    for row in calls_in(kept.commits)[::-1]
                ]
            rest = [
                (place, row)
                for place, row in found
                if is_wanted(row, query) and (cursor is None or place < cursor)
            ]
            page = rest[:limit]
            return Page([row for _, row in page], page[-1][0] if len(rest) > limit else None)

    def _counts(self, session: str) -> Counts:
        kept = self._find(session)
        own = kept.commits
        view = LogState(self._log(kept))
        live = {name: len(view.all(name)) for name in COLLECTIONS}
        return Counts(
            commits=len(own),
            turns=sum(commit.kind == "turn" and commit.status != CONTINUED for commit in own),
            calls=sum(commit.kind == "call" for commit in own),
            failed=sum(c.kind == "outcome" and c.status != "ok" for c in own),
            open=len(view.all("calls")),
            content_bytes=sum(size_of(item) for c in own for item in c.content.values()),
            live={name: size for name, size in live.items() if size},
        )

    def together(self, *reads: Read) -> list[Any]:
        with self._lock:
            return answered(self, reads)

    # -- keeping ----------------------------------------------------------------------------------

    def logs(self, session: str | None = None) -> Iterator[SessionLog]:
        with self._lock:
            self._check()
            kept = list(self._sessions.values()) if session is None else self._line(session)
        for one in kept:
            record = one.record
            parent = record.parent
            yield SessionLog(
                session=record.id,
                name=record.name,
                place=f"number {one.number}",
                rows=_as_kept(one),
                low=one.low,
                prev=parent.hash if parent is not None and record.lineage else GENESIS,
                lineage=tuple(record.lineage),
                joint=self._joint(record),
            )

    def _line(self, session: str) -> list[KeptSession]:
        """A session, and those it was forked from."""
        kept = self._find(session)
        return [*(self._find(part.session) for part in kept.record.lineage), kept]

    def _joint(self, record: SessionRecord) -> str | None:
        """The hash that a fork's parent has where the fork begins."""
        if not record.lineage:
            return None
        last = record.lineage[-1]
        return next((c.hash for c in self._find(last.session).commits if c.seq == last.upto), None)

    def audit(self, *, skip: Collection[str] = ()) -> Iterator[Finding]:
        self._check()
        return iter(())

    def rebuild(self) -> None:
        self._check()

    def usage(self, *, by: UsageBy = "content", session: str | None = None) -> dict[str, int]:
        with self._lock:
            self._check()
            if by == "recorded":
                wanted = [session] if session is not None else list(self._sessions)
                return {one: self._counts(one).content_bytes for one in wanted}
            found: dict[str, int] = {} if by != "content" else {"log": 0}
            for kept in [self._find(session)] if session else self._sessions.values():
                for commit in kept.commits:
                    named = {"content": "log", "session": kept.record.id, "kind": commit.kind}
                    name = named.get(by) or tier_of(commit.kind)
                    size = sum(size_of(item) for item in commit.content.values())
                    found[name] = found.get(name, 0) + size
            return found

    def sql(
        self, query: str, *, row_limit: int = 1000, seconds: float = 5.0, shown: Shown = AS_IS
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        raise BadQuery(
            "the memory store does not support SQL", hint="use a SQLite or PostgreSQL store"
        )
