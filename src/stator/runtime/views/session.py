"""Reads one session: its log, state, positions, differences, files, decisions and calls.

Needs no lease and changes nothing. What people hold is `SessionView`, which adds the larger views.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from stator.model.log.commit import Commit
from stator.model.log.delta import Put, Version
from stator.model.log.query import (
    CallQuery,
    CallRow,
    Counts,
    Head,
    SessionRow,
    TurnRow,
)
from stator.model.records.tables import COLLECTIONS, HOT
from stator.model.records.types import (
    DecisionRecord,
    Entry,
    ErasedRecord,
    FactRecord,
    SessionRecord,
    State,
)
from stator.model.sessions.lifecycle import lent_upto
from stator.model.values import canon
from stator.model.values.position import AtHead, parse_ref
from stator.model.views.diff import Diff, superseded
from stator.model.views.unplaced import Unplaced
from stator.runtime.base.pages import counts_of
from stator.runtime.views import words
from stator.runtime.views.as_read import for_one_answer, unplaced_in
from stator.runtime.views.file_changes import FileChange, files_touched
from stator.runtime.views.glance.calls import list_calls, statuses_of
from stator.runtime.views.ranges import END, between, points, seqs_of
from stator.runtime.views.reflog import (
    Reflog,
    left_turns,
    reflog,
    standing_turns,
)
from stator.runtime.views.refs import Point, locate
from stator.runtime.views.words import ModelWords
from stator.store.port import StorePort

PAGE = 1000
ERASED = "(erased)"
"""What an erased decision says."""


class DecisionLine(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, whether it is current, and what superseded it."""

    id: str
    record: DecisionRecord
    """Of an erased decision: that it was erased, and nothing else."""
    seq: int
    turn: int
    stands: bool
    by: str = ""
    """Id of the decision that superseded it."""
    session: str = ""
    erased: int | None = None
    """The seq of the commit that erased it; None if it was not erased. What is erased is not current."""
    left_out: str = ""
    """Why it does not count for the project, where that was asked: `in a retry that was not adopted`. Then it is not
    current."""

    @property
    def recorded(self) -> DecisionRecord | ErasedRecord:
        """The record as the state holds it."""
        return self.record if self.erased is None else ErasedRecord(erased=self.erased)


def _decision_line(session: str, version: Version, op: Put) -> DecisionLine:
    """A decision as one version of it says."""
    gone = op.record.erased if isinstance(op.record, ErasedRecord) else None
    return DecisionLine(
        id=op.id,
        record=op.record if isinstance(op.record, DecisionRecord) else DecisionRecord(what=ERASED),
        seq=version.seq,
        turn=version.turn,
        stands=gone is None,
        session=session,
        erased=gone,
    )


