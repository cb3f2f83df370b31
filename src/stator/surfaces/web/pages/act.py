"""The page from which a person acts on one session, and the dry run of a rewind."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stator.runtime.branches import rewind as rewinding
from stator.surfaces.cli.render.detail import turns_shown
from stator.surfaces.http.served import served
from stator.surfaces.web.page import render

EFFECTS_MAX = 50
"""Calls that a rewind does not undo, and that its dry run lists."""


def act(request: Request) -> Response:
    """The forms for one session; `at` and `on` fill in where they are about."""
    view = served(request).store.read(request.path_params["session"])
    return render(
        request,
        "act.html",
        tab="sessions",
        row=view.row,
        tags=[entry.key for entry in view.entries("tags")][:EFFECTS_MAX],
        at=request.query_params.get("at", ""),
        on=request.query_params.get("on", ""),
    )


def rewind(request: Request) -> Response:
    """What a rewind would do, before it is done."""
    store = served(request).store
    view = store.read(request.path_params["session"])
    row = view.row
    rewinding.refuse_recorded(row.record)
    found = rewinding.foresee(store.port, view.id, request.query_params.get("to", ""))
    return render(
        request,
        "rewind.html",
        tab="sessions",
        row=row,
        found=found,
        turns=turns_shown(found.turns) if found.turns else "",
        again=turns_shown(found.again) if found.again else "",
        effects=found.effects[-EFFECTS_MAX:],
        more=max(0, len(found.effects) - EFFECTS_MAX),
    )


ROUTES = (Route("/s/{session}/act", act), Route("/s/{session}/rewind", rewind))
