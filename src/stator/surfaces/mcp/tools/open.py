"""Implements the tool `open`: finds or creates a session and returns what an agent needs to continue it."""

from __future__ import annotations

from typing import Any

from stator.errors import Conflict, NotFound
from stator.model.brief.compose import MAX_TOKENS
from stator.model.log.query import SessionRow
from stator.model.values.ids import is_id
from stator.runtime.ingest import self_report
from stator.runtime.window.recall import Evicted
from stator.surfaces.mcp.request_context import (
    Arguments,
    RequestContext,
    head_fields,
    in_doubt_rows,
    session_fields,
)
from stator.surfaces.mcp.scope import session_label
from stator.surfaces.mcp.tools.answers import ReadyText, ToolAnswer

EVICTED_SHOWN = 10
"""Maximum number of evicted keys in the answer; the recall tool lists them all."""


def open_session(request: RequestContext, given: Arguments) -> ToolAnswer:
    row, created = _found(request, given)
    view = request.scope.view(row)
    doubts = in_doubt_rows(request, row)
    evicted = view.evicted()
    line = (
        f"{'created' if created else 'opened'} {session_label(row)}, {row.shown}; handle {row.id}"
    )
    if doubts:
        line += f"; {len(doubts)} in doubt, settle them first"
    brief = view.brief(max_tokens=given.get("max_tokens", MAX_TOKENS))
    data = {
        **session_fields(row),
        "created": created,
        "head": head_fields(view),
        "in_doubt": doubts,
        "evicted": [evicted_row(item) for item in evicted[:EVICTED_SHOWN]],
        "evicted_count": len(evicted),
        "brief": ReadyText(brief.text),
    }
    return ToolAnswer(line, data, appended=created)


def _found(request: RequestContext, given: Arguments) -> tuple[SessionRow, bool]:
    """Return the session, and whether it was created now."""
    wanted, purpose = given.get("session", ""), given.get("purpose", "")
    if wanted:
        try:
            return request.scope.find(wanted), False
        except NotFound as error:
            if is_id(wanted, "session"):
                raise  # a handle means that session, never a new one with the handle as its name
            if not purpose:
                raise NotFound(
                    error.what, hint="give a purpose too, to create a session with this name"
                ) from None
    elif not purpose:
        newest = request.scope.newest()
        if newest is None:
            raise NotFound("this project has no session yet", hint="give a purpose to create one")
        return newest, False
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


def evicted_row(item: Evicted) -> dict[str, Any]:
    return {"key": item.key, "kind": item.kind, "what": item.what, "status": item.status}
