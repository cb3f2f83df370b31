"""The line under the bar: that samples are shown and what to do, or how far the first import is."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stator.surfaces.web.page import render


def first_steps(request: Request) -> Response:
    """The line alone; the page asks for it again until the import has ended."""
    return render(request, "first_steps.html")


ROUTES = (Route("/first-steps", first_steps),)
