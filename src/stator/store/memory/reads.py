"""The reading half of the memory store: every answer is computed from the commits, each time it is asked for."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Self

import msgspec

from stator.errors import (
    BadQuery,
    NotFound,
    WrongProcess,
)
from stator.model.exchange.bookmark import Bookmark
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
    Version,
)
from stator.model.log.log_walk import SessionLog, Unreadable
from stator.model.log.query import (
    CallQuery,
    CallRow,
    Counts,
    Finding,
    Head,
    Holder,
    KeyTouch,
    Page,
    SessionQuery,
    SessionRow,
    StoreInfo,
    TurnRow,
    UsageBy,
    check_limit,
)
from stator.model.log.seal import (
    Salts,
)
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import Entry, SessionRecord
from stator.model.sessions.lifecycle import (
    lent_upto,
)
from stator.model.sessions.ownership import OWN
from stator.model.sessions.retention import tier_of
from stator.store.memory.answers import (
    LogState,
    calls_in,
    check_collection,
    is_turn_open,
    is_wanted,
    matches,
    versions_from_start,
)

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


class MemoryReads:
    """See `store.port` for what each method promises."""

    def __init__(
        self,
        *,
        redact: bool = True,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
        salts: Salts = secrets.token_bytes,
    ) -> None:
        """An empty store. `clock` gives µs since 1970, `salts` that many random bytes."""
        self.ownership = OWN
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

    def session(self, session: str) -> SessionRow:
        with self._lock:
            return self._row(self._find(session))

    def sessions(
        self, query: SessionQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[SessionRow]:
        check_limit(limit)
        with self._lock:
            self._check()
            found = sorted(
                ((kept.commits[-1].used, kept.number), kept)
                for kept in self._sessions.values()
                if matches(kept.record, query)
            )[::-1]
            rest = [(place, kept) for place, kept in found if cursor is None or place < cursor]
            page = rest[:limit]
            more = page[-1][0] if len(rest) > limit else None
            return Page([self._row(kept) for _, kept in page], more)

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
        with self._lock:
            log = [c for c in self._log(self._find(session), upto) if c.seq > after]
            return (log[::-1] if newest_first else log)[:limit]

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
    ) -> list[TurnRow]:
        check_limit(limit)
        with self._lock:
            found: dict[int, TurnRow] = {}
            for commit in self._log(self._find(session)):
                if commit.turn <= after or (upto is not None and commit.turn > upto):
                    continue
                row = found.get(commit.turn) or TurnRow(
                    turn=commit.turn, first=commit.seq, last=commit.seq, at=commit.at
                )
                status = commit.status if commit.kind == "turn_end" else row.status
                status = "" if commit.kind == "turn" else status
                found[commit.turn] = msgspec.structs.replace(row, last=commit.seq, status=status)
            rows = [row for turn, row in sorted(found.items(), reverse=newest_first) if turn]
            return rows[:limit]

    def keyed_turns(self, session: str, keys: Sequence[str]) -> list[TurnRow]:
        with self._lock:
            own = self._find(session)
            parts = [(part.session, part.after, part.upto) for part in own.record.lineage]
            low = parts[-1][2] if parts else 0
            seqs: set[int] = set()
            for owner, after, upto in [*parts, (session, low, own.commits[-1].seq)]:
                found = turn_keys.matching(self._find(owner).commits, keys)
                seqs.update(seq for seq in found if after < seq <= upto)
            numbers = sorted({c.turn for c in self._log(own) if c.seq in seqs})
            return [self.turns(session, after=n - 1, upto=n)[0] for n in numbers]

    # -- state ------------------------------------------------------------------------------------

    def entries(
        self, session: str, collection: str, *, at: int | None = None, limit: int | None = None
    ) -> list[Entry]:
        check_collection(collection)
        if limit is not None:
            check_limit(limit)
        with self._lock:
            return LogState(self._log(self._find(session), at)).all(collection)[:limit]

    def find(
        self, session: str, collection: str, key: str, *, at: int | None = None
    ) -> Entry | None:
        check_collection(collection)
        with self._lock:
            return LogState(self._log(self._find(session), at)).find(collection, key)

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

    def counts(self, session: str) -> Counts:
        with self._lock:
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
            found: dict[str, int] = {} if by != "content" else {"log": 0}
            for kept in [self._find(session)] if session else self._sessions.values():
                for commit in kept.commits:
                    named = {"content": "log", "session": kept.record.id, "kind": commit.kind}
                    name = named.get(by) or tier_of(commit.kind)
                    size = sum(size_of(item) for item in commit.content.values())
                    found[name] = found.get(name, 0) + size
            return found

    def sql(
        self, query: str, *, row_limit: int = 1000, seconds: float = 5.0
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        raise BadQuery(
            "the memory store does not support SQL", hint="use a SQLite or PostgreSQL store"
        )
