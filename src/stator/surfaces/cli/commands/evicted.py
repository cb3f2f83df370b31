"""`stator evicted`: lists what left the agent's view: by compaction, or because it did not fit."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stator.model.records.types import EvictedRecord
from stator.model.values.ids import short
from stator.runtime.facade.view import SessionView
from stator.runtime.views.last_acts import acted
from stator.runtime.views.ranges import seqs_of
from stator.runtime.window.recall import Evicted, beyond, beyond_now
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read, title
from stator.surfaces.cli.parts.question.question_scope import QuestionScope, scope_of
from stator.surfaces.cli.render import documents
from stator.surfaces.cli.render.evictions import by_kind, in_words, key_line, kind_of
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.session_words import name_line
from stator.surfaces.cli.render.table import Column, header, table
from stator.surfaces.cli.render.times import NO_TIME, ago

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        AllFlag,
        EverywhereFlag,
        JsonFlag,
        NoPagerFlag,
        RefsArgument,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator evicted                     the sessions whose agents lost something from view
stator evicted fix-login           what its agent does not see now
stator evicted fix-login --all     removed by every compaction, left out of every answer
stator evicted -s fix-login --json     then: stator recall KEY
"""

LOOKED_IN = 100
"""Sessions, those used last, that are looked at for something that left the view."""
COLUMNS = (
    Column(title="SESSION", shrinks=True, least=16),
    Column(title="AGENT", most=14, drop=2),
    Column(title="WHEN", drop=1),
    Column(title="TURNS", right=True, drop=3),
    Column(title="REQUESTS", right=True),
    Column(title="RULES", right=True),
    Column(title="DECISIONS", right=True),
    Column(title="NUMBERS", right=True),
    Column(title="FILES", right=True),
    Column(title="MESSAGES", right=True),
    Column(title="ID"),
)
SHOWN = ("request", "rule", "decision", "number", "file", "chatter")
"""The kinds in the order of their columns."""


def evicted(
    *what: RefsArgument,
    session: SessionOption = None,
    all: AllFlag = False,
    everywhere: EverywhereFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """List what left an agent's view: by compaction, or because it did not fit.

    Without a session, lists the sessions of this project whose agents lost something, and what it was in words. With
    one, lists each thing by its key. Nothing is lost from the record: stator recall KEY shows it.
    """
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        scope = scope_of(opened, what, session=session, everywhere=everywhere)
        if scope.view is not None:
            return _of_session(screen, opened, scope.view, scope.span, all=all)
        lost = _lost(scope)
        if json:
            for view, _ in lost:
                _of_session(screen, opened, view, None, all=all)
            return 0
        if len(lost) == 1:
            return _of_session(screen, opened, lost[0][0], None, all=all)
        if not lost:
            return scope.report_empty(
                "nothing left an agent's view", lambda wider: bool(_lost(wider))
            )
        _list(screen, scope, lost)
    return 0


def _of_session(
    screen: Screen, opened: OpenedStore, view: SessionView, span: str | None, *, all: bool
) -> int:
    """Each thing that left the view of one agent."""
    after, upto = seqs_of(opened.store.as_read, view.id, span)
    found = [
        item
        for item in view.evicted(all=all or span is not None)
        if after < item.by <= (item.by if upto is None else upto)
    ]
    if screen.json:
        for item in found:
            screen.item({"session": view.id, **documents.evicted(item)})
        return 0
    title(screen, view, opened, "evicted")
    if not found:
        return opened.report_empty(f"nothing was removed from the agent's view in {view.name}")
    is_past = all or span is not None
    which = "left the view" if is_past else "not in the agent's view now"
    more = {} if is_past else beyond(opened.store.as_read, view.id, [(o, o.by) for o in found])
    words = in_words(Counter(map(kind_of, found)) + by_kind(more))
    screen.line(Line(f"{which}: ", "bold").add(words))
    screen.line()
    screen.line(header(("  WHAT", 14), ("AT", 8), ("KEY AND CONTENT", 0)))
    last = 0
    for item in found:
        if is_past and item.by != last:
            cause = "did not fit" if item.window else "compaction"
            screen.line(Line(f"{cause} @{item.by}", "bold"))
            last = item.by
        screen.line(_line(item), hang=22)
    screen.line()
    screen.line(Line(f"read one again: stator recall KEY -s {short(view.id)}", "dim"))
    return 0


Lost = list[tuple[SessionView, Counter[str]]]
"""Sessions whose agents lost something, and how much of each kind: who lost most comes first."""


def _lost(scope: QuestionScope) -> Lost:
    counted = [(view, _counted(scope.opened, view)) for view in scope.views(LOOKED_IN)]
    lost = [(view, ranks) for view, ranks in counted if ranks.total()]
    return sorted(lost, key=lambda one: -one[1].total())


def _list(screen: Screen, scope: QuestionScope, found: Lost) -> None:
    """One line a session: how much its agent does not see now."""
    opened = scope.opened
    rows = acted(opened.store.as_read, [view.row for view, _ in found])
    scope.head(screen, "what agents do not have in view now")
    cells: list[list[Line | str]] = [
        [
            name_line(row),
            row.record.agent,
            Line(ago(row.used, opened.now) if row.has_times else NO_TIME, "dim"),
            f"{row.turns:,}",
            *(f"{counted[rank]:,}" if counted[rank] else "" for rank in SHOWN),
            Line(short(row.id), "id"),
        ]
        for row, (_, counted) in zip(rows, found, strict=True)
    ]
    screen.lines(table(COLUMNS, cells, screen.width))
    screen.line()
    screen.line(Line(f"each thing by its key: stator evicted {short(rows[0].id)}", "dim"))


def _counted(opened: OpenedStore, view: SessionView) -> Counter[str]:
    """How much is not in the agent's view now, by kind."""
    if not view.counts.live.get("evicted", 0):
        return Counter()
    entries = view.entries("evicted")
    records = (entry.record for entry in entries)
    named = Counter(kind_of(one) for one in records if isinstance(one, EvictedRecord))
    return named + by_kind(beyond_now(opened.store.as_read, view.id, entries))


def _line(item: Evicted) -> Line:
    line = key_line(item)
    if item.status != "recallable":
        line.add(f" ({item.status})", "bad")
    return line.add(f" — {item.what}" if item.what else "", "dim")
