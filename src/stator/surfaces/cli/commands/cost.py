"""`stator cost`: shows what sessions cost, by day, agent, project, model or session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

import msgspec

from stator.errors import BadQuery
from stator.model.calls.costs import is_computed, names_money, plain
from stator.model.log.query import SessionQuery, check_limit
from stator.model.values.ids import short
from stator.runtime.base.pages import matching
from stator.runtime.views.as_read import prices_in
from stator.runtime.views.glance import spend_groups
from stator.runtime.views.glance.spend_groups import GroupName, SpendGroup
from stator.runtime.views.glance.status import WEEK_US
from stator.runtime.views.spend import tree
from stator.runtime.views.spend_ledger import SessionSpend, SpendLedger
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read
from stator.surfaces.cli.parts.question.question_scope import QuestionScope, scope_of
from stator.surfaces.cli.render import amounts, times
from stator.surfaces.cli.render.lines import Line, cells
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.session_words import name_parts
from stator.surfaces.cli.render.table import Column, report_cut, table
from stator.surfaces.cli.render.times import moment, parse_since

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        EverywhereFlag,
        JsonFlag,
        LimitOption,
        NoPagerFlag,
        ProjectFlag,
        SessionOption,
        SinceOption,
        StoreOption,
        WholeArgument,
    )

EXAMPLES = """
stator cost                        of this project: by day, agent, model and session
stator cost --since 7d             what the last seven days cost
stator cost --by month --everywhere    every project, month by month
stator cost fix-login              one session and its sub-agents
stator cost --by session --json | jq -r '[.name, .cost] | @tsv'
"""
LIMIT = 50
SESSIONS_MAX = 1000
"""Sessions, those used last, that are summed up."""
GLANCE, FEW = 5, 8
"""Groups of each kind that are shown where no kind is asked for; up to how many all of them are."""
KINDS = ("day", "week", "month", "agent", "model", "project", "session")
TIMES = ("day", "week", "month")
"""Kinds that are listed by time, the newest first; the others by cost."""
COLUMNS = (
    Column(title="SESSIONS", right=True),
    Column(title="TOKENS", right=True),
    Column(title="CACHED", right=True, drop=1),
    Column(title="COST", right=True),
)
NOTHING = {"agent": "not named", "project": "no project", "model": "not recorded"}
"""What a group is called of which nothing is known; a time is then unknown."""


def cost(
    *what: WholeArgument,
    by: str | None = None,
    since: SinceOption = None,
    session: SessionOption = None,
    project: ProjectFlag = False,
    everywhere: EverywhereFlag = False,
    limit: LimitOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show what sessions cost: by day, agent, project, model or session.

    Tokens that were read from a cache are counted apart. A cost with > lacks what has no known price, one with ~ was
    computed from tokens and prices; – is unknown. A session that is named counts with its sub-agents. SESSIONS counts
    those with recorded usage.

    Parameters
    ----------
    by
        Sum it up by day, week, month, agent, model, project or session; without it, the most of each.
    """
    if by is not None and by not in KINDS:
        raise BadQuery(f"cannot sum up by {by!r:.40}", hint=f"--by {', '.join(KINDS)}")
    wanted = check_limit(LIMIT if limit is None else limit)
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        scope = scope_of(opened, what, session=session, project=project, everywhere=everywhere)
        if scope.span is not None:
            named = f" {short(scope.view.id)}" if scope.view is not None else ""
            raise BadQuery(
                f"{scope.span!r:.40} is a part of a session; its turns: stator log{named} --oneline"
            )
        floor = parse_since(since, opened.now) if since is not None else 0
        whole = _spent(scope, floor)
        found = whole.since(floor)
        if floor and not found.has_used and (ever := _spent(scope, 0)).has_used:
            _nothing_since(screen, scope, floor, ever)
            return 0
        if not found.spent:
            return scope.report_empty(
                "nothing was used", lambda wider: bool(_spent(wider, floor).since(floor).spent)
            )
        name = _names(opened)
        if json:
            _items(screen, found, name, by or "day", wanted, asked=limit is not None)
            return 0
        _heading(screen, scope, found, opened.now)
        if not found.has_used:
            screen.line("nothing is recorded of what it used")
            return 0
        if by is not None:
            _by(screen, found, by, name[by], wanted, opened.now, asked=limit is not None)
        else:
            screen.lines(_glance(found, name, screen.width, opened.now, scope, is_all=not floor))
        if found.is_cut:
            words = f"only the {SESSIONS_MAX:,} sessions used last are counted; for all: stator sql"
            screen.line(Line(f"… {words}", "dim"))
    return 0


