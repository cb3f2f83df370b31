"""Takes over into a new session what the session that it continues knows, under the provenance that it had there.

The commits are part of the transaction that begins the first run. If the program dies before it, the next opening
finds that there was no run yet and takes everything over then; after it, nothing is taken over again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec

from stator.errors import Conflict, NotFound
from stator.model.log.commit import UNTRUSTED, Commit, Draft, Provenance, Reset, Source, Trust
from stator.model.log.delta import Put
from stator.model.log.edges import Edge
from stator.model.log.query import SessionRow
from stator.model.log.rewinds import rewind_of
from stator.model.records.types import (
    DecisionRecord,
    Entry,
    ErasedRecord,
    FileRecord,
    PlanRecord,
    SessionRecord,
    to_settle,
)
from stator.model.values.ids import short
from stator.model.views.knowledge import CARRY, origins_of
from stator.model.views.project_state import OPEN
from stator.runtime.base.pages import commit_at
from stator.runtime.base.project_flags import Trash
from stator.runtime.views import derivation
from stator.runtime.views.refs import find_session, followed, rows_of
from stator.store.port import StorePort

LAST = "last"
CARRIED = (
    "decisions",
    "facts",
    "preferences",
    "dead_ends",
    "plan",
    "pending",
    "artifacts",
    "files",
    "working_set",
)
CARRIED_MAX = 500
"""Records of a collection that are taken over, the newest."""
FIRST_COMMITS = 100
"""Commits that may lie before the first run: what others contributed in between."""


def source_of(store: StorePort, record: SessionRecord, after: str) -> str:
    """The session that a new one continues, by what the program says: a session, or the last one."""
    if after != LAST:
        found = find_session(store, after, project=record.project or None)
        if found.record.name == record.name and found.record.project == record.project:
            raise Conflict(
                f"session {record.name!r:.80} cannot continue itself",
                hint="name an earlier session, or open it without after=",
                session=found.id,
            )
        return found.id
    trash = Trash(store)
    for row in rows_of(store, project=record.project):
        known = row.record
        is_child = known.parent is not None and known.parent.kind == "child"
        is_other = known.mode != "project" and not is_child and known.name != record.name
        if is_other and row not in trash:
            return followed(store, row).id
    raise NotFound(
        "there is no earlier session of this project to continue",
        hint="stator ls lists sessions; open it without after= to begin",
    )


def must_continue(row: SessionRow, after: str, source: Callable[[], str]) -> None:
    """Raise `Conflict` unless a session that exists continues what the program says."""
    continues = row.record.continues
    if continues and (after == LAST or source() == continues):
        return
    named = f"continues {short(continues)}" if continues else "was opened without after="
    raise Conflict(
        f"session {row.record.name!r:.80} exists and {named}",
        hint="open it without after=, or choose another name",
        session=row.id,
    )


def drafts(store: StorePort, row: SessionRow, draft: Callable[..., Draft]) -> list[Draft]:
    """What is to be recorded when a session that continues another begins its first run."""
    source = row.record.continues
    if not source or _has_begun(store, row):
        return []
    try:
        head = store.head(source)
    except NotFound:  # purged since: there is nothing to take over
        return []
    groups: dict[tuple[str, str], list[_TakenRecord]] = {}
    for one in _carried(store, source, head.seq):
        groups.setdefault((one.source, one.trust), []).append(one)
    return [
        draft(
            CARRY,
            actor="system",
            happened=max(one.happened for one in group),
            provenance=Provenance(cast("Source", origin), cast("Trust", trust)),
            input={
                "session": source,
                "head": head.seq,
                "records": [[one.commit, one.happened] for one in group],
            },
            inputs=tuple(dict.fromkeys(one.commit for one in group))[: derivation.FROM_MAX],
            changes=tuple(one.change for one in group),
        )
        for (origin, trust), group in groups.items()
    ]


def _has_begun(store: StorePort, row: SessionRow) -> bool:
    found = store.commits(row.id, limit=FIRST_COMMITS, load=False)
    return len(found) == FIRST_COMMITS or any(one.kind in ("run", "resume") for one in found)


class _TakenRecord(msgspec.Struct, frozen=True):
    """A record that is taken over: the commit that recorded it, and when; where it came from."""

    seq: int
    change: Reset
    commit: str
    happened: int
    source: str
    trust: str


def _carried(store: StorePort, session: str, head: int) -> Iterator[_TakenRecord]:
    """The records to take over, oldest first."""
    origins = _Origins(store, session)
    found: list[_TakenRecord] = []
    for collection in CARRIED:
        for entry in store.entries(session, collection, at=head)[:CARRIED_MAX]:
            if (record := _kept(entry)) is None:
                continue
            commit = origins.recorded(entry)
            original, happened = origins.original(commit, entry)
            change = Reset(entry.collection, entry.id, entry.key, record)
            source, trust = origins.trusted(commit)
            found.append(_TakenRecord(entry.seq, change, original, happened, source, trust))
    yield from sorted(reversed(found), key=lambda one: one.seq)


def _kept(entry: Entry) -> Any:
    """The record as it is taken over; None if it is not."""
    record = entry.record
    if isinstance(record, ErasedRecord):
        return None
    if isinstance(record, FileRecord):
        return record if record.op == "skipped" else None
    if isinstance(record, PlanRecord):
        return record if record.status in OPEN else None
    if isinstance(record, DecisionRecord):
        return msgspec.structs.replace(record, supersedes="")
    return None if entry.key.startswith(to_settle("")) else record


class _Origins:
    """Where the records of a session come from."""

    def __init__(self, store: StorePort, session: str) -> None:
        self._store = store
        self._session = session
        self._commits: dict[int, Commit] = {}
        self._trusted: dict[str, tuple[str, str]] = {}

    def _at(self, seq: int) -> Commit:
        if seq not in self._commits:
            self._commits[seq] = commit_at(self._store, self._session, seq)
        return self._commits[seq]

    def recorded(self, entry: Entry) -> Commit:
        """The commit that recorded an entry; a rewind only put it back."""
        commit = self._at(entry.seq)
        rewind = rewind_of(commit)
        if rewind is None:
            return commit
        versions = self._store.versions(
            self._session, after=0, upto=rewind.to, collections=(entry.collection,)
        )
        seqs = [one.seq for one in versions if isinstance(one.op, Put) and one.op.id == entry.id]
        while seqs:
            found = self._at(seqs.pop())
            if found.kind != "rewind":
                return found
        return commit

    def original(self, commit: Commit, entry: Entry) -> tuple[str, int]:
        """The commit that recorded a record first, and when: one that was taken over names another."""
        puts = [op for op in commit.delta if isinstance(op, Put)]
        for op, (identifier, happened) in zip(puts, origins_of(commit), strict=False):
            if op.id == entry.id and identifier:
                return identifier, happened
        return commit.id, commit.used

    def trusted(self, commit: Commit) -> tuple[str, str]:
        """The source and trust that a record is taken over with: those of an untrusted root, if it rests on one."""
        if commit.id not in self._trusted:
            self._trusted[commit.id] = self._followed(commit)
        return self._trusted[commit.id]

    def _followed(self, commit: Commit) -> tuple[str, str]:
        found = derivation.reach(self._store, self._session, [Edge(commit.seq, commit.seq)])
        if found.path:
            root = found.path[0]
            source = commit_at(self._store, root.session, root.seq, load=False).provenance.source
            return source if source in UNTRUSTED else "import", "unverified"
        if not found.whole:  # nobody knows what it rests on
            return "import", "unverified"
        return commit.provenance.source, commit.provenance.trust
