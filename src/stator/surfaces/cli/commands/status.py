"""`stator status`, and `stator` alone: shows where things are, and what needs a person."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from stator.connect import USERS, StorePlace, locate
from stator.model.calls.costs import plain
from stator.model.log.commit import Commit
from stator.model.values.ids import short
from stator.runtime.views.glance.listed import Cost, ListedSession
from stator.runtime.views.glance.status import SESSIONS_MAX, AtWork, Need, ProjectStatus
from stator.runtime.views.glance.status import status as read_status
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read, path_here
from stator.surfaces.cli.render import amounts
from stator.surfaces.cli.render.lines import ENDED_STYLES, STATUS_STYLES, Line, cells
from stator.surfaces.cli.render.record_line import arguments, count, size, value_of
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.session_words import (
    newest_prompt,
    prompt_beside_name,
    typed_name,
)
from stator.surfaces.cli.render.table import GAP, KEPT, Column, table
from stator.surfaces.cli.render.times import ago, span

if TYPE_CHECKING:
    from stator.surfaces.cli.options import EverywhereFlag, JsonFlag, NoPagerFlag, StoreOption

EXAMPLES = """
stator                             the same as stator status
stator status                      of this project
stator status --everywhere         of every project in the store
stator status --json | jq -r '.needs[].command'
"""
NEEDS_MAX, RUNNING_MAX = 8, 8
AGENTS_MAX = 4
WEEK = "Last 7 days"
LABEL = len(WEEK)
BEGIN = (
    ("stator import", "read the sessions of the agents on this machine"),
    ("stator init claude-code", "record from now on; also codex, gemini, opencode"),
    ("stator --help", "the everyday commands"),
)
"""What to type where nothing is recorded yet."""
NEEDS = (
    Column(title="WHAT"),
    Column(title="ABOUT", shrinks=True, least=12),
    Column(title="WHERE", shrinks=True, drop=1),
    Column(title="COMMAND"),
)
ABOUT_SHARE = 0.4
"""The part of the room left by the first and the last column that the column ABOUT gets, if it is that wide."""
NAME_LEAST = 6
"""Cells of a name that are left before its age."""
SESSIONS = (
    Column(title="LABEL"),
    Column(title="SESSION", shrinks=True, most=28, least=12),
    Column(title="AGENT", most=14, drop=3),
    Column(title="WHEN"),
    Column(title="HOW", shrinks=True, least=8),
    Column(title="ABOUT", shrinks=True, least=14, drop=1),
    Column(title="COST", right=True, drop=2),
)
WORDS = {
    "settle": "in doubt",
    "approve": "approve",
    "check": "claimed",
    "budget": "budget",
    "resume": "interrupted",
}
"""The words for each thing that needs a person."""


def status(
    *,
    everywhere: EverywhereFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show where things are: what needs you, what runs, how sessions ended, what the week cost.

    Needs you: calls in doubt, calls that wait for approval, steps that are claimed to be done and have a check,
    budgets that are used up, sessions that were interrupted; each with the command that acts. A cost with ~ was
    computed from tokens and prices (those of stator.toml, else list prices), one with > lacks something; – is unknown.
    """
    place = locate(store)
    with Screen(json=json, pager=not no_pager) as screen:
        if place.why == USERS and not os.path.exists(place.url):
            _no_store(screen, place)
            return 0
        with open_to_read(store) as opened:
            _answer(screen, opened, everywhere=everywhere)
    return 0


def _answer(screen: Screen, opened: OpenedStore, *, everywhere: bool) -> None:
    found = read_status(
        opened.store.as_read,
        project=None if everywhere else opened.project,
        now=opened.now,
        prices=opened.prices(),
    )
    if screen.json:
        screen.document("stator.status/1", _as_json(found, opened, everywhere=everywhere))
        return
    screen.line(_heading(found, opened, everywhere=everywhere))
    if not found.sessions:
        _empty(screen, opened, everywhere=everywhere)
        return
    now = opened.now
    _needs(screen, found, now, everywhere=everywhere)
    screen.line()
    screen.lines(_sessions(found, now, screen.width))
    if len(found.running) > RUNNING_MAX:
        more = len(found.running) - RUNNING_MAX
        screen.line(Line(f"{'':{LABEL}}… {more:,} more that run: stator top", "dim"))
    screen.lines(_week(found, screen.width))
    screen.line()
    screen.line(Line(" · ".join(_next(found)), "dim"))


