"""Reads what of a store waits for a person, what runs now and what ended lately: the first page, and `status`.

However many sessions there are, the port is asked a few times: each round reads ahead, in one call, what all of the
sessions in question are going to be asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from stator.model.calls.costs import Prices
from stator.model.log.commit import Commit
from stator.model.log.query import CallQuery, Read, SessionQuery, SessionRow, read
from stator.model.records.types import (
    LOOKS,
    CallRecord,
    Entry,
    FileRecord,
    FlagRecord,
    PlanRecord,
    ReadStep,
    file_key,
)
from stator.model.values.ids import retype
from stator.model.views.checked import NO_CHECK
from stator.model.views.open_calls import HISTORY_US, waits
from stator.model.views.project_state import StateEntry
from stator.runtime.base.costs import asks_cost
from stator.runtime.base.one_answer import ahead
from stator.runtime.base.pages import commit_at
from stator.runtime.base.project_flags import Trash
from stator.runtime.views.as_read import for_one_answer, itself_asked, to_settle
from stator.runtime.views.checked import read_steps_ahead
from stator.runtime.views.glance.endings import Ending, endings
from stator.runtime.views.glance.overview import look
from stator.runtime.views.glance.status import AtWork
from stator.runtime.views.last_acts import acted, asks_last_act
from stator.runtime.views.refs import intent_of
from stator.store.port import StorePort

CALLS_MAX = 500
"""Open calls that are looked at, those of the sessions used last."""
OPEN_MAX = 60
"""Sessions with open calls that are looked at, and sessions at work."""
RECENT_MAX = 40
"""Sessions used last that are looked at for flags and for steps of their plans."""
PROJECTS_MAX = 5
LATELY = 8
"""Ended sessions that are listed."""
STEPS_MAX, FLAGS_MAX, FILES_MAX = 40, 20, 200
"""Steps, flags and files of one session that are looked at: those touched last."""
OPEN_CALLS = ("awaiting approval", "in doubt", "started")
ROUND = ("calls", "plan", "flags", "spend", "approvals", "checks", "tags", "session")
"""What is read of every session in question."""


class NeededCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a person: in doubt, or to be approved."""

    row: SessionRow
    record: CallRecord
    intent: Commit | None
    """What it was meant to do; None where that cannot be found any more."""
    last: int
    """When the last sign of its session was recorded, in µs: after that, nothing is known."""
    answer: str = ""
    """approved or denied, if a person answered and the driver has not seen that yet."""

    @property
    def since(self) -> int:
        """When it was written down, in µs; 0 if that is not known."""
        return self.record.since or (self.intent.when if self.intent is not None else 0)


class ClaimedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a plan that is called done, while its check failed, did not run, or is older than a change."""

    row: SessionRow
    step: ReadStep
    turn: int
    place: int
    total: int


class FileToucher(msgspec.Struct, frozen=True, kw_only=True):
    """One of the sessions that work in a file."""

    row: SessionRow
    op: str
    seq: int
    turn: int
    when: int


class SharedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that several sessions at work have touched, at least one of which changed it."""

    path: str
    by: list[FileToucher]
    """Who touched it last first."""


class FlaggedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A mark by which someone asked a person to look."""

    row: SessionRow
    flag: FlagRecord
    seq: int
    when: int


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a person finds who comes back to the sessions of a store."""

    doubts: list[NeededCall]
    approvals: list[NeededCall]
    claims: list[ClaimedStep]
    shared: list[SharedFile]
    flags: list[FlaggedSession]
    running: list[AtWork]
    ended: list[Ending]
    old_doubts: list[NeededCall]
    """Calls in doubt that are so old that no person is asked about them, newest first."""
    projects: list[str]
    """The projects that were worked in last."""
    conflicts: list[tuple[str, StateEntry]] | None = None
    """What sessions of these projects disagree on, each with its project; None where that takes a while to find out."""

    @property
    def count(self) -> int:
        """How many decisions wait for a person."""
        waiting = sum(not one.answer for one in self.approvals)
        conflicts = len(self.conflicts or ())
        looked_at = len(self.claims) + len(self.shared) + len(self.flags)
        return len(self.doubts) + waiting + conflicts + looked_at


def needs(
    store: StorePort, now: int, *, project: str | None = None, prices: Prices | None = None
) -> Needs:
    """What waits for a person in a store or a project, oldest first; what runs; what ended lately."""
    return _NeedsReader(for_one_answer(store), now, project, prices).found()