class Spent(msgspec.Struct, frozen=True):
    """What the sessions in scope spent in the time that is asked for."""

    spent: list[SessionSpend]
    is_cut: bool = False
    """Whether there are more sessions than were read."""

    @property
    def has_used(self) -> bool:
        return any(part.spend for one in self.spent for part in one.parts)

    def since(self, floor: int) -> Spent:
        """What of it was spent since the day of a time; all of it if that is 0. A session that reports no usage is of
        that time if it was used since."""
        if not floor:
            return self
        first = times.day(floor)
        kept: list[SessionSpend] = []
        for one in self.spent:
            parts = [part for part in one.parts if part.day >= first]
            is_silent = not one.parts and one.row.has_times and times.day(one.row.updated) >= first
            if parts or is_silent:
                kept.append(SessionSpend(one.row, parts))
        return Spent(kept, self.is_cut)

    def label(self, by: str, name: str, now: int) -> str:
        """A group as people call it."""
        if by in TIMES:
            return _time(by, name, now)
        if by == "session":
            return self.session_name(name)
        return name or NOTHING[by]

    def session_name(self, session: str) -> str:
        """The name of a session; of a sub-agent's, its own part first."""
        row = next(one.row for one in self.spent if one.row.id == session)
        own, of = name_parts(row)
        return f"{own} of {of}" if of else own


def _spent(scope: QuestionScope, floor: int) -> Spent:
    """What the sessions in scope spent that were used since a time, each as a whole."""
    store = scope.opened.store.as_read
    if scope.view is not None:
        ids, is_cut = tree(store, scope.view.id), False
    else:
        rows = takewhile(
            lambda row: row.updated >= floor, matching(store, SessionQuery(project=scope.project))
        )
        ids = [row.id for row in islice(rows, SESSIONS_MAX + 1)]
        is_cut = len(ids) > SESSIONS_MAX
    return Spent(SpendLedger(times.day, prices_in(store)).read(store, ids[:SESSIONS_MAX]), is_cut)


def _names(opened: OpenedStore) -> dict[str, GroupName]:
    """By kind, how the group is called that a part of what was spent belongs to."""
    shown: dict[str, str] = {}

    def project(one: SessionSpend) -> str:
        of = one.row.record.project
        if of not in shown:
            shown[of] = opened.project_shown(of)
        return shown[of]

    return {
        "day": lambda _, part: spend_groups.day_of(part),
        "week": lambda _, part: spend_groups.week_of(part),
        "month": lambda _, part: spend_groups.month_of(part),
        "agent": lambda one, _: one.row.record.agent,
        "model": lambda _, part: part.model if part is not None else "",
        "project": lambda one, _: project(one),
        "session": lambda one, _: one.row.id,
    }


def _ordered(spent: Sequence[SessionSpend], by: str, name: GroupName) -> list[SpendGroup]:
    """The groups that used something: by time, the newest first, or by cost."""
    found = [one for one in spend_groups.grouped(spent, name) if one.spend]
    if by in TIMES:
        found.sort(key=lambda one: one.name, reverse=True)
    return found


# -- for a person ---------------------------------------------------------------------------------


def _heading(screen: Screen, scope: QuestionScope, found: Spent, now: int) -> None:
    whole = spend_groups.summed(found.spent)
    dates = _dates(found, now)
    line = Line(scope.shown, "title").add(" · ", "dim").add("cost", "bold")
    line.add(f" · {count(whole.sessions, 'session')}", "dim")
    silent = f" ({whole.silent:,} more without recorded usage)" if whole.silent else ""
    fits = line.width + cells(silent + dates) <= screen.cut
    screen.line(line.add(silent if fits else "", "dim").add(dates, "dim"))
    if silent and not fits:
        screen.line(Line(f"{count(whole.silent, 'more session')} without recorded usage", "dim"))
    used = amounts.tokens_in_words(whole.spend) or f"{amounts.UNKNOWN} tokens"
    price = amounts.money(whole.spend)
    screen.line(Line(price if price != amounts.UNKNOWN else "cost –", "bold").add(f" · {used}"))
    lacking = sum(
        any(part.spend.get("tokens") and not names_money(part.spend) for part in one.parts)
        for one in found.spent
    )
    if lacking:
        words = f"{lacking:,} of {count(whole.sessions, 'session')} used tokens of unknown price"
        screen.line(Line(f"{words}; prices: stator.toml", "dim"))
    screen.line()


def _dates(found: Spent, now: int) -> str:
    """The first and the last day on which something was used, as the heading has them."""
    days = sorted({part.day for one in found.spent for part in one.parts if part.day})
    if not days:
        return ""
    first, last = (_time("day", day, now) for day in (days[0], days[-1]))
    if first.endswith(days[0][:4]) and not last.endswith(days[-1][:4]):
        last += f" {days[-1][:4]}"  # one year beside another needs both
    return f", {first} – {last}" if first != last else f", {first}"