class SessionReader:
    """The plain reads of one session, straight from the store."""

    def __init__(self, store: StorePort, session: str) -> None:
        self._store = store
        self._id = session

    @property
    def id(self) -> str:
        return self._id

    @property
    def row(self) -> SessionRow:
        """The session as listings show it, now."""
        return self._store.session(self._id)

    @property
    def record(self) -> SessionRecord:
        return self.row.record

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def status(self) -> str:
        return self.row.shown

    @property
    def head(self) -> Head:
        return self._store.head(self._id)

    @property
    def counts(self) -> Counts:
        return counts_of(self._store, self._id)

    # -- the log ----------------------------------------------------------------------------------

    def log(
        self,
        span: str | None = None,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        load: bool = True,
    ) -> Iterator[Commit]:
        """Commits of the whole session or of a range such as `t4..t5`, one page read at a time."""
        after, upto = seqs_of(self._store, self._id, span)
        left = limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = self._store.commits(
                self._id, after=after, upto=upto, newest_first=newest_first, limit=size, load=load
            )
            yield from page
            if len(page) < size:
                return
            left = None if left is None else left - len(page)
            if newest_first:
                upto = page[-1].seq - 1
            else:
                after = page[-1].seq

    def unplaced(self) -> list[Unplaced]:
        """What is known of a recorded session and has no place in its log yet, in order: no position, no hash."""
        return unplaced_in(self._store, self._id)

    def commit(self, ref: str) -> Commit:
        """The commit at a position."""
        point = self.at(ref)
        found = self._store.commits(point.session, after=point.seq - 1, upto=point.seq, limit=1)
        return found[0]

    def turns(self, *, last: int | None = None, prompts: bool = False) -> list[TurnRow]:
        """Turns in order: all of them, or the last `last`; with `prompts`, each with the commit that began it."""
        if last is not None:
            return self._store.turns(self._id, newest_first=True, limit=last, prompts=prompts)[::-1]
        found: list[TurnRow] = []
        while page := self._store.turns(
            self._id, after=found[-1].turn if found else 0, prompts=prompts
        ):
            found += page
        return found

    def beginning(self, turn: int) -> Commit | None:
        """The commit that began a turn, with its prompt; None without such a turn."""
        rows = turn > 0 and self._store.turns(self._id, after=turn - 1, upto=turn, prompts=True)
        return rows[0].began if rows else None

    def at(self, ref: str) -> Point:
        """Where a ref points; one without a session points into this one."""
        return locate(self._store, self._id, ref)

    # -- state ------------------------------------------------------------------------------------

    def state(self, at: str = "head", *, collections: Sequence[str] = ()) -> State:
        """The state at a position, whole or some collections of it."""
        names = collections or tuple(COLLECTIONS)
        state: State = {name: {} for name in names}
        for entry in self._read(at, names):
            state[entry.collection][entry.id] = entry.record
        return state

    def hot(self, at: str = "head") -> dict[str, list[Entry]]:
        """What an agent needs first: small collections whole, the newest decisions and files; without what was
        erased."""
        return self._kept(at, {name: hot.newest for name, hot in HOT.items()})

    def entries(
        self,
        collection: str,
        at: str = "head",
        *,
        limit: int | None = None,
        erased: bool = False,
    ) -> list[Entry]:
        """Live records of a collection, last touched first; those that were erased only with `erased`: they are
        an `ErasedRecord`, which has none of the fields."""
        if erased:
            return self._read(at, [collection], {} if limit is None else {collection: limit})
        return self._kept(at, {collection: limit})[collection]

    def _kept(self, at: str, limits: Mapping[str, int | None]) -> dict[str, list[Entry]]:
        """Live records that were not erased, by collection."""
        most = {name: limit for name, limit in limits.items() if limit is not None}
        kept: dict[str, list[Entry]] = {name: [] for name in limits}
        cut: set[str] = set()
        for entry in self._read(at, list(limits), most):
            if not isinstance(entry.record, ErasedRecord):
                kept[entry.collection].append(entry)
            elif entry.collection in most:
                cut.add(entry.collection)
        for name in cut:  # of the newest some were erased, so that earlier ones take their place
            kept[name] = self._kept(at, {name: None})[name][: most[name]]
        return kept

    def _read(
        self, at: str, names: Sequence[str], limits: Mapping[str, int] | None = None
    ) -> list[Entry]:
        """Live records of some collections at a position: one call, and one to find the position."""
        store, ref = for_one_answer(self._store), parse_ref(at)
        if not ref.session and ref.position == AtHead():
            return store.entries(self._id, *names, limit=limits)
        point = locate(store, self._id, at)
        return store.entries(point.session, *names, at=point.seq, limit=limits)

    def facts(self) -> dict[str, Any]:
        """Facts by name."""
        records = [entry.record for entry in self._store.entries(self._id, "facts")]
        return {
            record.name: canon.from_plain(record.value)
            for record in records
            if isinstance(record, FactRecord)
        }

    def last_words(self) -> ModelWords | None:
        """The last answer of the model that says something, as it is; None if there is none."""
        return words.last_words(self._store, self._id)

    def summary(self) -> ModelWords | None:
        """What the model wrote when its view was shortened, the last time; None if it never was."""
        return words.summary(self._store, self._id)

    def reflog(self) -> list[Reflog]:
        """The rewinds of this session, newest first; each left a tag on the head it went back from."""
        return reflog(self._store, self._id)

    def rewound(self) -> set[int]:
        """Turns that were rewound: they are in the log, and no longer count."""
        return left_turns(self._store, self._id)

    # -- diff -------------------------------------------------------------------------------------

    def diff(self, start: str | None = None, end: str | None = None) -> Diff:
        """The net change: of the last turn, of one turn (`diff("t5")`), of a range (`"t4..t5"`) or between two refs."""
        store = for_one_answer(self._store)
        return between(store, *points(store, self._id, start, end))

    # -- questions --------------------------------------------------------------------------------

    def files(
        self,
        span: str | None = None,
        *,
        last: int | None = None,
        reads: bool = False,
        own: bool = False,
    ) -> list[FileChange]:
        """Files touched in a turn or a range, or in the last `last` turns (default: ever), net, newest first. What was
        rewound is left out; with `own`, also what the session inherited when it was forked."""
        store = for_one_answer(self._store)
        after, upto = seqs_of(self._store, self._id, span)
        if last is not None:
            rows = standing_turns(store, self._id, last)
            after = max(after, rows[-1].first - 1 if rows else 0)
        upto = END if upto is None else upto
        after = max(after, lent_upto(self.row.record.lineage)) if own else after
        return files_touched(store, self._id, after=after, upto=upto, reads=reads)

    def decisions(
        self, span: str | None = None, *, standing: bool | None = None
    ) -> list[DecisionLine]:
        """Decisions in the order they were made, ever or in a turn or a range; those that are current, those that are
        not (superseded, taken back or erased), or all."""
        after, upto = seqs_of(self._store, self._id, span)
        versions = self._store.versions(
            self._id, after=0, upto=self.head.seq, collections=("decisions",)
        )
        lines: dict[str, DecisionLine] = {}
        made: dict[str, list[DecisionLine]] = {}
        for version in versions:
            op = version.op
            if isinstance(op, Put):
                line = _decision_line(self._id, version, op)
                # What a rewind puts back was decided where it was made.
                again = (one for one in made.get(op.id, ()) if one.recorded == line.recorded)
                lines[op.id] = next(again, line)
                made.setdefault(op.id, []).append(line)
            elif op.id in lines:
                lines[op.id] = msgspec.structs.replace(lines[op.id], stands=False)
        by = superseded(versions)
        return [
            msgspec.structs.replace(line, by="" if line.stands else by.get(line.id, ""))
            for line in lines.values()
            if (standing is None or line.stands is standing)
            and after < line.seq <= (line.seq if upto is None else upto)
        ]

    def calls(
        self,
        span: str | None = None,
        *,
        status: str | None = None,
        tool: str | None = None,
        last: int | None = None,
        limit: int = 100,
    ) -> list[CallRow]:
        """Calls of the session, or of a turn or a range of it, newest first; `status` may also be `failed` (did not
        end ok) or `open` (no outcome yet)."""
        statuses = statuses_of(status)
        first, upto = seqs_of(self._store, self._id, span)
        after = -1
        if last is not None:
            rows = self._store.turns(self._id, newest_first=True, limit=last)
            after = rows[-1].turn - 1 if rows else -1
        query = CallQuery(
            session=self._id, tool=tool, statuses=statuses, after=first, after_turn=after
        )
        return list_calls(self._store, query, None if upto is None else (upto + 1,), limit).rows