def _heading(found: ProjectStatus, opened: OpenedStore, *, everywhere: bool) -> Line:
    named = "every project" if everywhere else opened.project_shown(opened.project)
    line = Line(named or "no project", "title").add(f" · {count(found.sessions, 'session')}")
    taken = _bytes(opened.place)
    where = path_here(opened.place.shown) + (f" ({size(taken)})" if taken else "")
    return line.add(f" · store {where}", "dim")


def _bytes(place: StorePlace) -> int:
    """What a store takes on this disk; 0 if that is not known."""
    taken = 0
    for end in ("", "-wal"):
        with contextlib.suppress(OSError, ValueError):
            taken += os.stat(place.url + end).st_size
    return taken


# -- where nothing is -----------------------------------------------------------------------------


def _empty(screen: Screen, opened: OpenedStore, *, everywhere: bool) -> None:
    others = 0 if everywhere else len(opened.store.port.heads({}, others=True))
    screen.line()
    if others:
        screen.line(
            Line("no sessions in this project; ").add(count(others, "session"), "bold")
            .add(" in the store")
        )  # fmt: skip
    else:
        screen.line("nothing is recorded here yet")
    wider = [("stator status --everywhere", "every project of the store")] if others else []
    screen.lines(_begin([*wider, *BEGIN]))


def _no_store(screen: Screen, place: StorePlace) -> None:
    if screen.json:
        about = {"project": None, "store": None, "sessions": 0, "looked_in": place.shown}
        lists: dict[str, Any] = {name: [] for name in ("needs", "running", "last")}
        commands = [command for command, _ in BEGIN]
        screen.document("stator.status/1", {**about, **lists, "week": None, "next": commands})
        return
    screen.line(Line("no store", "title").add(f" · looked for {path_here(place.shown)}", "dim"))
    screen.line()
    screen.line("nothing is recorded here yet")
    screen.lines(_begin())


def _begin(commands: Sequence[tuple[str, str]] = BEGIN) -> Iterator[Line]:
    wide = max(len(command) for command, _ in commands)
    for command, why in commands:
        yield Line("  ").add(command, "bold", width=wide).add(f"   {why}", "dim")


# -- what needs a person --------------------------------------------------------------------------


def _needs(screen: Screen, found: ProjectStatus, now: int, *, everywhere: bool) -> None:
    screen.line()
    if not found.needs:
        screen.line(Line("Needs you  ", "title").add("nothing", "dim"))
    else:
        screen.line(Line("Needs you", "doubt"))
    shown = found.needs[:NEEDS_MAX]
    for line in _need_lines(shown, now, screen.width - 2):
        screen.line(Line("  ").extend(line))
    more = len(found.needs) - len(shown)
    if more or found.not_looked:
        unread = f" and {count(found.not_looked, 'session')} not looked into"
        screen.line(
            Line(f"  … {more:,} more{unread if found.not_looked else ''}: stator top", "dim")
        )
    if found.old_doubts:
        from stator.surfaces.cli.render.waiting_calls import older_words  # most projects have none

        wider = " --everywhere" if everywhere else ""
        older = f"  older: {older_words(found.old_doubts)}   stator calls --open{wider}"
        screen.line(Line(older, "dim"), hang=4)


def _need_lines(needs: Sequence[Need], now: int, width: int) -> Iterator[Line]:
    """What needs a person, a line each. Where there is no room for the cause, it is left out; the age never is."""
    if not needs:
        return
    rows = [(Line(WORDS[n.what], "doubt"), _about(n), Line(_command(n), "bold")) for n in needs]
    what, about, command = (max(one.width for one in column) for column in zip(*rows, strict=True))
    room = width - what - command - GAP * (len(NEEDS) - 1)
    most = room - min(about, round(room * ABOUT_SHARE))
    wheres = [_where(need, now, most) for need in needs]
    kept = max(cells(one.pieces[-1][0]) for one in wheres) + NAME_LEAST
    least = max(kept, min(most, max(one.width for one in wheres)))
    columns = (*NEEDS[:2], msgspec.structs.replace(NEEDS[2], least=least), NEEDS[3])
    made = [(one, two, where, end) for (one, two, end), where in zip(rows, wheres, strict=True)]
    yield from table(columns, made, width, titled=False)