def _nothing_since(screen: Screen, scope: QuestionScope, floor: int, ever: Spent) -> None:
    """Say that nothing was used since a time, and what was used before."""
    whole = spend_groups.summed(ever.spent)
    if screen.json:
        screen.item({"nothing": {"since": floor, "all_time": _as_json(whole, "all", "")}})
        return
    since = moment(floor)
    named = f" {short(scope.view.id)}" if scope.view is not None else ""
    command = f"stator cost{named}{' --everywhere' if scope.everywhere else ''}"
    price = amounts.money(whole.spend)
    used = price if price != amounts.UNKNOWN else amounts.tokens_in_words(whole.spend)
    words = f"nothing was used since {since} in {scope.shown}; all time: {used} ({command})"
    screen.line(Line(words), hang=2)


def _glance(
    spent: Spent,
    name: dict[str, GroupName],
    width: int,
    now: int,
    scope: QuestionScope,
    *,
    is_all: bool,
) -> Iterator[Line]:
    """All of it and what was used lately, then the most of each kind, below each other in one table."""
    rows = list(_lately(spent, now)) if is_all else []
    kinds = ["model", "agent", *(["project"] if scope.everywhere else []), "day", "session"]
    for by in kinds:
        found = _ordered(spent.spent, by, name[by])
        if len(found) < 2 and by not in ("day", "model"):
            continue
        most = len(found) if by not in TIMES and len(found) <= FEW else GLANCE
        more = f"  of {len(found):,}: --by {by}" if len(found) > most else ""
        rows.append([Line(by, "title").add(more, "dim"), *[""] * len(COLUMNS)])
        rows += [_cells(one, by, f"  {spent.label(by, one.name, now)}") for one in found[:most]]
    for line in table((_first("BY"), *COLUMNS), rows, width):
        yield line.trimmed()


def _lately(spent: Spent, now: int) -> Iterator[list[Line | str]]:
    """The total, and what of it is of this week, which is the last seven days, and of today."""
    week = now - WEEK_US
    yield _sum_cells("total", spent)
    yield _sum_cells(f"last 7 days, since {_time('day', times.day(week), now)}", spent.since(week))
    yield _sum_cells("today", spent.since(now))


def _sum_cells(named: str, spent: Spent) -> list[Line | str]:
    whole = spend_groups.summed(spent.spent)
    if not whole.spend:
        return [Line(named, "title"), "0", "", "", Line("nothing", "dim")]
    return [Line(named, "title"), *_cells(whole, "", "")[1:]]


def _by(
    screen: Screen,
    spent: Spent,
    by: str,
    name: GroupName,
    most: int,
    now: int,
    *,
    asked: bool,
) -> None:
    found = _ordered(spent.spent, by, name)
    rows = [_cells(one, by, spent.label(by, one.name, now)) for one in found[:most]]
    screen.lines(table((_first(by.upper()), *COLUMNS), rows, screen.width))
    if len(found) > most:
        report_cut(screen, most, f"{by}s", f"-n {most * 2}", asked=asked)


def _first(title: str) -> Column:
    return Column(title=title, shrinks=True, least=12, most=60)


def _cells(one: SpendGroup, by: str, named: str) -> list[Line | str]:
    return [
        named,
        f"{one.sessions:,}" if by != "session" else "",
        amounts.tokens(one.spend),
        Line(amounts.cached(one.spend), "dim"),
        amounts.money(one.spend),
    ]


def _time(by: str, name: str, now: int) -> str:
    """A day, a week or a month as people write it; with the year if it is another one than now."""
    if not name:
        return "time unknown"
    found = date.fromisoformat(name if by != "month" else f"{name}-01")
    is_this_year = times.day(now).startswith(f"{found.year:04}-")
    year = "" if is_this_year else f" {found.year}"
    if by == "month":
        return f"{found:%B}{year}"
    return f"{'week of ' if by == 'week' else ''}{found.day} {found:%b}{year}"


# -- as JSON --------------------------------------------------------------------------------------


def _items(
    screen: Screen, found: Spent, name: dict[str, GroupName], by: str, most: int, *, asked: bool
) -> None:
    groups = _ordered(found.spent, by, name[by])
    for one in groups[:most]:
        label = found.session_name(one.name) if by == "session" else one.name
        screen.item(_as_json(one, by, label))
    if len(groups) > most:
        report_cut(screen, most, f"{by}s", f"-n {most * 2}", asked=asked)
    if found.is_cut:
        screen.item({"cut": {"shown": SESSIONS_MAX, "what": "sessions", "more": "stator sql"}})


def _as_json(one: SpendGroup, by: str, label: str) -> dict[str, Any]:
    money = amounts.money(one.spend)
    return {
        "by": by,
        "name": label or None,
        **({"session": one.name} if by == "session" else {}),
        "sessions": one.sessions,
        "tokens": amounts.fresh_tokens(one.spend),
        "cached": amounts.cached_tokens(one.spend) or None,
        "cost": None if money == amounts.UNKNOWN else money,
        "computed": is_computed(one.spend),
        "spend": plain(one.spend),
    }