class _NeedsReader:
    def __init__(
        self, store: StorePort, now: int, project: str | None, prices: Prices | None
    ) -> None:
        self._store, self._now, self._prices = store, now, prices
        calls = CallQuery(project=project, statuses=OPEN_CALLS)
        queries = [SessionQuery(project=project, status="active"), SessionQuery(project=project)]
        limits = (OPEN_MAX, RECENT_MAX)
        ahead(
            store,
            read("calls", calls, limit=CALLS_MAX),
            *(read("sessions", q, limit=n) for q, n in zip(queries, limits, strict=True)),
        )
        rows = itself_asked(store).calls(calls, limit=CALLS_MAX).rows
        self._open = list(dict.fromkeys(row.session for row in rows))[:OPEN_MAX]
        active, recent = (
            [row for row in store.sessions(q, limit=n).rows if _is_worked_in(row)]
            for q, n in zip(queries, limits, strict=True)
        )
        self._active = [row for row in active if row.shown == "active"]
        self._recent = recent

    def found(self) -> Needs:
        every = dict.fromkeys([*self._open, *(row.id for row in [*self._active, *self._recent])])
        most = {"plan": STEPS_MAX, "flags": FLAGS_MAX}
        running = {row.id for row in self._active}
        reads: list[Read] = []
        for each in every:
            reads += [
                read("session", each),
                read("head", each),
                read("entries", each, *ROUND, limit=most),
            ]
            if each in running:
                reads.append(read("entries", each, "files", limit={"files": FILES_MAX}))
        for row in self._active:
            reads += asks_cost(row.id, self._prices)
        reads += (asks_last_act(row.id) for row in self._recent)
        ahead(self._store, *reads)
        asked = [self._store.session(each) for each in self._open]
        trash = Trash(self._store).among({row.id: row for row in [*asked, *self._recent]}.values())
        asked = [row for row in asked if row.id not in trash]
        recent = [row for row in self._recent if row.id not in trash]
        over = [row for row in recent if row.id not in running and not _is_below(row) and row.turns]
        # Of a session without times nobody knows that it ended lately.
        over = sorted(acted(self._store, over), key=lambda row: (not row.has_times, -row.used))
        ended = over[:LATELY]
        checked = [row for row in recent if self._now - row.updated <= HISTORY_US]
        read_steps_ahead(itself_asked(self._store), {row.id: row.head for row in checked})
        shared = list(self._files_in_common())
        self._read_commits([*asked, *self._active], recent, shared)
        return Needs(
            doubts=[one for row in asked for one in self._doubts(row)],
            approvals=sorted(
                (one for row in asked for one in self._approvals(row)),
                key=lambda one: one.since,
            ),
            claims=[one for row in checked for one in self._claims(row)],
            shared=[self._shared(path, entries) for path, entries in shared],
            flags=[one for row in recent for one in self._flags(row)],
            running=[self._at_work(row) for row in self._active],
            ended=endings(self._store, ended, self._prices),
            old_doubts=sorted(
                (one for row in asked for one in self._old_doubts(row)),
                key=lambda one: -one.since,
            ),
            projects=list(dict.fromkeys(row.record.project for row in recent))[:PROJECTS_MAX],
        )

    def _at_work(self, row: SessionRow) -> AtWork:
        seen = look(self._store, row, self._prices)
        intent = intent_of(self._store, row.id, seen.call.call) if seen.call is not None else None
        return AtWork(seen=seen, intent=intent)

    def _read_commits(
        self,
        asked: Iterable[SessionRow],
        recent: Iterable[SessionRow],
        shared: Sequence[tuple[str, list[tuple[SessionRow, Entry]]]],
    ) -> None:
        """Read the commits that say what open calls were meant to do, and when flags and changes were made."""
        seqs: dict[str, set[int]] = {}
        ids: dict[str, set[str]] = {}
        for row in asked:
            for entry in self._store.entries(row.id, "calls"):
                if isinstance(entry.record, CallRecord) and not entry.record.elsewhere:
                    seqs.setdefault(row.id, {row.head}).add(entry.seq)
                    ids.setdefault(row.id, set()).add(retype(entry.record.call, "commit"))
        for row in recent:
            for entry in self._store.entries(row.id, "flags", limit=FLAGS_MAX):
                seqs.setdefault(row.id, set()).add(entry.seq)
        for _, entries in shared:
            for row, entry in entries:
                seqs.setdefault(row.id, set()).add(entry.seq)
        ahead(
            self._store,
            *(
                read("commits", each, seqs=sorted(wanted), ids=sorted(ids.get(each, ())))
                for each, wanted in seqs.items()
            ),
        )

    # -- calls ------------------------------------------------------------------------------------

    def _doubts(self, row: SessionRow) -> Iterator[NeededCall]:
        for record in to_settle(self._store, row.id):
            yield self._call(row, record)

    def _old_doubts(self, row: SessionRow) -> Iterator[NeededCall]:
        asked = {record.call for record in to_settle(self._store, row.id)}
        for entry in self._store.entries(row.id, "calls"):
            record = entry.record
            if not isinstance(record, CallRecord) or record.elsewhere or record.call in asked:
                continue
            if record.status == "in doubt":
                yield self._call(row, record)

    def _approvals(self, row: SessionRow) -> Iterator[NeededCall]:
        if row.record.status in ("closed", "archived"):
            return
        for entry in self._store.entries(row.id, "calls"):
            if isinstance(record := entry.record, CallRecord) and waits(record):
                yield self._call(row, record)

    def _call(self, row: SessionRow, record: CallRecord) -> NeededCall:
        intent = intent_of(self._store, row.id, record.call)
        last = commit_at(self._store, row.id, row.head).when if row.head else 0
        return NeededCall(row=row, record=record, intent=intent, last=last)

    # -- plans, flags -----------------------------------------------------------------------------

    def _claims(self, row: SessionRow) -> Iterator[ClaimedStep]:
        entries = self._store.entries(row.id, "plan", limit=STEPS_MAX)
        steps = [
            (entry, entry.record)
            for entry in entries
            if isinstance(entry.record, PlanRecord) and entry.record.status != "dropped"
        ]
        steps.sort(key=lambda step: (step[1].order, step[0].seq))
        for place, (entry, step) in enumerate(steps, 1):
            if isinstance(step, ReadStep) and step.because and step.because != NO_CHECK:
                yield ClaimedStep(
                    row=row, step=step, turn=entry.turn, place=place, total=len(steps)
                )

    def _flags(self, row: SessionRow) -> Iterator[FlaggedSession]:
        for entry in self._store.entries(row.id, "flags", limit=FLAGS_MAX):
            if isinstance(entry.record, FlagRecord):
                when = commit_at(self._store, row.id, entry.seq).when
                yield FlaggedSession(row=row, flag=entry.record, seq=entry.seq, when=when)

    # -- files ------------------------------------------------------------------------------------

    def _files_in_common(self) -> Iterator[tuple[str, list[tuple[SessionRow, Entry]]]]:
        """Files that several sessions at work in one project touched, at least one of which changed it."""
        touched: dict[tuple[str, str], list[tuple[SessionRow, Entry]]] = {}
        for row in self._active:
            for entry in self._store.entries(row.id, "files", limit=FILES_MAX):
                if isinstance(record := entry.record, FileRecord) and record.op != "skipped":
                    place = (row.record.project, file_key(record.root, record.path))
                    touched.setdefault(place, []).append((row, entry))
        for (_, _), entries in touched.items():
            ops = [getattr(entry.record, "op", "") for _, entry in entries]
            if len({row.id for row, _ in entries}) > 1 and any(op not in LOOKS for op in ops):
                yield getattr(entries[0][1].record, "path", ""), entries

    def _shared(self, path: str, entries: list[tuple[SessionRow, Entry]]) -> SharedFile:
        by = [
            FileToucher(
                row=row,
                op=getattr(entry.record, "op", ""),
                seq=entry.seq,
                turn=entry.turn,
                when=commit_at(self._store, row.id, entry.seq).when,
            )
            for row, entry in entries
        ]
        return SharedFile(path=path, by=sorted(by, key=lambda one: -one.when))


def _is_worked_in(row: SessionRow) -> bool:
    """Whether people or agents work in it: it is not a project's own, and no other was adopted for it."""
    return row.record.mode != "project" and not row.record.adopted


def _is_below(row: SessionRow) -> bool:
    """Whether it is a sub-agent's: its parent speaks for it."""
    return row.record.parent is not None and row.record.parent.kind == "child"
