"""`stator calls`: lists tool calls and how they ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, get_args

import msgspec

from stator.errors import BadQuery
from stator.model.log.query import PAGE_MAX, CallRow, check_limit
from stator.model.records.types import CallStatus
from stator.model.values.ids import short
from stator.model.views.unplaced import Unplaced, calls_of
from stator.runtime.facade.view import SessionView
from stator.runtime.views.glance.calls import statuses_of
from stator.surfaces import web_addresses
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read
from stator.surfaces.cli.parts.page_addresses import print_addresses
from stator.surfaces.cli.parts.question.question_scope import QuestionScope, scope_of
from stator.surfaces.cli.render import documents, unplaced_items
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import intent
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.table import report_cut
from stator.surfaces.cli.render.times import clock, stamp

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
INDENT = 18
"""Cells before the second row of a call: below its time."""
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
        Only calls that did not end ok.
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
        scope = scope_of(opened, what, session=session, project=project, everywhere=everywhere)
        found = _made(scope, asked, min(count + 1, PAGE_MAX))
        waiting = _unplaced(scope, asked)
        if web:
            rows = found[:count]
            return print_addresses(screen, (web_addresses.call(o.session, o.call) for o in rows))
        if not json:
            scope.head(screen, f"{asked.status} calls" if asked.status else "calls")
        _show(screen, scope, found[:count], waiting)
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
    """The calls of a scope, newest session first."""
    if scope.view is None and asked.last is None:
        statuses = statuses_of(asked.status)
        return scope.opened.store.calls(
            project=scope.project, statuses=statuses, tool=asked.tool, limit=most
        ).rows
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
    screen: Screen, scope: QuestionScope, rows: Sequence[CallRow], waiting: Sequence[Unplaced]
) -> None:
    if screen.json:
        for row in rows:
            screen.item(documents.call(row))
        if waiting:
            screen.item({"unplaced": unplaced_items.all_as_json(waiting)})
        return
    names = scope.opened.names() if scope.view is None else None
    screen.lines(unplaced_items.lines(waiting))
    if rows:
        screen.line(_header(wide=names is not None))
    for row in rows:
        # The cause comes last and matters most; a call without one stays on one line.
        screen.line(_line(row, scope.opened, names), hang=INDENT if row.cause else -1)


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


def _header(*, wide: bool) -> Line:
    line = Line().add("CALL", "head", width=11).add("AT", "head", width=7)
    line.add("WHEN", "head", width=19 if wide else 8).add(" TURN", "head", width=5)
    return line.add(" ").add("ENDED", "head", width=10).add("CALL AND CAUSE", "head")


def _line(row: CallRow, opened: OpenedStore, names: Mapping[str, str] | None) -> Line:
    commit = SessionView(opened.store.as_read, row.session).commit(f"@{row.seq}")
    line = Line().add(short(row.call), "id", width=11).add(f"@{row.seq}", "id", width=6).add(" ")
    line.add(clock(commit.when) if names is None else stamp(commit.when), "dim").add(
        f" t{row.turn}", "dim", width=5
    )
    line.add(" ").status(row.status, width=10).extend(intent(commit))
    line.add(f" — {row.cause}" if row.cause else "")
    return line.add("" if names is None else f"  {names[row.session]}", "dim")
