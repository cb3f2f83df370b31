"""The memory store: the port in plain Python.

Nothing is cached and nothing is indexed. It is slow on purpose, and it forgets everything when it is closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from stator.errors import (
    BadDelta,
    BrokenChain,
    Busy,
    Conflict,
    HeadMoved,
    IdReused,
    InvalidInput,
    NotFound,
)
from stator.model.exchange.bookmark import Bookmark
from stator.model.log import chain
from stator.model.log.commit import (
    Commit,
    Draft,
    Erase,
    Purge,
)
from stator.model.log.delta import (
    Put,
)
from stator.model.log.query import (
    Holder,
    Lease,
    SessionRow,
)
from stator.model.log.redact import Redactor
from stator.model.log.seal import (
    Place,
    admitted,
    same_origin,
    same_part,
    scrub,
    seal,
)
from stator.model.records.types import (
    SessionRecord,
)
from stator.model.sessions.lifecycle import (
    check_purge,
    driven,
)
from stator.model.values import canon
from stator.model.values.ids import check_id
from stator.store.memory.answers import (
    LogState,
    full_name,
    hashed_delta,
    opening_record,
    turn_of,
    versions_from_start,
    without_items,
)
from stator.store.memory.reads import KeptSession, MemoryReads


class MemoryStore(MemoryReads):
    """See `store.port` for what each method promises."""

    # -- sessions ---------------------------------------------------------------------------------

    def create(
        self, drafts: Sequence[Draft], *, bookmark: Bookmark | None = None
    ) -> tuple[SessionRow, bool]:
        with self._lock:
            self._check()
            record = opening_record(drafts)
            if self._redact and drafts[0].key:
                record = opening_record([scrub(drafts[0], self._redactor(drafts))])
            for kept in self._sessions.values():
                if full_name(kept.record) == full_name(record):
                    return self._row(kept), False
            if record.id in self._sessions:
                raise Conflict(f"session {record.id} exists under another name", session=record.id)
            kept = self._begin(record)
            try:
                for draft in drafts:
                    self._append_one(kept, draft)
                self._keep_reading(kept, bookmark)
            except BaseException:
                del self._sessions[record.id]
                raise
            row = self._row(kept)
        self.wrote()
        return row, True

    def _begin(self, record: SessionRecord) -> KeptSession:
        """A session without commits yet, if its lineage is what it says."""
        check_id(record.id, "session")
        if record.lineage:
            self._check_lineage(record)
        self._begun += 1
        kept = KeptSession(self._begun, record)
        self._sessions[record.id] = kept
        return kept

    def _check_lineage(self, record: SessionRecord) -> None:
        """A fork must follow a commit that is there, over stretches without a hole."""
        edge, last = 0, ""
        for part in record.lineage:
            kept = self._find(part.session)
            found = [commit.hash for commit in kept.commits if commit.seq == part.upto]
            if part.after != edge or not found:
                raise InvalidInput("the lineage does not match this store", path="$.lineage")
            edge, last = part.upto, found[0]
        if record.parent is None or record.parent.hash != last:
            raise BrokenChain(f"@{edge} of the parent is {last[:12]}", session=record.id)

    # -- the lease --------------------------------------------------------------------------------

    def acquire(
        self, session: str, holder: Holder, *, take: bool = False, over: int = 0, newest: int = 0
    ) -> Lease:
        with self._lock:
            kept = self._find(session)
            displaced = kept.holder
            if displaced is not None and not take and displaced.epoch != over:
                raise Busy(
                    f"session {session} is driven by {displaced.program or 'a program'}",
                    holder=displaced,
                    session=session,
                )
            self._last_epoch += 1
            kept.epoch = self._last_epoch
            beats = int(self.counts_beats)
            kept.holder = msgspec.structs.replace(holder, epoch=kept.epoch, live=True, beats=beats)
            last = self._log(kept)[: -newest - 1 : -1]
            return Lease(session, kept.epoch, displaced, tuple(last))

    def beat(self, session: str) -> None:
        """The process that holds a session gives a sign, as it would of a store at a distance."""
        with self._lock:
            kept = self._find(session)
            if kept.holder is not None:
                beats = kept.holder.beats + 1
                kept.holder = msgspec.structs.replace(kept.holder, beats=beats)

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
        bookmark: Bookmark | None = None,
    ) -> list[Commit]:
        with self._lock:
            self._check()
            if not drafts and bookmark is None:
                return []
            kept = self._find(session)
            self._check_reading(kept, bookmark)
            head = kept.commits[-1].hash
            landed = any(commit.id == drafts[0].id for commit in kept.commits if drafts)
            if if_head is not None and if_head != head and not landed:
                raise HeadMoved(f"session {session} is at {head[:12]}", head=head, session=session)
            before, sessions = (kept.record, list(kept.commits)), dict(self._sessions)
            try:
                answers = [self._append_one(kept, draft) for draft in drafts]
                self._keep_reading(kept, bookmark)
            except BaseException:
                kept.record, kept.commits = before
                self._sessions = sessions
                raise
        self.wrote()
        return answers

    def bookmark(self, session: str, name: str) -> Bookmark | None:
        with self._lock:
            return self._find(session).readings.get(name)

    def _check_reading(self, kept: KeptSession, note: Bookmark | None) -> None:
        known = None if note is None else kept.readings.get(note.name)
        if note is not None and note.number != (0 if known is None else known.number) + 1:
            raise HeadMoved(
                f"session {kept.record.id}: another reader of {note.name!r:.80} was first",
                head=kept.commits[-1].hash,
                session=kept.record.id,
            )

    def _keep_reading(self, kept: KeptSession, note: Bookmark | None) -> None:
        if note is None:
            return
        redactor = self._redactor(self._log(kept))
        scrub = redactor.scrub if redactor is not None else None
        value = canon.loads(canon.dumps(note.value, scrub=scrub))
        kept.readings[note.name] = msgspec.structs.replace(note, value=value)

    def _append_one(self, kept: KeptSession, draft: Draft) -> Commit:
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
            draft = admitted(draft, record, kept.epoch if kept.holder else 0)
        prev = log[-1].hash if log else chain.GENESIS
        place = Place(len(log) + 1, turn_of(draft, log), self._clock(), prev)
        redactor = self._redactor(log or [draft])
        commit = seal(draft, place, LogState(log), redactor, self._salts).commit
        self._take(kept, commit)
        for change in draft.changes if draft.kind == "erasure" else ():
            if isinstance(change, Erase):
                self._erase(kept, change, commit.seq)
        for change in draft.changes if draft.kind == "purge" else ():
            if isinstance(change, Purge):
                self._purge(kept, change)
        return commit

    def _purge(self, project: KeptSession, change: Purge) -> None:
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

    def _take(self, kept: KeptSession, commit: Commit) -> None:
        kept.commits.append(commit)
        for op in commit.delta:
            if isinstance(op, Put) and isinstance(op.record, SessionRecord):
                kept.record = msgspec.structs.replace(op.record, project=kept.record.project)

    def _already(self, kept: KeptSession, draft: Draft, log: list[Commit]) -> Commit | None:
        """The commit this draft already is, or `IdReused`; None if it is new."""
        check_id(draft.id, "commit")
        known = scrub(draft, self._redactor(log or [draft])) if draft.origin else draft
        for commit in log:
            if commit.id == draft.id:
                before = [c for c in log if c.seq < commit.seq]
                if same_origin(known, commit) or same_part(
                    draft, commit, LogState(before), self._redactor(log)
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

    def _erase(self, kept: KeptSession, change: Erase, by: int) -> None:
        kept.readings.clear()  # a note may hold a copy
        for seq, names in self._targets(kept, change).items():
            if seq <= kept.low:
                raise BadDelta(f"@{seq} was written in another session", session=kept.record.id)
            n = seq - kept.low - 1
            kept.commits[n] = without_items(kept.commits[n], names, by)

    def _targets(self, kept: KeptSession, change: Erase) -> dict[int, set[str]]:
        log = self._log(kept)
        if change.seq:
            commit = next((commit for commit in log if commit.seq == change.seq), None)
            if commit is None:
                raise NotFound(f"no commit @{change.seq}", session=kept.record.id)
            return {change.seq: chain.to_erase(commit, change.fields)}
        if change.collection == "session":
            raise InvalidInput("a session's own record stays", path="$.changes")
        targets: dict[int, set[str]] = {}
        for version in versions_from_start(log):
            op = version.op
            if isinstance(op, Put) and (op.collection, op.id) == (change.collection, change.id):
                targets.setdefault(version.seq, set()).add(chain.put_item(version.n))
        if not targets:
            raise NotFound(f"no record {change.id} in {change.collection}")
        return targets

    def ingest(
        self, commits: Iterable[Commit], *, projects: Mapping[str, str] | None = None
    ) -> int:
        # Before the lock is held: what makes them may ask this store, from another thread.
        arriving = list(commits)
        with self._lock:
            self._check()
            before = {id: (kept, kept.record, list(kept.commits)) for id, kept in self._all()}
            try:
                erased: list[tuple[Commit, Commit]] = []
                new = sum(self._ingest_one(c, projects or {}, erased) for c in arriving)
                for mine, theirs in erased:
                    self._erase_as(mine, theirs)
            except BaseException:
                self._sessions = {id: kept for id, (kept, _, _) in before.items()}
                for kept, record, log in before.values():
                    kept.record, kept.commits = record, log
                raise
        self.wrote()
        return new

    def _all(self) -> list[tuple[str, KeptSession]]:
        return list(self._sessions.items())

    def _begin_ingested(self, first: Commit, project: str | None) -> KeptSession:
        records = [op.record for op in hashed_delta(first) if isinstance(op, Put)]
        record = next((r for r in records if isinstance(r, SessionRecord)), None)
        if record is None or first.kind not in ("open", "fork"):
            raise InvalidInput(
                f"session {first.session} is not in this store, and these commits do not start it"
            )
        if project is not None:
            record = msgspec.structs.replace(record, project=project)
        if any(full_name(kept.record) == full_name(record) for kept in self._sessions.values()):
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
            raise IdReused(f"commit {commit.id} is already in this store", commit=commit.id)
        if kept.holder is not None:
            raise driven(kept.record, kept.holder)
        self._take(kept, msgspec.structs.replace(commit, delta=hashed_delta(commit)))
        return True

    def _erase_as(self, mine: Commit, theirs: Commit) -> None:
        """Take away what was erased where a commit came from, by an erasure that is here now."""
        kept = self._find(mine.session)
        n = mine.seq - kept.low - 1
        for by, names in chain.erased_by(mine, theirs).items():
            if any(c.seq == by and c.kind == "erasure" for c in kept.commits):
                kept.commits[n] = without_items(kept.commits[n], names, by)
