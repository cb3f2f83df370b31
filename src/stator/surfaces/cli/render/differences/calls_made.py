"""Says how the calls of a range ended: counted by tool, and one line for each failure that no later call repaired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from stator.model.values.ids import short
from stator.model.views.diff import CallItem
from stator.runtime.facade.view import SessionView
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import intent

LISTED = 12
"""Failures that no later call repaired: the newest are listed."""
TOOLS_NAMED = 8
"""Tools whose calls are counted one by one, the most used."""


def lines(
    view: SessionView, calls: Sequence[CallItem], repaired: Collection[str], all_of: str
) -> Iterator[Line]:
    """The calls of a range. `repaired`: those that failed and were repaired. `all_of`: the command that lists all that
    did not end ok; empty if there is none."""
    if not calls:
        return
    fine = Counter(call.tool for call in calls if call.status == "ok")
    failed = [call for call in calls if call.status != "ok"]
    left = [call for call in failed if call.call not in repaired]
    yield Line("calls", "title").add(f"  {' · '.join(_counts(fine, failed, repaired))}", "dim")
    shown = left[-LISTED:]
    for call in shown:
        yield _line(view, call)
    if len(shown) < len(failed) and all_of:
        yield Line(f"    all that did not end ok: {all_of}", "dim")


def _counts(
    fine: Counter[str], failed: Sequence[CallItem], repaired: Collection[str]
) -> Iterator[str]:
    if fine:
        named = [tool if n == 1 else f"{tool} ×{n:,}" for tool, n in fine.most_common(TOOLS_NAMED)]
        more = len(fine) - len(named)
        yield f"{fine.total():,} ok: {', '.join(named)}{f' and {more} more tools' if more else ''}"
    if failed:
        some = f"{len(repaired):,} " if len(repaired) < len(failed) else ""
        again = f", {some}repaired by a later call" if repaired else ""
        yield f"{len(failed):,} not ok{again}"


def _line(view: SessionView, call: CallItem) -> Line:
    """A call on one line: how it ended, the tool with its arguments, the cause, the commit."""
    asked = view.commit(f"{call.session or view.id}:@{call.seq}")
    line = Line("    ").status(call.status, width=9).add(" ").extend(intent(asked))
    line.add(f" — {call.cause}" if call.cause else "", "dim").add(f"  @{call.seq}", "id")
    return line.add(f"  stator settle {short(call.call)}" if call.status == "in doubt" else "")
