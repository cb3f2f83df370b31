"""`stator calls`: lists tool calls and how they ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import msgspec

from stator.errors import BadQuery
from stator.model.log.query import PAGE_MAX, CallRow, check_limit
from stator.model.records.types import CallStatus
from stator.model.values.ids import short
from stator.model.views.unplaced import Unplaced, calls_of
from stator.runtime.facade.view import SessionView
from stator.runtime.views.session import statuses_of
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read, title
from stator.surfaces.cli.render import unplaced_items
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import intent
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.table import report_cut
from stator.surfaces.cli.render.times import clock, stamp

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        AllFlag,
        JsonFlag,
        LastOption,
        LimitOption,
        NoPagerFlag,
        ProjectFlag,
        SessionArgument,
        StoreOption,
    )

EXAMPLES = """
stator calls                       calls of the last session, newest first
stator calls --failed              calls that did not end ok
stator calls --open --all          calls without an outcome, in the whole store
stator calls --tool edit_file --last 3
"""
LIMIT = 100
INDENT = 18
"""Cells before the second row of a call: below its time."""
STATUSES = get_args(CallStatus)


def calls(
    session: SessionArgument = None,
    *,
    failed: bool = False,
    open: bool = False,
    status: str | None = None,
    tool: str | None = None,
    last: LastOption = None,
    limit: LimitOption = None,
    project: ProjectFlag = False,
    all: AllFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """List tool calls and how they ended.

    Parameters
    ----------
    failed
        Only calls that did not end ok.
    open
        Only calls without a known outcome: started, or in doubt.
    status
        Only calls with this status: ok, error, timeout, cancelled, denied, in doubt, started.
    tool
        Only calls of this tool.
    """
    wanted = _status(failed, open, status)
    count = check_limit(LIMIT if limit is None else limit)
    if last is not None:
        check_limit(last)
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        wide = project or all
        if wide:
            scope = None if all else opened.project
            statuses = statuses_of(wanted)
            found = opened.store.calls(
                project=scope, statuses=statuses, tool=tool, limit=min(count + 1, PAGE_MAX)
            ).rows
        else:
            view = opened.session(session)
            more = min(count + 1, PAGE_MAX)
            found = view.calls(status=wanted, tool=tool, last=last, limit=more)
            if not json:
                title(screen, view, opened.now, f"{wanted} calls" if wanted else "calls")
        waiting = [] if wide else _unplaced(view, wanted, tool)
        if not json:
            screen.lines(unplaced_items.lines(waiting))
        if found and not json:
            screen.line(_header(wide=wide))
        for row in found[:count]:
            if json:
                screen.item(_as_json(row))
            else:
                # The cause comes last and matters most; a call without one stays on one line.
                screen.line(_line(row, opened, wide=wide), hang=INDENT if row.cause else -1)
        if json and waiting:
            screen.item({"unplaced": unplaced_items.all_as_json(waiting)})
        if len(found) > count:
            report_cut(screen, count, "calls", f"-n {count * 2}", asked=limit is not None)
        if not found and not waiting:
            return opened.report_empty("no matching calls")
    return 0


def _unplaced(view: SessionView, status: str | None, tool: str | None) -> list[Unplaced]:
    """Calls that match and have no place in the log yet."""
    statuses = statuses_of(status)
    return [
        one
        for one in calls_of(view.unplaced())
        if (not statuses or one.status in statuses) and tool in (None, one.tool)
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


def _header(*, wide: bool) -> Line:
    line = Line().add("CALL", "head", width=11).add("AT", "head", width=7)
    line.add("WHEN", "head", width=19 if wide else 8).add(" TURN", "head", width=5)
    return line.add(" ").add("ENDED", "head", width=10).add("CALL AND CAUSE", "head")


def _line(row: CallRow, opened: OpenedStore, *, wide: bool) -> Line:
    commit = SessionView(opened.store.as_read, row.session).commit(f"@{row.seq}")
    line = Line().add(short(row.call), "id", width=11).add(f"@{row.seq}", "id", width=6).add(" ")
    line.add(stamp(commit.when) if wide else clock(commit.when), "dim").add(
        f" t{row.turn}", "dim", width=5
    )
    line.add(" ").status(row.status, width=10).extend(intent(commit))
    line.add(f" — {row.cause}" if row.cause else "")
    return line.add(f"  {opened.names()[row.session]}" if wide else "", "dim")


def _as_json(row: CallRow) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(row)
    return {**plain, "outcome": row.outcome or None}
