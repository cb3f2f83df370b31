"""`stator top`: watches all running and waiting sessions on one screen."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stator.errors import BadQuery
from stator.model.calls.costs import plain
from stator.model.values.ids import short
from stator.model.views.unplaced import Unplaced, calls_of
from stator.runtime.base.context import nap
from stator.runtime.base.watch import watcher_of
from stator.runtime.views.glance.overview import Overview, overview
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_follow
from stator.surfaces.cli.render import amounts, unplaced_items, wire
from stator.surfaces.cli.render.lines import STATUS_STYLES, Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.table import Column, table
from stator.surfaces.cli.render.times import clock, span

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        AllFlag,
        JsonFlag,
        NoPagerFlag,
        OnceFlag,
        StoreOption,
    )

EXAMPLES = """
stator top                         live, until Ctrl-C
stator top --once                  print once and exit
stator top --all --json | jq -r 'select(.waiting != []) | .name'
"""
COLUMNS = (
    Column(title="ID"),
    Column(title="SESSION", shrinks=True, least=16),
    Column(title="STATUS"),
    Column(title="TURN"),
    Column(title="DOING", shrinks=True, least=12),
    Column(title="PLAN", right=True, drop=2),
    Column(title="TOKENS", right=True, drop=3),
    Column(title="CACHED", right=True, drop=5),
    Column(title="COST", right=True, drop=4),
)
AT_WORK = ("active", "silent", "interrupted")
EVERY_S = 2.0
EVERY_MIN_S, EVERY_MAX_S = 0.2, 3600.0


def top(
    *,
    all: AllFlag = False,
    once: OnceFlag = False,
    every: float = EVERY_S,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Watch the sessions that are running or waiting for you.

    Shows the status of each session, its turn, the running call and its duration, progress of its plan, what
    it spent, and what waits for you: calls to approve, calls in doubt to settle, a budget that is used up.
    Piped or with --json, it prints once and exits.

    Parameters
    ----------
    every
        Seconds between updates.
    """
    if not EVERY_MIN_S <= every <= EVERY_MAX_S:
        raise BadQuery(
            f"--every must be from {EVERY_MIN_S:g} to {EVERY_MAX_S:g} seconds, got {every:g}"
        )
    with open_to_follow(store) as opened, Screen(json=json, pager=False) as screen:
        if json:
            for one in overview(opened.store.as_read, everything=all, prices=opened.prices()):
                screen.item(as_json(one, opened.now))
            return 0
        if once or not screen.can_redraw:
            found = overview(opened.store.as_read, everything=all, prices=opened.prices())
            screen.lines(_lines(found, opened.now, screen.width))
            return 0 if found else opened.report_empty("no session is running or waiting for you")
        return _live(screen, opened, every, everything=all)


def _live(screen: Screen, opened: OpenedStore, every: float, *, everything: bool) -> int:
    """Draw at once when a session moves, and every so often: what runs gets older without a commit."""
    prices = opened.prices()
    with (
        contextlib.suppress(KeyboardInterrupt),
        watcher_of(opened.store.port).watch(everything=True) as watch,
    ):  # Ctrl-C is the way to leave
        while True:
            found, now = (
                overview(opened.store.as_read, everything=everything, prices=prices),
                opened.now,
            )
            room = max(1, screen.height - 3)
            screen.redraw()
            waiting = sum(bool(one.waiting) for one in found)
            head = Line(clock(now), "dim").add(f" {count(len(found), 'session')}", "bold")
            screen.line(head.add(f" · {waiting} waiting for you", "doubt" if waiting else "dim"))
            lines = list(_lines(found, now, screen.width))
            screen.lines(lines[:room])
            if len(lines) > room:
                screen.line(Line(f"… {count(len(lines) - room, 'more line')}", "dim"))
            screen.flush()
            nap(EVERY_MIN_S)
            opened.wait(every - EVERY_MIN_S, watch)
    return 0


def _lines(found: list[Overview], now: int, width: int) -> Iterator[Line]:
    """A table of sessions, with a line below each for what asks for a person."""
    rows = list(table(COLUMNS, [_cells(one, now) for one in found], width))
    yield from rows[:1]
    for one, row in zip(found, rows[1:], strict=True):
        yield row
        if one.unplaced:
            yield Line(f"{'':11}").extend(unplaced_items.explanation(one.unplaced))
        for asked, command in _requests(one):
            yield Line(f"{'':11}→ ", "dim").add(asked, "doubt").add(f"   {command}", "bold")


def _cells(one: Overview, now: int) -> list[Line | str]:
    return [
        Line(short(one.row.id), "id"),
        Line(one.row.record.name, "bold"),
        Line(one.row.shown, STATUS_STYLES.get(one.row.shown, "")),
        Line(f"t{one.turn}" if one.turn else amounts.UNKNOWN, "" if one.turn_open else "dim"),
        Line(_call(one, now), "changed" if one.call else "dim"),
        Line(f"{one.done}/{one.total}" if one.total else "", "dim"),
        amounts.tokens(one.cost.spend),
        Line(amounts.cached(one.cost.spend), "dim"),
        amounts.money(one.cost.spend),
    ]


def _call(one: Overview, now: int) -> str:
    if one.call is None and (begun := _unplaced_call(one)):
        return f"{begun.tool} (unplaced)"
    if one.row.shown not in AT_WORK:
        return "waits for you" if one.waiting else ""
    if one.call is None:
        return "between calls" if one.turn_open else "between turns"
    more = f" +{one.calls - 1}" if one.calls > 1 else ""
    return f"{one.call.tool} {span(now - one.since)}{more}"


def _unplaced_call(one: Overview) -> Unplaced | None:
    """The newest call that has begun, as far as is known, and has no place in the log yet."""
    begun = [call for call in calls_of(one.unplaced) if call.status == "started"]
    return begun[-1] if begun else None


def _requests(one: Overview) -> Iterator[tuple[str, str]]:
    """What waits for a person, and the command that acts on it."""
    for asked in one.waiting:
        if asked.call:
            name = short(asked.call)
            command = "settle" if asked.what == "settle" else asked.what
            yield f"{asked.what} {asked.tool}", f"stator {command} {name}"
        else:
            yield "budget used up", f"stator budget {short(one.row.id)}"


def as_json(one: Overview, now: int) -> dict[str, Any]:
    """A session of the overview as JSON."""
    call = one.call
    return {
        "session": one.row.id,
        "name": one.row.record.name,
        "project": one.row.record.project,
        "status": one.row.shown,
        "turn": one.turn,
        "turn_open": one.turn_open,
        "call": None
        if call is None
        else {**(wire.record(call) or {}), "since": one.since, "elapsed": now - one.since},
        "calls": one.calls,
        "plan": {"done": one.done, "total": one.total},
        "spend": plain(one.cost.spend),
        "computed": one.cost.is_computed,
        "waiting": [
            {"what": w.what, "call": w.call or None, "tool": w.tool or None} for w in one.waiting
        ],
        "unplaced": unplaced_items.all_as_json(one.unplaced),
        "updated": one.row.used,
    }
