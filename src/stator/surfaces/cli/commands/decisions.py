"""`stator decisions`: shows the decisions in force."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stator.runtime.views.session import DecisionLine
from stator.surfaces.cli.parts.open_store import open_to_read, title
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import of_record
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.wire import record

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        EverywhereFlag,
        JsonFlag,
        NoPagerFlag,
        ProjectFlag,
        SessionArgument,
        StoreOption,
    )

EXAMPLES = """
stator decisions                   decisions in force
stator decisions --all             superseded decisions too
stator decisions --superseded      only superseded decisions
stator decisions --project --json  decisions of every session of this project
"""


def decisions(
    session: SessionArgument = None,
    *,
    all: bool = False,
    superseded: bool = False,
    project: ProjectFlag = False,
    everywhere: EverywhereFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show the decisions in force, and the reasons for them.

    Parameters
    ----------
    all
        Include superseded decisions.
    superseded
        Show only superseded decisions, and what superseded them.
    """
    wanted = None if all else not superseded
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        wide = project or everywhere
        if wide:
            scope = None if everywhere else opened.project
            known = opened.store.decisions(project=scope)
        else:
            view = opened.session(session)
            known = view.decisions()
        found = [line for line in known if wanted is None or line.stands is wanted]
        if json:
            for line in found:
                screen.item(_as_json(line))
            return 0
        what = "superseded decisions" if superseded else "decisions"
        if not wide:
            title(screen, view, opened.now, what)
        names, by_id = opened.names(), {line.id: line for line in known}
        for line in found:
            shown = _line(line, by_id)
            screen.line(shown.add(f"  {names[line.session]}", "dim") if wide else shown, hang=13)
        if not found:
            return opened.report_empty(
                f"no {what}" if superseded or all else "no decisions in force"
            )
    return 0


def _line(line: DecisionLine, by_id: dict[str, DecisionLine]) -> Line:
    shown = Line("✓ ", "ok") if line.stands else Line("≈ ", "superseded")
    shown.add(f"t{line.turn}", "dim", width=4).add(f" @{line.seq}", "id", width=6).add(" ")
    shown.extend(of_record(line.recorded))
    if not line.stands and (line.by or line.erased is None):
        after = by_id.get(line.by)
        what = after.record.what if after else ""
        shown.add(f" → superseded by {what}" if what else " → superseded", "superseded")
    return shown


def _as_json(line: DecisionLine) -> dict[str, Any]:
    return {
        "id": line.id,
        "session": line.session,
        "turn": line.turn,
        "seq": line.seq,
        "stands": line.stands,
        "by": line.by or None,
        "record": record(line.recorded),
    }
