"""Shows many sessions at once: which are at work, on what, how far, at what cost, and which wait for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stator.model.calls.costs import Prices
from stator.model.log.query import CallQuery, SessionQuery, SessionRow
from stator.model.records.types import CallRecord, PlanRecord
from stator.model.views.open_calls import is_cut_off
from stator.model.views.unplaced import Unplaced
from stator.runtime.views.as_read import (
    for_one_answer,
    is_history,
    read_ahead,
    to_settle,
    unplaced_in,
)
from stator.runtime.views.glance.calls import list_calls, unanswered
from stator.runtime.views.glance.listed import Cost, cost
from stator.runtime.views.last_acts import acted
from stator.store.port import StorePort

SESSIONS_MAX = 1000
"""Sessions of one kind that are looked at; the most recently used."""
WAITING = ("awaiting approval", "in doubt")


class PersonNeeded(msgspec.Struct, frozen=True, kw_only=True):
    """Something only a person can do."""

    what: str
    """approve, settle or budget."""
    call: str = ""
    tool: str = ""
    since: int = 0
    """When the call began."""
    cause: str = ""
    """Why it is in doubt."""


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """One session, as a person who watches many needs it."""

    row: SessionRow
    turn: int = 0
    turn_open: bool = False
    call: CallRecord | None = None
    """The call under way, the newest if there are several."""
    since: int = 0
    """When that call began."""
    calls: int = 0
    """How many calls have no outcome yet."""
    done: int = 0
    total: int = 0
    """Of the plan's steps; dropped ones do not count."""
    cost: Cost = Cost()
    waiting: list[PersonNeeded] = []
    unplaced: list[Unplaced] = []
    """What is known of it and has no place in its log yet."""


def overview(
    store: StorePort,
    *,
    project: str | None = None,
    everything: bool = False,
    prices: Prices | None = None,
) -> list[Overview]:
    """Sessions at work, interrupted or waiting for a person (or all), those that wait first."""
    store = for_one_answer(store)
    if everything:
        rows = list(_pages(store, SessionQuery(project=project)))
    else:
        rows = rows_at_work(store, project, waiting_calls(store, project).sessions)
    rows = acted(store, rows)
    found = [look(store, row, prices) for row in rows]
    found.sort(key=lambda one: (not one.waiting, one.row.shown != "active", _age(one.row)))
    return found


def _age(row: SessionRow) -> tuple[bool, int]:
    """By which sessions are in order: used last first, those without times at the end."""
    return not row.has_times, -row.used


class WaitingCalls(msgspec.Struct, frozen=True, kw_only=True):
    """What of the calls of a project, or of a store, waits for a person."""

    sessions: list[str]
    """Those with calls to approve or to settle."""
    old_doubts: int
    """Calls in doubt of imported sessions that are too old to ask a person about."""


def waiting_calls(store: StorePort, project: str | None) -> WaitingCalls:
    """The calls that wait for a person."""
    query = CallQuery(project=project, statuses=WAITING)
    rows = list_calls(store, query, None, SESSIONS_MAX).rows
    asked = [
        row.session
        for row in rows
        if row.status != "in doubt" or not is_history(store, row.session, row.outcome or row.seq)
    ]
    return WaitingCalls(sessions=list(dict.fromkeys(asked)), old_doubts=len(rows) - len(asked))


def rows_at_work(store: StorePort, project: str | None, waiting: Sequence[str]) -> list[SessionRow]:
    """The sessions at work, interrupted or out of budget, and those that wait for a person, each once."""
    return list({row.id: row for row in _rows(store, project, waiting)}.values())


def _rows(store: StorePort, project: str | None, waiting: Sequence[str]) -> Iterator[SessionRow]:
    for row in _pages(store, SessionQuery(project=project, status="active")):
        if row.shown != "paused":
            yield row
    for row in _pages(store, SessionQuery(project=project, status="paused")):
        if _out_of_budget(row) or is_cut_off(row):
            yield row
    yield from map(store.session, waiting)


def _pages(store: StorePort, query: SessionQuery) -> Iterator[SessionRow]:
    cursor: tuple[int, ...] | None = None
    seen = 0
    while seen < SESSIONS_MAX:
        page = store.sessions(query, cursor=cursor)
        yield from page.rows
        seen += len(page.rows)
        cursor = page.cursor
        if cursor is None:
            return


def _out_of_budget(row: SessionRow) -> bool:
    return row.record.status == "paused" and row.record.reason.startswith("budget")


def look(store: StorePort, row: SessionRow, prices: Prices | None = None) -> Overview:
    """One session."""
    store = for_one_answer(store)
    read_ahead(store, row.id, "calls", "plan", "spend")
    calls = [
        (entry.seq, record)
        for entry in store.entries(row.id, "calls")
        if isinstance(record := entry.record, CallRecord) and not record.elsewhere
    ]
    begun = [(seq, record) for seq, record in calls if record.status == "started"]
    steps = [
        record.status
        for entry in store.entries(row.id, "plan")
        if isinstance(record := entry.record, PlanRecord) and record.status != "dropped"
    ]
    return Overview(
        row=row,
        turn=row.turns,
        turn_open=row.shown in ("active", "interrupted", "silent") and store.head(row.id).turn_open,
        call=begun[0][1] if begun else None,
        since=_when(store, row.id, begun[0][0]) if begun else 0,
        calls=len(begun),
        done=steps.count("done"),
        total=len(steps),
        cost=cost(store, row, prices),
        waiting=list(_waiting(store, row, [record for _, record in calls])),
        unplaced=unplaced_in(store, row.id) if row.record.status == "active" else [],
    )


def _when(store: StorePort, session: str, seq: int) -> int:
    return store.commits(session, after=seq - 1, upto=seq, load=False)[0].when


def _waiting(store: StorePort, row: SessionRow, calls: list[CallRecord]) -> Iterator[PersonNeeded]:
    for record in unanswered(store, row, calls):
        yield _needed("approve", record)
    for record in to_settle(store, row.id):
        yield _needed("settle", record)
    if _out_of_budget(row):
        yield PersonNeeded(what="budget")


def _needed(what: str, record: CallRecord) -> PersonNeeded:
    return PersonNeeded(
        what=what, call=record.call, tool=record.tool, since=record.since, cause=record.cause
    )
