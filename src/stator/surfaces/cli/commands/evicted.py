"""`stator evicted`: lists what left the agent's view: by compaction, or because it did not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stator.model.log.query import PAGE_MAX, check_limit
from stator.model.records.types import EvictedRecord
from stator.model.values.ids import short
from stator.runtime.facade.view import SessionView
from stator.runtime.views.last_acts import acted
from stator.runtime.views.ranges import seqs_of
from stator.runtime.window.recall import Evicted, beyond, beyond_now, is_stretch
from stator.runtime.window.recall import evicted as evicted_of
from stator.runtime.window.transcript import latest
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read, title
from stator.surfaces.cli.parts.question.question_scope import QuestionScope, scope_of
from stator.surfaces.cli.render import documents
from stator.surfaces.cli.render.evicted_words import in_words
from stator.surfaces.cli.render.evictions import by_kind, key_line, kind_of
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.session_words import names_apart
from stator.surfaces.cli.render.table import Column, header, table
from stator.surfaces.cli.render.times import NO_TIME, ago

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        AllFlag,
        EverywhereFlag,
        JsonFlag,
        LimitOption,
        NoPagerFlag,
        RefsArgument,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator evicted                     the sessions whose agents lost something from view
stator evicted fix-login           what left its agent's view last
stator evicted fix-login -n 400    also each message and call
stator evicted fix-login --all     removed by every compaction, left out of every answer
stator evicted -s fix-login --json     then: stator recall KEY
"""

ITEMS = 30
"""Things of a session that are listed one by one, unless more are asked for: none of its messages and calls."""
GLANCE = 20
"""Things of a session that are looked up for a list of sessions, those that matter most."""
NAMED = {"request": ("asked", 2), "decision": ("decided", 2), "file": ("files", 4)}
"""What a list of sessions names under each: the word before it, and how many."""
BESIDE = 3
"""Cells before what is named."""

WHAT_LEAST = 12
"""Cells beside a key for what it is of."""
INDENT = 4
"""Cells before a key on a line of its own."""
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
    limit: LimitOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """List what left an agent's view: by compaction, or because it did not fit.

    Without a session, lists the sessions of this project whose agents lost something, and what that was. With one,
    lists its requests, rules, decisions and files; -n also lists its messages and calls. Nothing is lost from the
    record: stator recall KEY shows it.
    """
    most = None if limit is None else check_limit(limit)
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        scope = scope_of(opened, what, session=session, everywhere=everywhere)
        if scope.view is not None:
            return _of_session(screen, scope, scope.view, all=all, most=most)
        lost = _lost(scope)
        if json:
            for view, _ in lost:
                _of_session(screen, QuestionScope(opened, view), view, all=all, most=most)
            return 0
        if len(lost) == 1:
            (view, _) = lost[0]
            return _of_session(screen, QuestionScope(opened, view), view, all=all, most=most)
        if not lost:
            return scope.report_empty(
                "nothing left an agent's view", lambda wider: bool(_lost(wider))
            )
        _list(screen, scope, lost)
    return 0


def _of_session(
    screen: Screen, scope: QuestionScope, view: SessionView, *, all: bool, most: int | None
) -> int:
    """What left the view of one agent: first what people asked, last what was said and done."""
    opened, span = scope.opened, scope.span
    found = _left(scope, view, all=all)
    if screen.json:
        for item in found[:most]:
            screen.item({"session": view.id, **documents.evicted(item)})
        return 0
    title(screen, view, opened, "evicted", *([span] if span else []))
    if not found:
        return scope.report_empty(
            "nothing left the agent's view",
            lambda wider: bool(_left(wider, wider.view) if wider.view else _lost(wider)),
        )
    is_past = all or span is not None
    by_compaction = any(not item.window for item in found)
    earlier = by_compaction and not is_past and _is_earlier(opened, view, found)
    last_of = " at the last compaction" if earlier else " last"
    which = "left the view" + last_of * (by_compaction and not is_past)
    behind = {} if is_past else beyond(opened.store.as_read, view.id, [(o, o.by) for o in found])
    whole = Counter(map(kind_of, found)) + by_kind(behind)
    screen.line(Line(f"{which}: ", "bold").add(_totals(found, whole, is_past=is_past)))
    screen.line()
    screen.line(header(("  WHAT", 14), ("AT", 8), ("KEY AND CONTENT", 0)))
    listed = _by_kind(found, most)
    if is_past:
        listed.sort(key=lambda item: -item.by)
    last, alone = 0, set() if is_past else _alone(found)
    for item in listed:
        if is_past and item.by != last:
            cause = "did not fit" if item.window else "compaction"
            screen.line(Line(f"{cause} @{item.by}", "bold"))
            last = item.by
        held = behind.get(item.rank, 0) + 1 if item.key in alone else 0
        screen.whole(_lines(item, held, screen.cut))
    screen.line()
    name = short(view.id)
    if len(listed) < len(found):
        # A row that stands for many is listed last of its kind, so what it holds is not listed before it is.
        left = in_words(whole - Counter(map(kind_of, listed)))
        about = f"{name} {span}" if span else f"{name}{' --all' * all}"
        more = f"stator evicted {about} -n {min(len(found), PAGE_MAX)}"
        screen.line(Line(f"not listed: {left}: {more}", "dim"))
    enough = "the end of a key or its @ is enough"
    screen.line(Line(f"read one again: stator recall KEY -s {name} ({enough})", "dim"))
    if earlier:
        more = f"stator evicted {name} --all"
        screen.line(Line(f"there were earlier compactions: {more}", "dim"))
    return 0


