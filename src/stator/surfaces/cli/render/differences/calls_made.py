"""Says how the calls of a range ended: counted by tool, and one line for each failure that no later call repaired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import msgspec

from stator.model.values.ids import short
from stator.model.views.diff import CallItem
from stator.runtime.facade.view import SessionView
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import value_of
from stator.surfaces.cli.render.turns.subject import end, subject_of

LISTED = 12
"""Failures that no later call repaired: the newest are listed."""
BEGUN = ("started", "running", "awaiting approval")
ABOUT_MAX = 100
"""Cells of what a call is about."""
TOOLS_NAMED = 8
"""Tools whose calls are counted one by one, the most used."""


class KnownCalls(msgspec.Struct, frozen=True, kw_only=True):
    """What else is known of the calls of a range."""

    repaired: Collection[str] = ()
    """Those that failed, and that a later call repaired."""
    asked: Collection[str] = ()
    """Those in doubt that a person is asked about."""
    base: str = ""
    """The folder below which paths are shown without it."""
    all_failed: str = ""
    """The command that lists all that did not end ok; empty if there is none."""


def lines(view: SessionView, calls: Sequence[CallItem], known: KnownCalls) -> Iterator[Line]:
    """The calls of a range."""
    if not calls:
        return
    fine = Counter(call.tool for call in calls if call.status == "ok")
    begun = [call for call in calls if call.status in BEGUN]
    failed = [call for call in calls if call.status not in ("ok", *BEGUN)]
    left = [call for call in failed if call.call not in known.repaired]
    counts = [
        *_counts(fine, failed, known.repaired),
        f"{len(begun)} without an outcome" if begun else "",
    ]
    yield Line("calls", "title").add(f"  {' · '.join(filter(None, counts))}", "dim")
    for some in (begun, left):
        if len(some) > LISTED:
            yield Line(f"    … {len(some) - LISTED:,} earlier ones", "dim")
        for call in some[-LISTED:]:
            yield _line(view, call, known)
    if min(len(left), LISTED) < len(failed) and known.all_failed:
        yield Line(f"    all that did not end ok: {known.all_failed}", "dim")


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


def _line(view: SessionView, call: CallItem, known: KnownCalls) -> Line:
    """A call on one line: how it ended, the tool with what it is about, the cause, the commit."""
    asked = view.commit(f"{call.session or view.id}:@{call.seq}")
    about = subject_of(value_of(asked, "input"), known.base).words
    line = Line("    ").status(call.status, width=9).add(" ").add(call.tool, "bold")
    line.add(f"({end(about, ABOUT_MAX)})").add(f" — {call.cause}" if call.cause else "", "dim")
    line.add(f"  @{call.seq}", "id")
    return line.add(f"  stator settle {short(call.call)}" if call.call in known.asked else "")