def _where(need: Need, now: int, most: int) -> Line:
    """Where something is that needs a person, since when, and the cause, if all of it has room."""
    turn = f" t{need.intent.turn}" if need.intent is not None else ""
    name = Line(need.row.record.name, "bold").add(turn)
    whole = Line().extend(name).add(f" · {_since(need, now, need.cause)}", KEPT)
    return whole if whole.width <= most else name.add(f" · {_since(need, now)}", KEPT)


def _since(need: Need, now: int, cause: str = "") -> str:
    """How long it needs a person, with the cause."""
    if need.what == "check":
        return cause or "not checked"
    ago = span(now - need.since)
    if need.what == "approve":
        return f"waiting {ago}"
    return f"{ago} ago" + (f", {cause}" if cause else "")


def _about(need: Need) -> Line:
    if need.call:
        from stator.surfaces.cli.render.turns.subject import (
            subject_of,
        )  # most projects need nothing

        given = "" if need.intent is None else value_of(need.intent, "input")
        return Line(f"{need.tool}({subject_of(given).words})")
    if need.steps:
        more = f" and {len(need.steps) - 1} more" if len(need.steps) > 1 else ""
        return Line(f"“{need.steps[0]}”").add(more, "dim")
    return Line("used up" if need.what == "budget" else f"turn {need.row.turns} did not end")


def _call_text(tool: str, intent: Commit | None) -> str:
    given = "" if intent is None else arguments(value_of(intent, "input"))
    return f"{tool}({given})"


def _command(need: Need) -> str:
    if need.call:
        return f"stator {need.what} {short(need.call)}"
    session = typed_name(need.row)
    return f"stator {need.what} {'-s ' if need.what == 'check' else ''}{session}"


# -- sessions -------------------------------------------------------------------------------------


def _sessions(found: ProjectStatus, now: int, width: int) -> Iterator[Line]:
    rows = [_running_cells(one, now) for one in found.running[:RUNNING_MAX]]
    rows += [_last_cells(one, now) for one in found.last]
    previous = ""
    for row, label in zip(rows, _labels(found), strict=True):
        row[0] = Line(f"{'' if label == previous else label:<{LABEL}}", "title")
        previous = label
    yield from table(SESSIONS, rows, width, titled=False)


def _labels(found: ProjectStatus) -> list[str]:
    return ["Running"] * len(found.running[:RUNNING_MAX]) + ["Last"] * len(found.last)


def _running_cells(one: AtWork, now: int) -> list[Line | str]:
    seen = one.seen
    plan = f"{seen.done}/{seen.total} steps" if seen.total else ""
    return [
        "",
        Line(seen.row.record.name, "bold"),
        seen.row.record.agent,
        f"t{seen.turn}" if seen.turn else amounts.UNKNOWN,
        Line(plan or seen.row.shown, STATUS_STYLES.get(seen.row.shown, "")),
        _doing(one, now),
        _money(seen.cost),
    ]


def _doing(one: AtWork, now: int) -> str:
    call = one.seen.call
    if call is None:
        return "between calls" if one.seen.turn_open else "between turns"
    from stator.surfaces.cli.render.turns.subject import (
        subject_of,  # only while a call is under way
    )

    words = subject_of(value_of(one.intent, "input")).words if one.intent is not None else ""
    more = f" +{one.seen.calls - 1}" if one.seen.calls > 1 else ""
    return f"{call.tool} {words} ({span(now - one.seen.since)}){more}"


def _last_cells(one: ListedSession, now: int) -> list[Line | str]:
    ended = Line(one.ended or amounts.UNKNOWN, ENDED_STYLES.get(one.ended, "dim"))
    if one.revision and one.ended in ("pushed", "committed"):
        ended.add(f" {one.revision[:7]}", "dim")
    return [
        "",
        Line(one.row.record.name, "bold"),
        one.row.record.agent,
        Line(ago(one.row.used, now) if one.row.has_times else amounts.UNKNOWN, "dim"),
        ended,
        Line(newest_prompt(one), "dim"),
        _money(one.cost),
    ]


