"""`stator top`: watches all running and waiting sessions on one screen."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stator.errors import BadQuery
from stator.model.values.ids import short
from stator.model.views.unplaced import Unplaced, calls_of
from stator.runtime.base.context import nap
from stator.runtime.base.watch import watcher_of
from stator.runtime.views.overview import Overview, PersonNeeded, overview
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_follow
from stator.surfaces.cli.render import unplaced_items, wire
from stator.surfaces.cli.render.lines import Line, widest
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.times import clock, span

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, StoreOption

EXAMPLES = """
stator top                         live, until Ctrl-C
stator top --once                  print once and exit
stator top --all --json | jq -r 'select(.waiting != []) | .name'
"""
EVERY_S = 2.0
EVERY_MIN_S, EVERY_MAX_S = 0.2, 3600.0


def top(
    *,
    all: bool = False,
    once: bool = False,
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
    all
        Include sessions that are paused, closed or archived.
    once
        Print once and exit, even on a terminal.
    every
        Seconds between updates.
    """
    if not EVERY_MIN_S <= every <= EVERY_MAX_S:
        raise BadQuery(
            f"--every must be from {EVERY_MIN_S:g} to {EVERY_MAX_S:g} seconds, got {every:g}"
        )
    with open_to_follow(store) as opened, Screen(json=json, pager=False) as screen:
        if json:
            for one in overview(opened.store.as_read, everything=all):
                screen.item(as_json(one, opened.now))
            return 0
        if once or not screen.is_terminal:
            found = overview(opened.store.as_read, everything=all)
            screen.lines(_lines(found, opened.now))
            return 0 if found else opened.report_empty("no session is running or waiting for you")
        return _live(screen, opened, every, everything=all)


def _live(screen: Screen, opened: OpenedStore, every: float, *, everything: bool) -> int:
    """Draw at once when a session moves, and every so often: what runs gets older without a commit."""
    with (
        contextlib.suppress(KeyboardInterrupt),
        watcher_of(opened.store.port).watch(everything=True) as watch,
    ):  # Ctrl-C is the way to leave
        while True:
            found, now = overview(opened.store.as_read, everything=everything), opened.now
            room = max(1, screen.height - 3)
            screen.redraw()
            waiting = sum(bool(one.waiting) for one in found)
            head = Line(clock(now), "dim").add(f" {count(len(found), 'session')}", "bold")
            screen.line(head.add(f" · {waiting} waiting for you", "doubt" if waiting else "dim"))
            lines = list(_lines(found, now))
            screen.lines(lines[:room])
            if len(lines) > room:
                screen.line(Line(f"… {count(len(lines) - room, 'more line')}", "dim"))
            screen.flush()
            nap(EVERY_MIN_S)
            opened.wait(every - EVERY_MIN_S, watch)
    return 0


def _lines(found: list[Overview], now: int) -> Iterator[Line]:
    names = widest((one.row.record.name for one in found), 28)
    plans = widest((_plan(one) for one in found), 12)
    calls = widest((_call(one, now) for one in found), 28)
    costs = widest((_spend(one.spend) for one in found), 18)
    for one in found:
        line = Line().add(short(one.row.id), "id", width=11)
        line.add(one.row.record.name, "bold", width=names).add("  ")
        line.status(one.row.shown, width=12)
        line.add(f"t{one.turn}" if one.turn else "-", "" if one.turn_open else "dim", width=5)
        line.add(_call(one, now), "changed" if one.call else "dim", width=calls).add("  ")
        line.add(_plan(one), "dim", width=plans).add("  ")
        yield line.add(_spend(one.spend), "dim", width=costs)
        if one.unplaced:
            yield Line(f"{'':11}").extend(unplaced_items.explanation(one.unplaced))
        for asked in _requests(one.waiting):
            yield Line(f"{'':11}→ ", "dim").add(asked, "doubt")


def _call(one: Overview, now: int) -> str:
    if one.call is None and (begun := _unplaced_call(one)):
        return f"{begun.tool} (unplaced)"
    if one.call is None:
        return "between calls" if one.turn_open else "between turns"
    more = f" +{one.calls - 1}" if one.calls > 1 else ""
    return f"{one.call.tool} {span(now - one.since)}{more}"


def _unplaced_call(one: Overview) -> Unplaced | None:
    """The newest call that has begun, as far as is known, and has no place in the log yet."""
    begun = [call for call in calls_of(one.unplaced) if call.status == "started"]
    return begun[-1] if begun else None


def _plan(one: Overview) -> str:
    return f"plan {one.done}/{one.total}" if one.total else "no plan"


def _spend(spend: dict[str, int]) -> str:
    """What was spent: money where it is known, else tokens."""
    money = [
        f"{amount / 1_000_000:.2f} {unit.partition(':')[2]}"
        for unit, amount in sorted(spend.items())
        if unit.startswith("money:")
    ]
    if money:
        return ", ".join(money)
    return f"{spend['tokens']:,} tokens" if "tokens" in spend else "-"


def _requests(waiting: list[PersonNeeded]) -> Iterator[str]:
    for one in waiting:
        yield f"{one.what} {one.tool} {short(one.call)}" if one.call else "budget used up"


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
        "spend": one.spend,
        "waiting": [
            {"what": w.what, "call": w.call or None, "tool": w.tool or None} for w in one.waiting
        ],
        "unplaced": unplaced_items.all_as_json(one.unplaced),
        "updated": one.row.updated,
    }