def _is_earlier(opened: OpenedStore, view: SessionView, found: Sequence[Evicted]) -> bool:
    """Whether something left the view at a compaction before the one that is shown."""
    last = max(item.by for item in found if not item.window)
    return latest(opened.store.as_read, view.id, at=last - 1) is not None


def _alone(found: Sequence[Evicted]) -> set[str]:
    """The keys of stretches of turns, each the only one of its rank: what the commit counts beyond is in it."""
    stretches = [item for item in found if is_stretch(item.key)]
    many = Counter(item.rank for item in stretches)
    return {item.key for item in stretches if many[item.rank] == 1}


def _left(scope: QuestionScope, view: SessionView, *, all: bool = False) -> list[Evicted]:
    """What left the view of an agent: at its last compaction, or in the range that is asked about."""
    after, upto = seqs_of(scope.opened.store.as_read, view.id, scope.span)
    return [
        item
        for item in view.evicted(all=all or scope.span is not None)
        if after < item.by <= (item.by if upto is None else upto)
    ]


def _by_kind(found: Sequence[Evicted], most: int | None) -> list[Evicted]:
    """Those that are listed, requests first. Messages and calls are listed only if a number is asked for."""
    chosen = [item for item in found if most is not None or kind_of(item) != "chatter"]
    chosen.sort(key=lambda item: SHOWN.index(kind_of(item)))  # the rest is in order already
    return chosen[: ITEMS if most is None else most]


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
    scope.head(screen, "what left agents' views last")
    cells: list[list[Line | str]] = [
        [
            name,
            row.record.agent,
            Line(ago(row.used, opened.now) if row.has_times else NO_TIME, "dim"),
            f"{row.turns:,}",
            *(f"{counted[rank]:,}" if counted[rank] else "" for rank in SHOWN),
            Line(short(row.id), "id"),
        ]
        for row, name, (_, counted) in zip(rows, names_apart(rows), found, strict=True)
    ]
    header_line, *lines = table(COLUMNS, cells, screen.width)
    screen.line(header_line)
    for line, (view, _) in zip(lines, found, strict=True):
        screen.line(line)
        screen.lines(_named(opened, view))
    screen.line()
    screen.line(Line(f"each thing by its key: stator evicted {short(rows[0].id)}", "dim"))


def _named(opened: OpenedStore, view: SessionView) -> Iterator[Line]:
    """The first few requests, decisions and files that one agent does not see now."""
    lost: dict[str, list[str]] = {}
    for item in evicted_of(opened.store.as_read, view.id, most=GLANCE):
        text = item.key.rpartition("/")[2] if kind_of(item) == "file" else item.what or item.key
        lost.setdefault(kind_of(item), []).append(text)
    for kind, (word, most) in NAMED.items():
        if words := lost.get(kind):
            said = ", ".join(words[:most]) if kind == "file" else "; ".join(words[:most])
            more = " …" * (len(words) > most)
            yield Line(" " * BESIDE).add(f"{word:9}", "dim").add(f"{said}{more}")


def _counted(opened: OpenedStore, view: SessionView) -> Counter[str]:
    """How much is not in the agent's view now, by kind."""
    if not view.counts.live.get("evicted", 0):
        return Counter()
    entries = view.entries("evicted")
    records = (entry.record for entry in entries)
    named = Counter(kind_of(one) for one in records if isinstance(one, EvictedRecord))
    return named + by_kind(beyond_now(opened.store.as_read, view.id, entries))


def _totals(found: Sequence[Evicted], whole: Counter[str], *, is_past: bool) -> str:
    """How much left the view, in words. Of several compactions, how much a row for a stretch of turns holds is not
    known, so such rows are counted apart."""
    stretches = [item for item in found if is_past and is_stretch(item.key)]
    if not stretches:
        return in_words(whole)
    alone = in_words(whole - Counter(map(kind_of, stretches)))
    return f"{alone}, and {count(len(stretches), 'row')} that stand for more of them"


def _lines(item: Evicted, held: int, width: int) -> Iterator[Line]:
    """A key with what it is of, in `width` cells; one that does not fit is whole on a line of its own, to be copied.
    `held`: how many things a key of a stretch of turns stands for, where that is known."""
    what = item.what
    if is_stretch(item.key):
        what = f"{in_words({kind_of(item): held}) or 'more'}, each with its key"
    status = f" ({item.status})" if item.status != "recallable" else ""
    line = key_line(item)
    if line.width + len(status) + min(len(what) + 3, WHAT_LEAST) <= width:
        line.add(status, "bad")
        yield line.add(f" — {what}" if what else "", "dim").cut_plain(width)
        return
    key = line.pieces.pop()
    yield line.add(f"{what or 'its key:'}{status}", "dim").cut_plain(width)
    whole = Line(" " * INDENT)
    whole.pieces.append(key)
    yield whole