def _money(cost: Cost) -> str:
    return amounts.money(cost.spend)


def _week(found: ProjectStatus, width: int) -> Iterator[Line]:
    week = found.week
    line = Line(WEEK, "title").add("  ")
    if not week.sessions:
        yield line.add("no sessions", "dim")
        return
    spent = amounts.tokens_in_words(week.cost.spend) or f"{amounts.UNKNOWN} tokens"
    cost = _money(week.cost)
    spent = f" · {spent} · {f'cost {cost}' if cost == amounts.UNKNOWN else cost}"
    if 0 < week.reporting < week.sessions:
        spent = f", {week.reporting:,} with recorded usage{spent}"
    line.add(count(week.sessions, "session"))
    agents = _agents(week.agents)
    if line.width + len(agents) + len(spent) <= width:
        line.add(agents, "dim")
    yield line.add(spent)
    if not week.is_whole:
        words = f"the {SESSIONS_MAX:,} sessions used last; for all: stator sql"
        yield Line(f"{'':{LABEL + 2}}… {words}", "dim")


def _agents(counted: Mapping[str, int]) -> str:
    """How many sessions each agent had, if there are several."""
    known = [f"{name} {number:,}" for name, number in counted.items() if name]
    if len(counted) < 2 or not known:
        return ""
    more = f", {len(known) - AGENTS_MAX} more" if len(known) > AGENTS_MAX else ""
    return f" ({', '.join(known[:AGENTS_MAX])}{more})"


def _next(found: ProjectStatus) -> Sequence[str]:
    """Three things to type next."""
    rows = [one.seen.row for one in found.running] + [one.row for one in found.last]
    first = f"stator log {typed_name(rows[0])}" if rows else "stator ls"
    return (first, "stator top" if found.running else "stator recap", "stator --help")


# -- JSON -----------------------------------------------------------------------------------------


def _as_json(found: ProjectStatus, opened: OpenedStore, *, everywhere: bool) -> dict[str, Any]:
    place, week = opened.place, found.week
    return {
        "project": None if everywhere else opened.project,
        "store": {"url": place.shown, "why": place.why, "bytes": _bytes(place) or None},
        "sessions": found.sessions,
        "needs": [_need_json(need) for need in found.needs],
        "not_looked": found.not_looked,
        "old_doubts": found.old_doubts,
        "running": [_running_json(one) for one in found.running],
        "last": [_last_json(one) for one in found.last],
        "week": {
            "since": week.since,
            "sessions": week.sessions,
            "agents": week.agents,
            **_cost_json(week.cost),
            "cut": None if week.is_whole else {"shown": SESSIONS_MAX, "what": "sessions"},
        },
        "next": list(_next(found)) if found.sessions else [command for command, _ in BEGIN],
    }


def _need_json(need: Need) -> dict[str, Any]:
    return {
        "what": WORDS[need.what],
        "session": need.row.id,
        "name": need.row.record.name,
        "turn": None if need.intent is None else need.intent.turn,
        "call": need.call or None,
        "text": _call_text(need.tool, need.intent) if need.call else None,
        "steps": need.steps,
        "since": need.since,
        "cause": need.cause or None,
        "command": _command(need),
    }


def _running_json(one: AtWork) -> dict[str, Any]:
    seen = one.seen
    return {
        **_row_json(seen.row),
        "turn": seen.turn,
        "turn_open": seen.turn_open,
        "tool": None if seen.call is None else seen.call.tool,
        "since": seen.since or None,
        "plan": {"done": seen.done, "total": seen.total},
        **_cost_json(seen.cost),
    }


def _last_json(one: ListedSession) -> dict[str, Any]:
    return {
        **_row_json(one.row),
        "asked": prompt_beside_name(one, always=True) or None,
        "ended": one.ended or None,
        "revision": one.revision or None,
        "files": one.files,
        **_cost_json(one.cost),
    }


def _row_json(row: Any) -> dict[str, Any]:
    record = row.record
    about = {"session": row.id, "name": record.name, "agent": record.agent or None}
    return {**about, "project": record.project, "status": row.shown, "updated": row.used}


def _cost_json(cost: Cost) -> dict[str, Any]:
    return {"spend": plain(cost.spend), "computed": cost.is_computed}
