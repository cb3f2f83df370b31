"""Answers where things are in a project: what needs a person, what runs, how the last sessions ended, what a week cost.

The number of calls of the store does not grow with the sessions: what is read of all of them is read together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from stator.model.calls.costs import Prices
from stator.model.log.commit import Commit
from stator.model.log.query import Read, SessionQuery, SessionRow, read
from stator.model.records.types import CallRecord, PlanRecord
from stator.model.values.ids import retype
from stator.model.views.open_calls import HISTORY_US, is_cut_off
from stator.runtime.base.costs import asks_cost, asks_models
from stator.runtime.base.one_answer import ahead
from stator.runtime.base.project_flags import Trash
from stator.runtime.views.as_read import JUDGES_STEPS, for_one_answer
from stator.runtime.views.glance.listed import (
    Cost,
    ListedSession,
    asks_listed,
    cost,
    listed,
    total,
)
from stator.runtime.views.glance.overview import (
    Overview,
    look,
    rows_at_work,
    waiting_calls,
)
from stator.runtime.views.last_acts import acted, by_last_act
from stator.store.port import StorePort

LAST = 3
RUNNING = ("active", "silent")
WEEK_US = 7 * 24 * 3600 * 1_000_000
SESSIONS_MAX = 500
"""Sessions, those used last, that a week is summed up from."""
LOOKED_MAX = 50
"""Sessions at work or waiting that are looked into."""
NEWEST_TURN: dict[str, Any] = {"newest_first": True, "limit": 1, "prompts": True}
CALLS_MAX = 50
"""Open calls of one session that are looked at."""


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that only a person can do."""

    what: str
    """settle, approve, check, budget or resume: the command that acts on it."""
    row: SessionRow
    call: str = ""
    tool: str = ""
    intent: Commit | None = None
    """The commit that asked for the call."""
    since: int = 0
    """When the call began; of a session, when it was last used."""
    cause: str = ""
    steps: list[str] = []
    """Steps of the plan that are claimed to be done, and have a check."""


class AtWork(msgspec.Struct, frozen=True, kw_only=True):
    """A session that runs."""

    seen: Overview
    intent: Commit | None = None
    """The commit that asked for the call under way."""


class Week(msgspec.Struct, frozen=True, kw_only=True):
    """What the sessions used that were active in the last seven days."""

    since: int
    sessions: int
    agents: dict[str, int]
    """How many of them each agent had."""
    reporting: int
    """How many of them report what they used."""
    cost: Cost
    is_whole: bool = True
    """Whether these are all; else the sum is over the sessions used last."""


class ProjectStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Where things are in a project, or in a whole store."""

    sessions: int
    needs: list[Need]
    running: list[AtWork]
    last: list[ListedSession]
    week: Week
    not_looked: int = 0
    """Sessions at work or waiting that were not looked into, because there are too many."""
    old_doubts: int = 0
    """Calls in doubt of imported sessions, so old that no person is asked about them."""


def status(
    store: StorePort, *, project: str | None, now: int, prices: Prices | None = None
) -> ProjectStatus:
    """Where things are in a project, or in every project of a store."""
    store = for_one_answer(store)
    page = _newest(store, project)
    trash = Trash(store).among(page)
    rows = [row for row in page if _is_work(row) and row.id not in trash]
    waiting = waiting_calls(store, project)
    at_work = [row for row in rows_at_work(store, project, waiting.sessions) if row.id not in trash]
    busy = {row.id for row in at_work if row.shown in RUNNING}
    rested = (row for row in rows if row.id not in busy and not _is_child(row))
    last = list(islice(by_last_act(store, rested), LAST))
    week = _used_since(store, rows, now - WEEK_US)
    looked = at_work[:LOOKED_MAX]
    ahead(store, *_asks(looked, last, week, prices))
    priced = asks_models(store, [row.id for row in (*looked, *week)], prices)
    ahead(store, *(one for row in looked for one in _asks_calls(store, row)), *priced)
    seen = [look(store, row, prices) for row in acted(store, looked)]
    return ProjectStatus(
        sessions=len(store.heads({}, project=project, others=True)),
        needs=list(_needs(store, seen, last, now)),
        running=[
            AtWork(
                seen=one,
                intent=None if one.call is None else _intent(store, one.row, one.call.call),
            )
            for one in seen
            if one.row.shown in RUNNING
        ],
        last=[_with_newest(store, one) for one in listed(store, last, prices)],
        week=_week(store, week, now, prices, is_whole=len(week) < SESSIONS_MAX),
        not_looked=len(at_work) - len(looked),
        old_doubts=waiting.old_doubts,
    )


def _newest(store: StorePort, project: str | None) -> list[SessionRow]:
    """The sessions used last; with them, in the same call, what `rows_at_work` asks for."""
    newest = read("sessions", SessionQuery(project=project), limit=SESSIONS_MAX)
    states = ("active", "paused")
    others = (read("sessions", SessionQuery(project=project, status=one)) for one in states)
    ahead(store, newest, *others)
    return store.sessions(*newest.args, **newest.options).rows


def _with_newest(store: StorePort, one: ListedSession) -> ListedSession:
    """The same with what was asked last."""
    turns = store.turns(one.row.id, **NEWEST_TURN)
    return msgspec.structs.replace(one, newest=turns[0].began if turns else None)


def _used_since(store: StorePort, rows: Sequence[SessionRow], floor: int) -> list[SessionRow]:
    """Those of the sessions that were used after a time. One that began after it was; only of the others it is read
    when their agents last did something."""
    recent = [row for row in rows if row.has_times and row.updated >= floor]
    older = acted(store, [row for row in recent if row.record.created < floor])
    left = {row.id for row in older if row.used < floor}
    return [row for row in recent if row.id not in left]


def _is_work(row: SessionRow) -> bool:
    """Whether people or agents work in it: not a project's own session, nor one that another has replaced."""
    return row.record.mode != "project" and not row.record.adopted


