"""`stator calls`: lists tool calls and how they ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, get_args

import msgspec

from stator.errors import BadQuery
from stator.model.log.query import (
    PAGE_MAX,
    CallQuery,
    CallRow,
    check_limit,
)
from stator.model.records.types import CallStatus
from stator.model.values.ids import short
from stator.model.views.unplaced import Unplaced, calls_of
from stator.runtime.views.as_read import for_one_answer, remember_reads
from stator.runtime.views.glance.calls import newest_calls, statuses_of
from stator.surfaces import web_addresses
from stator.surfaces.cli.parts.open_store import open_to_read
from stator.surfaces.cli.parts.page_addresses import print_addresses
from stator.surfaces.cli.parts.question.question_scope import QuestionScope, scope_of
from stator.surfaces.cli.render import unplaced_items
from stator.surfaces.cli.render.lines import STATUS_STYLES, Line
from stator.surfaces.cli.render.listed_calls import TOLD_MAX, ListedCall, as_json, read_calls
from stator.surfaces.cli.render.record_line import value_of
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.session_words import names_apart
from stator.surfaces.cli.render.table import Column, report_cut, table
from stator.surfaces.cli.render.times import listed
from stator.surfaces.cli.render.turns.subject import subject_of

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        EverywhereFlag,
        JsonFlag,
        LastOption,
        LimitOption,
        NoPagerFlag,
        ProjectFlag,
        RefsArgument,
        SessionOption,
        StoreOption,
        WebFlag,
    )

EXAMPLES = """
stator calls                       calls of this project, newest session first
stator calls fix-login t2          calls of one turn
stator calls --failed              calls that did not end ok
stator calls --open --everywhere   calls without an outcome, in the whole store
stator calls --tool edit_file --last 3
"""
LIMIT = 100
RECENT = 10
"""Sessions of a project, those used last, whose calls without a place in the log are listed."""
COLUMNS = (
    Column(title="CALL"),
    Column(title="AT", drop=2),
    Column(title="WHEN"),
    Column(title="TURN", drop=1),
    Column(title="ENDED"),
    Column(title="WHAT", shrinks=True, least=16),
    Column(title="CAUSE", shrinks=True, least=8),
    Column(title="SESSION", shrinks=True, most=32, least=10),
)
CAUSE = [one.title for one in COLUMNS].index("CAUSE")
LEAST = 40
"""Cells that the other columns take at the least beside a cause that is shown in full."""
INDENT = 12
"""Cells before a cause below its call."""
SHOWN = {"awaiting approval": "waiting"}
"""Statuses that a list shows in fewer words."""
STATUSES = get_args(CallStatus)


def calls(
    *what: RefsArgument,
    session: SessionOption = None,
    failed: bool = False,
    open: bool = False,
    status: str | None = None,
    tool: str | None = None,
    last: LastOption = None,
    limit: LimitOption = None,
    project: ProjectFlag = False,
    everywhere: EverywhereFlag = False,
    web: WebFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """List tool calls and how they ended.

    Looks in the sessions of this project, most recently used first, or in a session, a turn or a range.

    Parameters
    ----------
    failed
        Only calls that did not end ok, each with the later call of its turn that repaired it.
    open
        Only calls without a known outcome: started, or in doubt.
    status
        Only those with this status: ok, error, timeout, cancelled, denied, in doubt, started.
    tool
        Only calls of this tool.
    """
    asked = WantedCalls(_status(failed, open, status), tool, last)
    count = check_limit(LIMIT if limit is None else limit)
    if last is not None:
        check_limit(last)
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        remember_reads(opened.store)
        scope = scope_of(opened, what, session=session, project=project, everywhere=everywhere)
        found = _made(scope, asked, min(count + 1, PAGE_MAX))
        waiting = _unplaced(scope, asked)
        if web:
            rows = found[:count]
            return print_addresses(screen, (web_addresses.call(o.session, o.call) for o in rows))
        _show(screen, scope, asked, found[:count], waiting)
        if len(found) > count:
            report_cut(screen, count, "calls", f"-n {count * 2}", asked=limit is not None)
        if not found and not waiting:
            return scope.report_empty("no matching calls", lambda wider: _holds(wider, asked))
    return 0


class WantedCalls(msgspec.Struct, frozen=True):
    """Which calls are asked for."""

    status: str | None
    tool: str | None
    last: int | None
    """Only those of the last turns."""


def _made(scope: QuestionScope, asked: WantedCalls, most: int) -> list[CallRow]:
    """The calls of a scope, of the session first whose agent acted last."""
    if scope.view is None and asked.last is None:
        store = for_one_answer(scope.opened.store.as_read)
        query = CallQuery(
            project=scope.project, tool=asked.tool, statuses=statuses_of(asked.status)
        )
        return newest_calls(store, scope.rows(), query, most, scope.meant())
    found: list[CallRow] = []
    for view in scope.views(LIMIT):
        found += view.calls(
            scope.span, status=asked.status, tool=asked.tool, last=asked.last,
            limit=most - len(found),
        )  # fmt: skip
        if len(found) >= most:
            break
    return found


def _holds(scope: QuestionScope, asked: WantedCalls) -> bool:
    return bool(_made(scope, asked, 1) or _unplaced(scope, asked))


def _unplaced(scope: QuestionScope, asked: WantedCalls) -> list[Unplaced]:
    """Calls that match and have no place in the log yet: those of the session, or of those used last."""
    if scope.span is not None:
        return []
    statuses = statuses_of(asked.status)
    return [
        one
        for view in islice(scope.views(PAGE_MAX), RECENT)
        if view.record.mode == "recorded"
        for one in calls_of(view.unplaced())
        if (not statuses or one.status in statuses) and asked.tool in (None, one.tool)
    ]


def _show(
    screen: Screen,
    scope: QuestionScope,
    asked: WantedCalls,
    rows: Sequence[CallRow],
    waiting: Sequence[Unplaced],
) -> None:
    # A list that is piped has one line for each call and one for why, no wider than a page.
    room = TOLD_MAX if screen.is_terminal or screen.json else screen.width - INDENT
    found = read_calls(scope.opened.store, rows, room)
    if scope.view is None:
        found.sort(key=lambda one: -(one.when or 0))
    if screen.json:
        for one in found:
            screen.item(as_json(one))
        if waiting:
            screen.item({"unplaced": unplaced_items.all_as_json(waiting)})
        return
    times, day = listed([one.when for one in found], scope.opened.now)
    what = f"{asked.status} calls" if asked.status else "calls"
    scope.head(screen, *filter(None, (what, day)))
    screen.lines(unplaced_items.lines(waiting))
    sessions = {one.session.id: one.session for one in found} if scope.view is None else {}
    names = dict(zip(sessions, names_apart(list(sessions.values())), strict=True))
    cells = [_cells(one, at, names) for one, at in zip(found, times, strict=True)]
    shown = [one.row for one in found]
    longest = max((len(one.told) for one in found), default=0)
    lines = list(table(COLUMNS, cells, screen.width)) if longest + LEAST <= screen.width else []
    if lines and all(one.told in row.plain for one, row in zip(found, lines[1:], strict=True)):
        screen.lines(lines)
    else:
        for each in cells:
            each[CAUSE] = (
                ""  # a cause is what one came for: it goes below its call rather than being cut
            )
        lines = list(table(COLUMNS, cells, screen.width))
        screen.lines(lines[:1])
        for one, line in zip(found, lines[1:], strict=True):
            screen.line(line)
            if one.told:
                screen.line(Line(f"{'':{INDENT}}").add(one.told, "dim"), hang=INDENT)
    screen.lines(_next(shown), hang=4)


def _next(rows: Sequence[CallRow]) -> Iterator[Line]:
    """How to learn all that is known of a call in doubt, if there is one."""
    doubt = next((row for row in rows if row.status == "in doubt"), None)
    if doubt is not None:
        yield Line()
        settle = f"stator settle {short(doubt.call)}"
        yield Line(f"all about one in doubt: {settle}", "dim")


def _cells(one: ListedCall, when: str, names: Mapping[str, Line]) -> list[Line | str]:
    row = one.row
    subject = subject_of(value_of(one.intent, "input"), one.base).words
    return [
        Line(short(row.call), "id"),
        Line(f"@{row.seq}", "id"),
        Line(when, "dim"),
        Line(f"t{row.turn}", "dim"),
        Line(SHOWN.get(row.status, row.status), STATUS_STYLES.get(row.status, "")),
        f"{row.tool}({subject})",
        one.told,
        names.get(row.session, ""),
    ]


def _status(failed: bool, open: bool, status: str | None) -> str | None:
    given = [
        *(["failed"] if failed else []),
        *(["open"] if open else []),
        *([status] if status else []),
    ]
    if len(given) > 1:
        raise BadQuery("use only one of --failed, --open and --status")
    if status is not None and status not in STATUSES:
        raise BadQuery(f"unknown status {status!r:.40}", hint=", ".join(STATUSES))
    return given[0] if given else None
