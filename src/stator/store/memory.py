"""The memory store: the port in plain Python, and the oracle the other stores are held against.

Nothing is cached and nothing is indexed: every answer is computed from the commits, each time it
is asked. It refuses to be fast and forgets everything when it is closed.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from stator.errors import (
    BadDelta,
    BadQuery,
    BadTurn,
    BrokenChain,
    Busy,
    Conflict,
    HeadMoved,
    IdReused,
    InvalidInput,
    NotFound,
    WrongProcess,
)
from stator.model.log import chain
from stator.model.log.commit import (
    CONTINUED,
    Commit,
    Draft,
    Erase,
    Gone,
    Purge,
    Upsert,
    size_of,
)
from stator.model.log.delta import (
    Delta,
    Drop,
    Op,
    Put,
    Version,
    from_plain,
)
from stator.model.log.fold import fold
from stator.model.log.query import (
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
    UsageBy,
    check_limit,
)
from stator.model.log.redact import Redactor
from stator.model.log.seal import (
    Place,
    Salts,
    same_origin,
    same_part,
    scrub,
    seal,
)
from stator.model.records.registry import COLLECTIONS
from stator.model.records.types import Entry, ErasedRecord, SessionRecord
from stator.model.sessions.lifecycle import (
    check_lease,
    check_purge,
    check_transition,
    driven,
    lent_upto,
)
from stator.model.sessions.retention import tier_of
from stator.model.values import canon
from stator.model.values.ids import check_id
from stator.model.views.diff import versions_of

LOCATED_MAX = 10


class _Kept:
    """A session and its own commits; what came before its fork is in its ancestors."""

    def __init__(self, number: int, record: SessionRecord) -> None:
        self.number = number
        self.record = record
        self.commits: list[Commit] = []
        self.epoch = 0
        self.holder: Holder | None = None

    @property
    def low(self) -> int:
        """The seq before its own first commit."""
        return lent_upto(self.record.lineage)


class MemoryStore:
    """See `store.port.Store` for what each method promises."""

    def __init__(
        self,
        *,
        redact: bool = True,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
        salts: Salts = secrets.token_bytes,
    ) -> None:
        """An empty store. `clock` gives µs since 1970, `salts` that many random bytes."""
        self._redact = redact
        self._clock = clock
        self._salts = salts
        self._secret = secrets.token_bytes(16)
        self._lock = threading.RLock()
        self._closed = False
        self._id = secrets.token_hex(16)
        self._sessions: dict[str, _Kept] = {}
        self._begun = 0
        self._last_epoch = 0

    # -- life -------------------------------------------------------------------------------------

    def info(self) -> StoreInfo:
        return StoreInfo(id=self._id, url="memory:", kind="memory", schema=0, durability="none")

    def close(self) -> None:
        self._closed = True
        self._sessions = {}

    def __enter__(self) -> MemoryStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def sync(self) -> None:
        self._check()

    def _check(self) -> None:
        if self._closed:
            raise WrongProcess("this store is closed", hint="connect again")

    def _find(self, session: str) -> _Kept:
        self._check()
        if session not in self._sessions:
            raise NotFound(f"no session {session}", session=session)
        return self._sessions[session]

    def _log(self, kept: _Kept, upto: int | None = None) -> list[Commit]:
        """Every commit a session can see: its lineage's and its own."""
        parts = [
            [c for c in self._find(part.session).commits if part.after < c.seq <= part.upto]
            for part in kept.record.lineage
        ]
        log = [commit for part in (*parts, kept.commits) for commit in part]
        return log if upto is None else [commit for commit in log if commit.seq <= upto]

    # -- sessions ---------------------------------------------------------------------------------

    def create(self, drafts: Sequence[Draft]) -> tuple[SessionRow, bool]:
        with self._lock:
            self._check()
            record = _opening_record(drafts)
            if self._redact and drafts[0].key:
                record = _opening_record([scrub(drafts[0], self._redactor(drafts))])
            for kept in self._sessions.values():
                if _name(kept.record) == _name(record):
                    return self._row(kept), False
            if record.id in self._sessions:
                raise Conflict(f"session {record.id} exists under another name", session=record.id)
            kept = self._begin(record)
            try:
                for draft in drafts:
                    self._append_one(kept, draft)
            except BaseException:
                del self._sessions[record.id]
                raise
            return self._row(kept), True

    def _begin(self, record: SessionRecord) -> _Kept:
        """A session without commits yet, if its lineage is what it says."""
        check_id(record.id, "session")
        if record.lineage:
            self._check_lineage(record)
        self._begun += 1
        kept = _Kept(self._begun, record)
        self._sessions[record.id] = kept
        return kept

    def _check_lineage(self, record: SessionRecord) -> None:
        """A fork must follow a commit that is there, over stretches without a hole."""
        edge, last = 0, ""
        for part in record.lineage:
            kept = self._find(part.session)
            found = [commit.hash for commit in kept.commits if commit.seq == part.upto]
            if part.after != edge or not found:
                raise InvalidInput("the lineage is not here as it says", path="$.lineage")
            edge, last = part.upto, found[0]
        if record.parent is None or record.parent.hash != last:
            raise BrokenChain(f"@{edge} of the parent is {last[:12]}", session=record.id)

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
                if _matches(kept.record, query)
            )[::-1]
            rest = [(place, kept) for place, kept in found if cursor is None or place < cursor]
            page = rest[:limit]
            more = page[-1][0] if len(rest) > limit else None
            return Page([self._row(kept) for _, kept in page], more)

    def _row(self, kept: _Kept) -> SessionRow:
        return SessionRow(
            record=kept.record,
            epoch=kept.epoch,
            head=kept.commits[-1].seq,
            holder=kept.holder,
            turns=kept.commits[-1].turn,
            updated=kept.commits[-1].used,
        )

    # -- the lease --------------------------------------------------------------------------------

    def acquire(self, session: str, holder: Holder, *, take: bool = False) -> Lease:
        with self._lock:
            kept = self._find(session)
            displaced = kept.holder
            if displaced is not None and not take:
                raise Busy(
                    f"session {session} is driven by {displaced.program or 'a program'}",
                    holder=displaced,
                    session=session,
                )
            self._last_epoch += 1
            kept.epoch = self._last_epoch
            kept.holder = msgspec.structs.replace(holder, epoch=kept.epoch, live=True)
            return Lease(session, kept.epoch, displaced)

    def release(self, lease: Lease) -> None:
        with self._lock:
            kept = self._find(lease.session)
            if kept.epoch == lease.epoch:
                kept.holder = None

    # -- the log ----------------------------------------------------------------------------------

    def append(
        self,
        session: str,
        drafts: Sequence[Draft],
        *,
        if_head: str | None = None,
        barrier: bool = False,
        fresh: bool = False,
    ) -> list[Commit]:
        with self._lock:
            self._check()
            if not drafts:
                return []
            kept = self._find(session)
            head = kept.commits[-1].hash
            landed = any(commit.id == drafts[0].id for commit in kept.commits)
            if if_head is not None and if_head != head and not landed:
                raise HeadMoved(f"session {session} is at {head[:12]}", head=head, session=session)
            before, sessions = (kept.record, list(kept.commits)), dict(self._sessions)
            try:
                return [self._append_one(kept, draft) for draft in drafts]
            except BaseException:
                kept.record, kept.commits = before
                self._sessions = sessions
                raise

    def _append_one(self, kept: _Kept, draft: Draft) -> Commit:
        record = kept.record
        if draft.session != record.id:
            raise InvalidInput(f"draft {draft.id} is for another session", session=draft.session)
        log = self._log(kept)
        there = self._already(kept, draft, log)
        if there is not None:
            return there
        if (draft.kind in ("open", "fork")) != (not kept.commits):
            raise InvalidInput("a session begins with its open or fork commit", path="$.kind")
        if kept.commits:
            check_lease(
                mode=record.mode,
                kind=draft.kind,
                epoch=draft.epoch,
                current=kept.epoch if kept.holder else 0,
                session=record.id,
            )
            check_transition(draft.kind, record.status, record.id)
        prev = log[-1].hash if log else chain.GENESIS
        place = Place(len(log) + 1, _turn(draft, log), self._clock(), prev)
        redactor = self._redactor(log or [draft])
        commit = seal(draft, place, _View(log), redactor, self._salts).commit
        self._take(kept, commit)
        for change in draft.changes if draft.kind == "erasure" else ():
            if isinstance(change, Erase):
                self._erase(kept, change, commit.seq)
        for change in draft.changes if draft.kind == "purge" else ():
            if isinstance(change, Purge):
                self._purge(kept, change)
        return commit

    def _purge(self, project: _Kept, change: Purge) -> None:
        session = change.session
        kept = self._find(session)
        heirs = [
            other.record.id
            for other in self._sessions.values()
            if any(part.session == session for part in other.record.lineage)
        ]
        moved = change.head not in (0, kept.commits[-1].seq)
        check_purge(kept.record, project.record, heirs, moved)
        if kept.holder is not None:
            raise Busy(f"session {session} is driven", holder=kept.holder, session=session)
        del self._sessions[session]

    def _take(self, kept: _Kept, commit: Commit) -> None:
        kept.commits.append(commit)
        for op in commit.delta:
            if isinstance(op, Put) and isinstance(op.record, SessionRecord):
                kept.record = msgspec.structs.replace(op.record, project=kept.record.project)

    def _already(self, kept: _Kept, draft: Draft, log: list[Commit]) -> Commit | None:
        """The commit this draft already is, or `IdReused`; None if it is new."""
        check_id(draft.id, "commit")
        known = scrub(draft, self._redactor(log or [draft])) if draft.origin else draft
        for commit in log:
            if commit.id == draft.id:
                before = [c for c in log if c.seq < commit.seq]
                if same_origin(known, commit) or same_part(
                    draft, commit, _View(before), self._redactor(log)
                ):
                    return commit
                raise IdReused(f"commit {draft.id} has another body", commit=draft.id)
        for other in self._sessions.values():
            if any(commit.id == draft.id for commit in other.commits):
                raise IdReused(f"commit {draft.id} is in another session", commit=draft.id)
        return next((commit for commit in log if same_origin(known, commit)), None)

    def _redactor(self, log: Sequence[Commit | Draft]) -> Redactor | None:
        """The session's redactor: its key is content of the first commit of its oldest ancestor."""
        if not self._redact:
            return None
        first = log[0]
        if isinstance(first, Draft):
            key = first.key
        else:
            erased = not isinstance(first.content.get("key"), bytes)
            key = "" if erased else first.value("key")
        return Redactor(bytes.fromhex(key) or self._secret)

    def _erase(self, kept: _Kept, change: Erase, by: int) -> None:
        for seq, names in self._targets(kept, change).items():
            if seq <= kept.low:
                raise BadDelta(f"@{seq} was written in another session", session=kept.record.id)
            n = seq - kept.low - 1
            kept.commits[n] = _without(kept.commits[n], names, by)

    def _targets(self, kept: _Kept, change: Erase) -> dict[int, set[str]]:
        log = self._log(kept)
        if change.seq:
            commit = next((commit for commit in log if commit.seq == change.seq), None)
            if commit is None:
                raise NotFound(f"no commit @{change.seq}", session=kept.record.id)
            return {change.seq: chain.to_erase(commit, change.fields)}
        if change.collection == "session":
            raise InvalidInput("a session's own record stays", path="$.changes")
        targets: dict[int, set[str]] = {}
        for version in _versions(log):
            op = version.op
            if isinstance(op, Put) and (op.collection, op.id) == (change.collection, change.id):
                targets.setdefault(version.seq, set()).add(chain.put_item(version.n))
        if not targets:
            raise NotFound(f"no record {change.id} in {change.collection}")
        return targets

    def ingest(
        self, commits: Iterable[Commit], *, projects: Mapping[str, str] | None = None
    ) -> int:
        with self._lock:
            self._check()
            before = {id: (kept, kept.record, list(kept.commits)) for id, kept in self._all()}
            try:
                erased: list[tuple[Commit, Commit]] = []
                new = sum(self._ingest_one(c, projects or {}, erased) for c in commits)
                for mine, theirs in erased:
                    self._erase_as(mine, theirs)
                return new
            except BaseException:
                self._sessions = {id: kept for id, (kept, _, _) in before.items()}
                for kept, record, log in before.values():
                    kept.record, kept.commits = record, log
                raise

    def _all(self) -> list[tuple[str, _Kept]]:
        return list(self._sessions.items())

    def _begin_ingested(self, first: Commit, project: str | None) -> _Kept:
        records = [op.record for op in _true_delta(first) if isinstance(op, Put)]
        record = next((r for r in records if isinstance(r, SessionRecord)), None)
        if record is None or first.kind not in ("open", "fork"):
            raise InvalidInput(f"session {first.session} is not here and these do not begin it")
        if project is not None:
            record = msgspec.structs.replace(record, project=project)
        if any(_name(kept.record) == _name(record) for kept in self._sessions.values()):
            raise Conflict(f"another session is called {record.name!r}")
        return self._begin(record)

    def _ingest_one(
        self, commit: Commit, projects: Mapping[str, str], erased: list[tuple[Commit, Commit]]
    ) -> bool:
        kept = self._sessions.get(commit.session)
        if kept is None:
            kept = self._begin_ingested(commit, projects.get(commit.session))
        log = self._log(kept)
        if commit.seq <= len(log):
            mine = log[commit.seq - 1]
            chain.must_match(mine.hash, commit)
            erased.append((mine, commit))
            return False
        chain.must_follow(commit, log[-1].hash if log else chain.GENESIS, len(log) + 1)
        if any(c.id == commit.id for _, other in self._all() for c in other.commits):
            raise IdReused(f"commit {commit.id} is here already", commit=commit.id)
        if kept.holder is not None:
            raise driven(kept.record, kept.holder)
        self._take(kept, msgspec.structs.replace(commit, delta=_true_delta(commit)))
        return True

    def _erase_as(self, mine: Commit, theirs: Commit) -> None:
        """Take away what was erased where a commit came from, by an erasure that is here now."""
        kept = self._find(mine.session)
        n = mine.seq - kept.low - 1
        for by, names in chain.erased_by(mine, theirs).items():
            if any(c.seq == by and c.kind == "erasure" for c in kept.commits):
                kept.commits[n] = _without(kept.commits[n], names, by)

    def head(self, session: str) -> Head:
        with self._lock:
            log = self._log(self._find(session))
            return Head(log[-1].seq, log[-1].hash, log[-1].turn, _turn_open(log))

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

    # -- state ------------------------------------------------------------------------------------

    def entries(
        self, session: str, collection: str, *, at: int | None = None, limit: int | None = None
    ) -> list[Entry]:
        _check_collection(collection)
        if limit is not None:
            check_limit(limit)
        with self._lock:
            return _View(self._log(self._find(session), at)).all(collection)[:limit]

    def find(
        self, session: str, collection: str, key: str, *, at: int | None = None
    ) -> Entry | None:
        _check_collection(collection)
        with self._lock:
            return _View(self._log(self._find(session), at)).find(collection, key)

    def versions(
        self, session: str, *, after: int, upto: int, collections: Sequence[str] = ()
    ) -> list[Version]:
        for collection in collections:
            _check_collection(collection)
        with self._lock:
            return [
                version
                for version in _versions(self._log(self._find(session), upto))
                if version.seq > after and version.op.collection in (collections or COLLECTIONS)
            ]

    def replaced(self, session: str, ops: Sequence[Op]) -> list[Version | None]:
        with self._lock:
            log = self._log(self._find(session))
            last = {(v.op.collection, v.op.id, v.seq): v for v in _versions(log)}
            return [last.get((op.collection, op.id, op.was)) for op in ops]

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
        _check_collection(collection)
        with self._lock:
            self._check()
            chosen = [self._find(session)] if session else list(self._sessions.values())[::-1]
            return [
                Touch(
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

    def _touched(self, kept: _Kept, *, lineage: bool) -> list[tuple[str, Version]]:
        """Every version with the session that wrote it, newest first."""
        log = self._log(kept)
        owners = {commit.seq: commit.session for commit in log}
        low = 0 if lineage else kept.low
        return [(owners[v.seq], v) for v in _versions(log) if v.seq > low][::-1]

    def calls(
        self, query: CallQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[CallRow]:
        check_limit(limit)
        with self._lock:
            self._check()
            if query.session is not None:
                log = self._log(self._find(query.session))
                found: list[tuple[tuple[int, ...], CallRow]] = [
                    ((row.seq,), row) for row in _calls(log)[::-1]
                ]
            else:
                found = [
                    ((kept.number, row.seq), row)
                    for kept in list(self._sessions.values())[::-1]
                    if query.project in (None, kept.record.project)
                    for row in _calls(kept.commits)[::-1]
                ]
            rest = [
                (place, row)
                for place, row in found
                if _wanted(row, query) and (cursor is None or place < cursor)
            ]
            page = rest[:limit]
            return Page([row for _, row in page], page[-1][0] if len(rest) > limit else None)

    def counts(self, session: str) -> Counts:
        with self._lock:
            kept = self._find(session)
            own = kept.commits
            view = _View(self._log(kept))
            live = {
                name: sum(entry.seq > kept.low for entry in view.all(name)) for name in COLLECTIONS
            }
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

    def audit(self) -> Iterator[Finding]:
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
        raise BadQuery("the memory store speaks no SQL", hint="use a SQLite or PostgreSQL store")


class _View:
    """The state after some commits: the reducer's view, and every reader's."""

    def __init__(self, log: Iterable[Commit]) -> None:
        log = list(log)
        self._state = fold(commit.delta for commit in log)
        self._last = {(v.op.collection, v.op.id): v for v in _versions(log)}

    def all(self, collection: str) -> list[Entry]:
        """Live records, last touched first."""
        touched = [self._last[collection, identifier] for identifier in self._state[collection]]
        touched.sort(key=lambda version: (version.seq, version.n), reverse=True)
        return [
            Entry(collection, v.op.id, v.key, v.seq, v.turn, self._state[collection][v.op.id])
            for v in touched
        ]

    def find(self, collection: str, key: str) -> Entry | None:
        return next((entry for entry in self.all(collection) if entry.key == key), None)


def _versions(log: Iterable[Commit]) -> Iterator[Version]:
    """Every op of a log from its beginning, so that each drop has its put before it."""
    return versions_of(log, {})


def _turn_open(log: list[Commit]) -> bool:
    borders = [commit.kind for commit in log if commit.kind in ("turn", "turn_end")]
    return bool(borders) and borders[-1] == "turn"


def _turn(draft: Draft, log: list[Commit]) -> int:
    """The number of the turn a draft belongs to: the last one begun, or the one it begins."""
    last, is_open = log[-1].turn if log else 0, _turn_open(log)
    if draft.kind == "turn" and draft.status == CONTINUED and last and not is_open:
        return last
    if draft.kind == "turn" and is_open:
        raise BadTurn(f"turn {last} of session {draft.session} is still open", hint="end it first")
    if draft.kind == "turn_end" and not is_open:
        raise BadTurn(f"no turn of session {draft.session} is open")
    reopens = draft.status == "continued" and last > 0
    return last + 1 if draft.kind == "turn" and not reopens else last


def _calls(log: Iterable[Commit]) -> list[CallRow]:
    """Every intent, with the latest outcome before the call's next attempt."""
    rows: list[CallRow] = []
    latest: dict[str, int] = {}
    for commit in log:
        if commit.kind == "call":
            latest[commit.call] = len(rows)
            rows.append(
                CallRow(
                    session=commit.session,
                    call=commit.call,
                    tool=commit.tool,
                    seq=commit.seq,
                    turn=commit.turn,
                    at=commit.at,
                    effect=commit.effect,
                    attempt=commit.attempt,
                )
            )
        elif commit.kind in ("outcome", "settlement") and commit.call in latest:
            n = latest[commit.call]
            rows[n] = msgspec.structs.replace(
                rows[n], status=commit.status, cause=commit.cause, outcome=commit.seq
            )
    return rows


def _wanted(row: CallRow, query: CallQuery) -> bool:
    return (
        (query.tool is None or row.tool == query.tool)
        and (not query.statuses or row.status in query.statuses)
        and row.turn > query.after_turn
        and row.seq > query.after
    )


def _without(commit: Commit, names: set[str], by: int) -> Commit:
    """The commit with those content items erased."""
    bare = chain.without(commit, names, by)
    return msgspec.structs.replace(bare, delta=_true_delta(bare))


def _true_delta(commit: Commit) -> Delta:
    """The delta with its records read from the content the hash covers, wherever they came from."""
    delta: Delta = []
    for n, op in enumerate(commit.delta):
        item = commit.content.get(chain.put_item(n))
        if isinstance(op, Put) and isinstance(item, bytes):
            record = from_plain(op.collection, canon.decode(item))
            delta.append(msgspec.structs.replace(op, record=record))
        elif isinstance(op, Put) and isinstance(item, Gone):
            delta.append(msgspec.structs.replace(op, record=ErasedRecord(erased=item.by)))
        else:
            delta.append(op)
    return delta


def _opening_record(drafts: Sequence[Draft]) -> SessionRecord:
    if drafts and drafts[0].kind in ("open", "fork"):
        for change in drafts[0].changes:
            if isinstance(change, Upsert) and isinstance(change.record, SessionRecord):
                return change.record
    raise InvalidInput("a session begins with its open or fork commit", path="$.kind")


def _name(record: SessionRecord) -> tuple[str, str, str]:
    return record.tenant, record.project, record.name


def _matches(record: SessionRecord, query: SessionQuery) -> bool:
    asked = {name: getattr(query, name) for name in ("name", "project", "tenant", "agent")}
    asked |= {"status": query.status, "mode": query.mode}
    return (
        all(value is None or getattr(record, name) == value for name, value in asked.items())
        and (query.alias is None or list(query.alias) in record.aliases)
        and (query.suffix is None or record.id.endswith(query.suffix))
        and (query.parent is None or (record.parent and record.parent.session) == query.parent)
    )


def _check_collection(collection: str) -> None:
    if collection not in COLLECTIONS:
        raise BadQuery(
            f"no collection {collection!r:.40}", hint=f"one of: {', '.join(COLLECTIONS)}"
        )
