"""Finds, creates or lists sessions for the tool `stator_open`, and returns what an agent needs to continue one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stator.errors import Conflict, NotFound
from stator.model.brief.compose import MAX_TOKENS
from stator.model.log.query import SessionRow
from stator.model.log.shown_text import cut_short
from stator.model.values.ids import is_id
from stator.runtime.ingest import self_report
from stator.runtime.window.recall import Evicted
from stator.surfaces.cli.render.times import ago
from stator.surfaces.mcp.request_context import (
    Arguments,
    RequestContext,
    head_fields,
    in_doubt_rows,
    session_fields,
    without_empty,
)
from stator.surfaces.mcp.tools.answers import ReadyText, ToolAnswer, fitting, iso_time
from stator.surfaces.mcp.tools.arguments import cursor_text, read_cursor

EVICTED_SHOWN = 10
"""Maximum number of evicted keys in the answer; stator_recall lists them all."""
LIMIT = 20
GOAL_MAX = 200
"""Maximum number of characters of what a listed session is for."""
CHOOSE = (
    "No session was opened. Call stator_open with the handle of one as session to continue it, or with a purpose to "
    "begin."
)


def open_session(request: RequestContext, given: Arguments) -> ToolAnswer:
    """Open the session that is named, or the one for a purpose."""
    row, created = _found(request, given)
    view = request.scope.view(row)
    doubts = in_doubt_rows(request, row)
    evicted = view.evicted()
    verb = "created" if created else "opened"
    whose = whose_session(request, row)
    line = f"{verb} {request.label(row)}, {row.shown}, {whose}; handle {row.id}"
    if doubts:
        line += f"; {len(doubts)} in doubt: settle them first"
    data = {
        **session_fields(row),
        **_name_mark(request, row),
        "agent": row.record.agent,
        "yours": is_own(request, row),
        "created": created,
        "head": head_fields(view),
        "in_doubt": doubts,
        "evicted": evicted_rows(request, row, evicted[:EVICTED_SHOWN]),
        "evicted_count": len(evicted),
    }
    if given.get("brief", True):
        brief = view.brief(max_tokens=given.get("max_tokens", MAX_TOKENS), own=is_own(request, row))
        data["brief"] = ReadyText(brief.text)
    note = "" if data["yours"] else f"This is {whose}: continue it, or fork it to try another way."
    return ToolAnswer(line, data, appended=created, note=note)


def list_sessions(request: RequestContext, given: Arguments, *, ended: bool) -> ToolAnswer:
    """List sessions to choose from, and open none."""
    limit = given.get("limit", LIMIT)
    place = read_cursor(given, 2)
    page = request.scope.listed(place, limit, ended=ended)
    rows = [listed_row(request, row) for row in page.rows]
    if (fits := fitting(rows)) < len(rows):
        page = request.scope.listed(place, fits, ended=ended)
        rows = [listed_row(request, row) for row in page.rows]
    kind = "sessions" if ended else "open sessions"
    line = f"{len(rows)} {kind}{'; there are more' if page.cursor else ''}; none was opened"
    note = CHOOSE if rows else "There is no session yet: call stator_open with a purpose."
    return ToolAnswer(line, {"sessions": rows, "more": cursor_text(page.cursor)}, note=note)


def _found(request: RequestContext, given: Arguments) -> tuple[SessionRow, bool]:
    """Return the session, and whether it was created now."""
    wanted, purpose = given.get("session", ""), given.get("purpose", "")
    if not wanted:
        context = request.context()
        return self_report.begin_for(
            request.scope.store.port,
            context,
            agent=request.client,
            purpose=purpose,
            is_visible=request.scope.is_visible,
        )
    try:
        return request.scope.find(wanted), False
    except NotFound as error:
        if is_id(wanted, "session"):
            raise  # a handle means that session, never a new one with the handle as its name
        if not purpose:
            raise NotFound(
                error.what,
                hint="give a purpose too, to create a session with this name; stator_open without arguments lists"
                " sessions",
            ) from None
    row, made = self_report.begin(
        request.scope.store.port,
        request.context(),
        agent=request.client,
        name=wanted,
        purpose=purpose,
    )
    if not request.scope.is_visible(row):
        raise Conflict(f"the name {wanted!r:.80} is taken", hint="choose another name")
    return row, made


def is_own(request: RequestContext, row: SessionRow) -> bool:
    """Whether this agent began the session by reporting to it."""
    return self_report.begun_by(request.scope.store.port, row) == request.principal


def whose_session(request: RequestContext, row: SessionRow) -> str:
    """Whose session it is, in words."""
    if is_own(request, row):
        return "your session"
    agent = row.record.agent
    return f"a session of {agent}" if agent else "a session that a program or a person began"


def session_row(row: SessionRow) -> dict[str, Any]:
    parent = row.record.parent
    return without_empty(
        **session_fields(row),
        agent=row.record.agent,
        mode=row.record.mode,
        turns=row.turns,
        seq=row.head,
        updated=iso_time(row.updated),
        parent=parent.session if parent is not None else "",
        kind=parent.kind if parent is not None else "",
    )


def listed_row(request: RequestContext, row: SessionRow) -> dict[str, Any]:
    """Return a session as a model chooses it: whose it is, how old, and what it is for."""
    store = request.scope.store
    goal = self_report.asked_in(store.as_read, row.id, 1)
    return {
        **session_row(row),
        **without_empty(
            yours=is_own(request, row) or None,
            used=ago(row.updated, store.context.clock()),
            goal=cut_short(" ".join(goal.split()), GOAL_MAX),
        ),
        **_name_mark(request, row),
    }


def _name_mark(request: RequestContext, row: SessionRow) -> dict[str, Any]:
    """Return from where the name of a session and what it is for came, if nobody vouches for that."""
    origin = request.name_origin(row.id)
    return {"unverified": f"its name, from {origin}"} if origin else {}


def evicted_rows(
    request: RequestContext, row: SessionRow, items: Sequence[Evicted]
) -> list[dict[str, Any]]:
    """Return keys that left the view, each with from where, if it rests on something that nobody vouches for."""
    found = [
        {
            "key": request.key(row, item.key),
            "kind": item.kind,
            "what": item.what,
            "status": item.status,
            "seq": item.seq,
        }
        for item in items
    ]
    marked = request.marked(row.id, found)
    return [{name: value for name, value in one.items() if name != "seq"} for one in marked]
