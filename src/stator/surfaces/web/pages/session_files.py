"""The files that one session changed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stator.runtime.views.browse import records as reading
from stator.surfaces.cli.render.turns.subject import base_of, relative
from stator.surfaces.web.page import render
from stator.surfaces.web.pages.session import reader, session_id


def page(request: Request) -> Response:
    """The files of a session, last changed first, each with the turn that changed it."""
    found = reading.files(reader(request), session_id(request))
    base = base_of(change.path for change in found.files)
    files = [(change, relative(change.path, base)) for change in found.files]
    return render(
        request, "session_files.html", tab="sessions", head=found.head, files=files, base=base,
        is_cut=found.is_cut,
    )  # fmt: skip


ROUTES = (Route("/s/{session}/files", page),)
