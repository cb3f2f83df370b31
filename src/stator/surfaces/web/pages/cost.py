"""What sessions cost: over time, by agent, project and model, with what was read from a cache apart.

The picture shows days, weeks or months: without a choice, the shortest of them in which all that was spent has room, so
that it adds up to the sum above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stator.model.calls.costs import Prices, is_computed
from stator.model.records.types import UNPRICED
from stator.runtime.views.as_read import prices_in
from stator.runtime.views.glance.spend_groups import (
    GroupName,
    SpendGroup,
    day_of,
    grouped,
    month_of,
    summed,
    week_of,
)
from stator.runtime.views.spend_ledger import SessionSpend, SpendLedger, SpendPart
from stator.surfaces.cli.render import times
from stator.surfaces.http.served import served
from stator.surfaces.web import spans
from stator.surfaces.web.page import is_fragment, render
from stator.surfaces.web.projects import known_projects

PERIODS = {"day": day_of, "week": week_of, "month": month_of}
"""What a bar stands for, the shortest first."""
FEWEST, MOST = 14, 30
"""Bars of the picture."""
GROUPS = 12
"""Agents, projects and models that are listed; the others are summed up."""
HEIGHT, WIDTH, GAP = 120, 20, 4
"""Of the picture: its height, and the width of a bar with the gap after it."""
KEPT = 50
"""Projects whose sums are kept."""


class CostBar(msgspec.Struct, frozen=True):
    """One day, week or month of the picture: where its bar is, and what it says."""

    name: str
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
    periods: dict[str, dict[str, SpendGroup]]
    """By day, week and month, each by its name; what was spent at unknown times has none."""
    groups: list[tuple[str, list[SpendGroup], int]]

    @property
    def fitting(self) -> str:
        """The shortest period in which all that was spent has room."""
        for period, found in self.periods.items():
            names = [name for name in found if name]
            if not names or spans.between(period, min(names), max(names)) <= MOST:
                return period
        return "month"


def cost(request: Request) -> Response:
    found, asked = served(request), request.query_params
    ledger, prices = _ledger(request), prices_in(found.store.as_read)
    left = ledger.advance(found.store.port, prices)
    project, chosen = asked.get("project"), asked.get("by", "")
    sums = _sums(request, ledger, project)
    by = chosen if chosen in PERIODS else sums.fitting
    groups = sums.periods[by]
    window = _window(by, groups, times.day(found.now), asked.get("until", ""))
    drawn = [groups[name] for name in window if name in groups]
    measure = asked.get("in", "")
    if measure not in ("money", "tokens"):
        measure = "money" if sums.whole.money else "tokens"
    bars, most = _bars(window, groups, attrgetter(measure))
    return render(
        request,
        "cost_body.html" if is_fragment(request) else "cost.html",
        tab="cost",
        left=left,
        sums=sums,
        project=project,
        projects=known_projects(found),
        bars=bars,
        most=most,
        measure=measure,
        in_money=bool(sums.whole.money),
        is_partial=any(one.tokens and not one.money for one in sums.periods["day"].values()),
        computed_by=_computed_by(sums, prices),
        lacks_prices=UNPRICED in sums.whole.spend,
        by=by,
        chosen=by if chosen in PERIODS else "",
        drawn=_sum(drawn),
        undated=groups.get(""),
        earlier=max((name for name in groups if name and name < window[0]), default=""),
        width=len(window) * (WIDTH + GAP),
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
    if len(kept) >= KEPT:
        kept.clear()
    kept[project] = CostSums(
        revision=revision,
        read=len(spent),
        silent=sum(not one.parts for one in spent),
        whole=summed(spent),
        periods={period: _over_time(spent, name) for period, name in PERIODS.items()},
        groups=[
            ("Agent", *_listed(spent, lambda one, _: one.row.record.agent or "not named")),
            (
                "Model",
                *_listed(spent, lambda _, part: (part.model if part else "") or "not recorded"),
            ),
            ("Project", *_listed(spent, lambda one, _: one.row.record.project or "no project")),
        ],
    )
    return kept[project]


def _over_time(
    spent: Sequence[SessionSpend], period: Callable[[SpendPart | None], str]
) -> dict[str, SpendGroup]:
    groups = grouped(spent, lambda _, part: period(part))
    return {one.name: one for one in groups if one.money or one.tokens}


def _computed_by(sums: CostSums, prices: Prices | None) -> str:
    """By which prices a part of the money was computed, in words; empty where none was."""
    if prices is None or not is_computed(sums.whole.spend):
        return ""
    words = ["the prices of your stator.toml"] if prices.own else []
    if prices.shipped is not None:
        dates = prices.shipped.dates.values()
        months = (
            spans.shown("month", spans.begin("month", one)) for one in (min(dates), max(dates))
        )
        words.append(f"public list prices of {' to '.join(dict.fromkeys(months))}")
    return ", else ".join(words)


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


def _window(by: str, groups: Mapping[str, SpendGroup], today: str, until: str) -> list[str]:
    """What the picture shows, up to what is asked for, or to the last one with a cost."""
    named = [name for name in groups if name]
    last = spans.begin(by, until) or max(named, default="") or spans.begin(by, today)
    first = min((name for name in named if name <= last), default=last)
    size = min(max(spans.between(by, first, last), FEWEST), MOST)
    return [spans.back(by, last, number) for number in reversed(range(size))]


def _bars(
    window: Sequence[str], groups: Mapping[str, SpendGroup], value: Callable[[SpendGroup], int]
) -> tuple[list[CostBar], SpendGroup | None]:
    shown = [groups.get(name, SpendGroup(name=name)) for name in window]
    most = max(map(value, shown), default=0)
    bars = []
    for place, (name, group) in enumerate(zip(window, shown, strict=True)):
        height = round(HEIGHT * value(group) / most) if most else 0
        height = max(height, 2) if value(group) else 0
        bars.append(CostBar(name, place * (WIDTH + GAP), HEIGHT - height, height, group))
    top = max(shown, key=value, default=None)
    return bars, top if most else None


def _sum(groups: Iterable[SpendGroup]) -> SpendGroup:
    whole = SpendGroup(name="")
    for one in groups:
        whole.add(one.spend)
    return whole


ROUTES = (Route("/cost", cost),)
