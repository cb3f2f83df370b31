"""`stator evicted`: lists what left the agent's view: by compaction, or because it did not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.model.log.shown_text import cut_short
from stator.model.values.ids import short
from stator.runtime.facade.view import SessionView
from stator.runtime.views.ranges import seqs_of
from stator.runtime.window.recall import Evicted
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read, title
from stator.surfaces.cli.parts.question.question_scope import QuestionScope
from stator.surfaces.cli.render import documents
from stator.surfaces.cli.render.evictions import key_line
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen, note
from stator.surfaces.cli.render.table import header

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        AllFlag,
        JsonFlag,
        NoPagerFlag,
        RefsArgument,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator evicted                     what the agent does not see now
stator evicted --all               removed by every compaction, left out of every answer
stator evicted --json              then: stator recall KEY
"""

LOOKED_IN = 50
"""Sessions that are looked at for something that left the view, where the last one has nothing."""
SESSIONS, NAMED = 4, 24
"""Sessions that are named then, and characters of their names."""


def evicted(
    *what: RefsArgument,
    session: SessionOption = None,
    all: AllFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """List what left the agent's view: by compaction, or because it did not fit."""
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        view, span = opened.named(what, session)
        after, upto = seqs_of(opened.store.as_read, view.id, span)
        found = [
            item
            for item in view.evicted(all=all or span is not None)
            if after < item.by <= (item.by if upto is None else upto)
        ]
        if json:
            for item in found:
                screen.item(documents.evicted(item))
            return 0
        title(screen, view, opened, "evicted")
        last = 0
        if found:
            screen.line(header(("  RANK", 14), ("AT", 8), ("KEY AND CONTENT", 0)))
        for item in found:
            if (all or span) and item.by != last:
                cause = "did not fit" if item.window else "compaction"
                screen.line(Line(f"{cause} @{item.by}", "bold"))
                last = item.by
            screen.line(_line(item), hang=22)
        if not found:
            return _report_none(opened, view, anywhere=not what and session is None)
    return 0


def _report_none(opened: OpenedStore, view: SessionView, *, anywhere: bool) -> int:
    """Say that nothing left the view; and, if no session was named, of which ones something did."""
    none = f"nothing was removed from the agent's view in {view.name}"
    others = QuestionScope(opened).views(LOOKED_IN) if anywhere else ()
    left = {other: other.counts.live.get("evicted", 0) for other in others}
    found = sorted((one for one in left if left[one]), key=lambda one: -left[one])
    if not found:
        return opened.report_empty(none)
    named = (
        f"{short(one.id)} ({left[one]:,}, {cut_short(one.name, NAMED)})" for one in found[:SESSIONS]
    )
    note(f"{none}; something was in {', '.join(named)}: stator evicted SESSION")
    return 0


def _line(item: Evicted) -> Line:
    line = key_line(item)
    if item.status != "recallable":
        line.add(f" ({item.status})", "bad")
    return line.add(f" — {item.what}" if item.what else "", "dim")
