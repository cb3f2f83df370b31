"""What sessions cost: by day, agent, project and model, with what was read from a cache apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from operator import attrgetter

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stator.runtime.views.as_read import prices_in
from stator.runtime.views.glance.spend_groups import GroupName, SpendGroup, day_of, grouped
from stator.runtime.views.spend_ledger import SessionSpend, SpendLedger
from stator.surfaces.cli.render import times
from stator.surfaces.http.served import served
from stator.surfaces.web.page import is_fragment, render
from stator.surfaces.web.projects import known_projects

DAYS = 30
"""Days of the picture."""
GROUPS = 12
"""Agents, projects and models that are listed; the others are summed up."""
HEIGHT, WIDTH, GAP = 120, 20, 4
"""Of the picture: its height, and the width of a day with the gap after it."""
KEPT = 50
"""Projects whose sums are kept."""


class CostBar(msgspec.Struct, frozen=True):
    """One day of the picture: where its bar is, and what it says."""

    day: str
    x: int
    y: int
    height: int
    group: SpendGroup


class CostSums(msgspec.Struct, frozen=True, kw_only=True):
    """What sessions cost in all, as the page shows it: kept until one of them moves."""

    revision: int
    read: int
    silent: int
    whole: SpendGroup
    days: dict[str, SpendGroup]
    groups: list[tuple[str, list[SpendGroup], int]]


def cost(request: Request) -> Response:
    found = served(request)
    ledger = _ledger(request)
    left = ledger.advance(found.store.port, prices_in(found.store.as_read))
    asked = request.query_params.get("project")
    sums = _sums(request, ledger, asked)
    days = sums.days
    in_money = bool(sums.whole.money)
    costly = {day: one for day, one in days.items() if day and (one.money or one.tokens)}
    window = _window(costly, times.day(found.now), request.query_params.get("until", ""))
    has_money = any(days[day].money for day in window if day in days)
    shown = request.query_params.get("in", "")
    measure = shown if shown in ("money", "tokens") else ("money" if has_money else "tokens")
    value = attrgetter(measure)
    bars, most = _bars(window, days, value)
    return render(
        request,
        "cost_body.html" if is_fragment(request) else "cost.html",
        tab="cost",
        left=left,
        sums=sums,
        project=asked,
        projects=known_projects(found),
        bars=bars,
        most=most,
        measure=measure,
        in_money=in_money,
        is_partial=any(day.tokens and not day.money for day in days.values()),
        window=window,
        earlier=max((day for day in costly if window and day < window[0]), default=""),
        width=DAYS * (WIDTH + GAP),
        height=HEIGHT,
        bar=WIDTH,
        listed=[bar for bar in reversed(bars) if bar.group.spend],
    )


def _sums(request: Request, ledger: SpendLedger, project: str | None) -> CostSums:
    kept: dict[str | None, CostSums] = request.app.state.cost_sums
    known = kept.get(project)
    if known is not None and known.revision == ledger.revision:
        return known
    revision = ledger.revision
    spent = [
        one for one in ledger.sessions() if project is None or one.row.record.project == project
    ]
    days = {one.name: one for one in grouped(spent, lambda _, part: day_of(part)) if one.spend}
    whole = SpendGroup(name="")
    for one in days.values():
        whole.add(one.spend)
    if len(kept) >= KEPT:
        kept.clear()
    kept[project] = CostSums(
        revision=revision,
        read=len(spent),
        silent=sum(not one.parts for one in spent),
        whole=whole,
        days=days,
        groups=[
            ("Agent", *_listed(spent, lambda one, _: one.row.record.agent or "not named")),
            ("Project", *_listed(spent, lambda one, _: one.row.record.project or "no project")),
            (
                "Model",
                *_listed(spent, lambda _, part: (part.model if part else "") or "not recorded"),
            ),
        ],
    )
    return kept[project]


def _ledger(request: Request) -> SpendLedger:
    """The ledger of this service, made when it is first asked for."""
    state = request.app.state
    if not hasattr(state, "spend_ledger"):
        state.spend_ledger, state.cost_sums = SpendLedger(times.day), {}
    ledger: SpendLedger = state.spend_ledger
    return ledger


def _listed(spent: Iterable[SessionSpend], name: GroupName) -> tuple[list[SpendGroup], int]:
    """Groups, the one that cost most first, and how many are not listed."""
    found = grouped(spent, name)
    return found[:GROUPS], max(0, len(found) - GROUPS)


def _window(days: dict[str, SpendGroup], today: str, until: str) -> list[str]:
    """The days of the picture, up to the one that is asked for, or the last one with a cost."""
    last = until if _is_day(until) else max(days, default=today)
    if not _is_day(last):
        return []
    end = date.fromisoformat(last)
    return [(end - timedelta(days=back)).isoformat() for back in reversed(range(DAYS))]


def _bars(
    window: Sequence[str], days: dict[str, SpendGroup], value: Callable[[SpendGroup], int]
) -> tuple[list[CostBar], SpendGroup | None]:
    groups = [days.get(day, SpendGroup(name=day)) for day in window]
    most = max(map(value, groups), default=0)
    bars = []
    for place, (day, group) in enumerate(zip(window, groups, strict=True)):
        height = round(HEIGHT * value(group) / most) if most else 0
        height = max(height, 2) if value(group) else 0
        bars.append(CostBar(day, place * (WIDTH + GAP), HEIGHT - height, height, group))
    top = max(groups, key=value, default=None)
    return bars, top if most else None


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


ROUTES = (Route("/cost", cost),)
