"""The tool `open`: a session found, or begun, and what whoever goes on in it must know."""

from __future__ import annotations

from typing import Any

from stator.errors import Conflict, NotFound
from stator.model.log.query import SessionRow
from stator.model.values.ids import is_id
from stator.model.views.brief import MAX_TOKENS
from stator.runtime.ingest import self_report
from stator.runtime.window.recall import Evicted
from stator.surfaces.mcp.request_context import (
    Desk,
    Given,
    about,
    doubts_of,
    head_of,
)
from stator.surfaces.mcp.scope import named
from stator.surfaces.mcp.tools.answers import Answer, Whole

EVICTED_SHOWN = 10
"""Evicted keys that are named at once; the tool recall lists them all."""


def open_session(desk: Desk, given: Given) -> Answer:
    row, created = _found(desk, given)
    view = desk.scope.view(row)
    doubts = doubts_of(desk, row)
    evicted = view.evicted()
    line = f"{'created' if created else 'opened'} {named(row)}, {row.shown}; handle {row.id}"
    if doubts:
        line += f"; {len(doubts)} in doubt, settle them first"
    brief = view.brief(max_tokens=given.get("max_tokens", MAX_TOKENS))
    data = {
        **about(row),
        "created": created,
        "head": head_of(view),
        "in_doubt": doubts,
        "evicted": [evicted_row(item) for item in evicted[:EVICTED_SHOWN]],
        "evicted_count": len(evicted),
        "brief": Whole(brief.text),
    }
    return Answer(line, data, moved=created)


def _found(desk: Desk, given: Given) -> tuple[SessionRow, bool]:
    """The session that is meant, and whether it was begun for this."""
    wanted, purpose = given.get("session", ""), given.get("purpose", "")
    if wanted:
        try:
            return desk.scope.find(wanted), False
        except NotFound as error:
            if is_id(wanted, "session"):
                raise  # whoever has a handle means that session, not a new one named like it
            if not purpose:
                raise NotFound(
                    error.what, hint="give a purpose too, to begin one of that name"
                ) from None
    elif not purpose:
        newest = desk.scope.newest()
        if newest is None:
            raise NotFound("there is no session here yet", hint="give a purpose to begin one")
        return newest, False
    row, made = self_report.begin(
        desk.scope.store.port, desk.context(), agent=desk.client, name=wanted, purpose=purpose
    )
    if not desk.scope.shows(row):
        raise Conflict(f"the name {wanted!r:.80} is taken", hint="take another name")
    return row, made


def evicted_row(item: Evicted) -> dict[str, Any]:
    return {"key": item.key, "kind": item.kind, "what": item.what, "status": item.status}