def _is_child(row: SessionRow) -> bool:
    return row.record.parent is not None and row.record.parent.kind == "child"


# -- what is read in one call ---------------------------------------------------------------------


def _asks(
    looked: Sequence[SessionRow],
    last: Sequence[SessionRow],
    week: Sequence[SessionRow],
    prices: Prices | None,
) -> Iterator[Read]:
    for row in looked:
        yield read("entries", row.id, "calls", "plan", "spend", *JUDGES_STEPS)
        yield read("head", row.id)
    for row in last:
        yield read("turns", row.id, **NEWEST_TURN)
        yield read("entries", row.id, "plan", *JUDGES_STEPS)
        yield from asks_listed(row, prices)
    for row in (*looked, *week):
        yield from asks_cost(row.id, None)


def _asks_calls(store: StorePort, row: SessionRow) -> Iterator[Read]:
    """The commits that say what the open calls of a session are about, and since when."""
    entries = store.entries(row.id, "calls")[:CALLS_MAX]
    records = [entry.record for entry in entries]
    ids = [retype(record.call, "commit") for record in records if isinstance(record, CallRecord)]
    if ids:
        yield read("commits", row.id, seqs=[entry.seq for entry in entries])
        yield read("commits", row.id, ids=ids)


def _intent(store: StorePort, row: SessionRow, call: str) -> Commit | None:
    found = store.commits(row.id, ids=[retype(call, "commit")])
    return found[0] if found else None


# -- what needs a person --------------------------------------------------------------------------


def _needs(
    store: StorePort, seen: Sequence[Overview], last: Sequence[SessionRow], now: int
) -> Iterator[Need]:
    for one in seen:
        for asked in one.waiting:
            yield Need(
                what=asked.what,
                row=one.row,
                call=asked.call,
                tool=asked.tool,
                intent=_intent(store, one.row, asked.call) if asked.call else None,
                since=asked.since or one.row.used,
                cause=asked.cause,
            )
        if is_cut_off(one.row) and not one.waiting and _is_recent(one.row, now):
            yield Need(what="resume", row=one.row, since=one.row.used)
    for row in (*(one.row for one in seen), *last):
        steps = _claimed(store, row) if _is_recent(row, now) else []
        if steps:
            yield Need(
                what="check",
                row=row,
                steps=[step.step for step in steps],
                since=row.used,
                cause=getattr(steps[0], "because", ""),
            )


def _is_recent(row: SessionRow, now: int) -> bool:
    return now - row.used <= HISTORY_US


def _claimed(store: StorePort, row: SessionRow) -> list[PlanRecord]:
    """Steps that are claimed to be done and have a check, which a person can run."""
    records = (entry.record for entry in store.entries(row.id, "plan"))
    steps = [record for record in records if isinstance(record, PlanRecord)]
    claimed = [step for step in steps if str(step.status) == "claimed" and step.check]
    return sorted(claimed, key=lambda step: step.order)


# -- a week ---------------------------------------------------------------------------------------


def _week(
    store: StorePort, rows: Sequence[SessionRow], now: int, prices: Prices | None, *, is_whole: bool
) -> Week:
    counted = [row for row in rows if not _is_child(row)]
    costs = {row.id: cost(store, row, prices) for row in rows}
    agents: dict[str, int] = {}
    for row in counted:
        agents[row.record.agent] = agents.get(row.record.agent, 0) + 1
    return Week(
        since=now - WEEK_US,
        sessions=len(counted),
        agents=dict(sorted(agents.items(), key=lambda one: (-one[1], one[0]))),
        reporting=sum(bool(costs[row.id].spend) for row in counted),
        cost=total(list(costs.values())),
        is_whole=is_whole,
    )
