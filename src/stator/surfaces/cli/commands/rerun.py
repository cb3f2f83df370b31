"""`stator rerun`: runs recorded calls again, with the present tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stator.model.values import canon
from stator.model.values.ids import short
from stator.runtime.branches import rerun as reruns
from stator.runtime.branches.rerun import Again, Rerun
from stator.surfaces.cli.commands.replay import diff_lines
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.load_function import load_tools, prints_to_stderr
from stator.surfaces.cli.parts.open_store import open_to_write
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.waiting_calls import call_text, waiting_hint

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        EffectsOption,
        JsonFlag,
        NoPagerFlag,
        SessionArgument,
        StoreOption,
        ToolsOption,
        TurnsOption,
    )

EXAMPLES = """
stator rerun fix-login --tools tools:TOOLS            every call; writes wait for approval
stator rerun fix-login --tools tools.py:TOOLS --turns t5
stator rerun fix-login --tools tools:TOOLS --effects run
"""
STYLES = {
    "same": "ok",
    "other value": "changed",
    "other status": "bad",
    "not compared": "doubt",
    "not run": "doubt",
}


def rerun(
    session: SessionArgument = None,
    *,
    tools: ToolsOption = None,
    turns: TurnsOption = None,
    effects: EffectsOption = "ask",
    name: str = "",
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Run recorded tool calls again and show which results changed.

    Runs each call with its recorded arguments, in order, in a new session that branches off before the first
    of the turns. A call that writes waits for approval; approve it, then run the same command again to
    continue. Exits with 1 unless every call ran and ended as recorded.

    Parameters
    ----------
    name
        The name of the new session; default: SESSION~rerun.
    """
    hands = load_tools(tools)
    with open_to_write(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        view = opened.session(session)
        with prints_to_stderr():
            found = reruns.rerun(
                opened.store.port,
                opened.store.context,
                view.id,
                hands,
                turns,
                effects=effects,
                name=name,
            )
        if json:
            screen.document("stator.rerun/1", _as_json(found))
        else:
            _show(screen, view.name, found)
    return OK if found.same else FINDING


def _show(screen: Screen, name: str, found: Rerun) -> None:
    head = Line(name, "title").add(" rerun in ").add(found.name, "bold").add(" ")
    head.add(short(found.session), "id").add(f" · {count(len(found.calls), 'call')}", "dim")
    for verdict, number in found.counts().items():
        head.add(" · ", "dim").add(f"{number} {verdict}", STYLES[verdict])
    screen.line(head)
    for call in found.calls:
        screen.line(_line(call), hang=4)
        screen.lines(diff_lines(call.diff))
    if found.waiting:
        screen.lines(["", waiting_hint(found.waiting)])


def _line(call: Again) -> Line:
    line = Line().add(f"t{call.turn}", "dim", width=5).add(f"@{call.seq}", "id", width=6)
    line.add(call.verdict, STYLES[call.verdict], width=14)
    line.extend(call_text(call.tool, call.arguments))
    if call.after and call.after != call.before:
        line.add(f" {call.before} → ").status(call.after)
    return line.add(f" — {call.why}" if call.why else "", "dim")


def _as_json(found: Rerun) -> dict[str, Any]:
    calls = [
        {**msgspec.structs.asdict(call), "arguments": canon.to_plain(call.arguments)}
        for call in found.calls
    ]
    return {**msgspec.structs.asdict(found), "same": found.same, "calls": calls}
