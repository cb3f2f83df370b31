"""`stator replay`: runs an agent against a recorded session and reports where it diverges."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stator.connect import connect
from stator.errors import InvalidInput
from stator.model.calls.expectations import Divergence
from stator.model.values import canon
from stator.model.values.ids import short
from stator.runtime.replay import engine
from stator.runtime.replay.report import Replayed
from stator.runtime.replay.sources import Source, gather, load_fixture
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.load_function import load_function, prints_to_stderr
from stator.surfaces.cli.parts.open_store import open_to_read
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import brief, count
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        JsonFlag,
        NoPagerFlag,
        SessionOption,
        StoreOption,
        TurnsOption,
    )

EXAMPLES = """
stator replay fix-login agent.py:main         against a recorded session
stator replay tests/login.stator agent:main   against a fixture, as a test does
stator replay fix-login agent:main --turns t3..t5
stator replay fix-login agent:main --strict   decisions and facts must be the same too
"""
STYLES = {"-": "removed", "+": "added", "@": "dim"}


def replay(
    source: str,
    target: str,
    /,
    *,
    turns: TurnsOption = None,
    strict: bool = False,
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Run an agent against a recorded session; report where it diverges.

    Runs no tool, asks no model and writes nothing. The agent is a function that takes a session, such as
    def main(s): with s.turn(…) as t: …; it may be a coroutine function. Exits with 1 if it diverges.

    Parameters
    ----------
    source
        A session, or a fixture file.
    target
        The agent: module:function, or file.py:function.
    strict
        Count different decisions, facts and other records as a divergence too.
    """
    agent = load_function(target)
    found = _source(source, session, store)
    with connect("memory:") as copy, Screen(json=json, pager=not no_pager) as screen:
        with prints_to_stderr():
            replayed = engine.replay(
                found, agent, copy.port, copy.context, turns=turns, strict=strict
            )
        if json:
            screen.document("stator.replay/1", _as_json(replayed))
        else:
            _show(screen, replayed)
    return OK if replayed.ok else FINDING


def _source(source: str, session: str | None, store: str | None) -> Source:
    if os.path.isfile(source):
        return Source(load_fixture(source), session or "")
    with open_to_read(store) as opened:
        view = opened.session(source)
        return gather(opened.store.port, view.id)


def _show(screen: Screen, replayed: Replayed) -> None:
    head = (
        Line(replayed.name, "title").add(" ").add(short(replayed.session), "id").add(" · ", "dim")
    )
    head.add(replayed.verdict, "ok" if replayed.ok else "bad")
    reused = [
        count(replayed.turns, "turn"),
        count(replayed.calls, "call"),
        count(replayed.answers, "answer"),
        count(replayed.records, "record"),
    ]
    screen.line(head.add(f" · {', '.join(reused)} reused", "dim"))
    if replayed.divergence is not None:
        screen.line()
        _divergence(screen, replayed.divergence, "bad")
    if replayed.ended:
        screen.line(Line("stopped: ", "bold").add(replayed.ended), hang=2)
    for difference in replayed.differences:
        screen.line()
        _divergence(screen, difference, "changed")
    screen.line()
    for item in replayed.uncaptured:
        line = Line("not captured ", "dim").add(f"@{item.seq} " if item.seq else "", "id")
        screen.line(line.add(item.what).add(f": {item.why}", "dim"), hang=4)


def _divergence(screen: Screen, found: Divergence, style: str) -> None:
    where = f"t{found.turn}" + (f" no. {found.place}" if found.place else "")
    line = Line(where, "bold").add(f" @{found.seq}" if found.seq else "", "id").add(" ")
    screen.line(line.add(found.what, style), hang=2)
    if found.diff:
        screen.lines(diff_lines(found.diff))
        return
    for name, value in (("recorded", found.expected), ("now", found.got)):
        if value is not None:
            screen.line(Line(f"  {name:9} ", "dim").add(brief(value)))


def diff_lines(diff: str) -> list[Line]:
    """The lines of a unified diff, coloured."""
    return [Line("  ").add(row, STYLES.get(row[:1], "")) for row in diff.splitlines()]


def _as_json(replayed: Replayed) -> dict[str, Any]:
    return {
        "session": replayed.session,
        "name": replayed.name,
        "ok": replayed.ok,
        "turns": replayed.turns,
        "calls": replayed.calls,
        "answers": replayed.answers,
        "records": replayed.records,
        "divergence": None if replayed.divergence is None else _item(replayed.divergence),
        "differences": [_item(difference) for difference in replayed.differences],
        "ended": replayed.ended,
        "uncaptured": [
            {"turn": item.turn, "seq": item.seq, "what": item.what, "why": item.why}
            for item in replayed.uncaptured
        ],
    }


def _item(found: Divergence) -> dict[str, Any]:
    plain = {name: getattr(found, name) for name in found.__struct_fields__}
    return {**plain, "expected": _value(found.expected), "got": _value(found.got)}


def _value(value: Any) -> Any:
    """A value in its recorded form; an object that cannot be recorded, as text."""
    try:
        return canon.to_plain(value)
    except InvalidInput:
        return repr(value)[:400]
