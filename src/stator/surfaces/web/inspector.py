"""Assembles the service and the pages into one application, and serves it on loopback."""

from __future__ import annotations

import contextlib
import gc
import secrets
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from stator.errors import StatorError
from stator.surfaces import loopback
from stator.surfaces.http.access import Access
from stator.surfaces.http.cursors import KEY_BYTES
from stator.surfaces.http.guard import ENTER, App, Guard, Scope
from stator.surfaces.http.openapi import PREFIX
from stator.surfaces.http.problems import refusal, refused, status_of
from stator.surfaces.http.served import Served
from stator.surfaces.http.service import service
from stator.surfaces.web import acts
from stator.surfaces.web.page import render
from stator.surfaces.web.pages import (
    act,
    compare,
    cost,
    files,
    first_steps,
    needs,
    project,
    records,
    search,
    session,
    session_files,
    sessions,
    strip,
)
from stator.surfaces.web.slow_answers import SlowAnswers

PAGES = (
    first_steps,
    needs,
    acts,
    act,
    project,
    search,
    files,
    cost,
    sessions,
    session,
    records,
    session_files,
    strip,
    compare,
)
"""The modules of the pages; each lists its `ROUTES`."""


def application(
    served: Served, access: Access, port: int, slow_answers: SlowAnswers | None = None
) -> App:
    """The whole application, guarded."""
    app = Starlette(
        routes=[
            Route(ENTER, _enter(access)),
            service(secrets.token_bytes(KEY_BYTES)),
            *(route for page in PAGES for route in page.ROUTES),
            Mount("/static", StaticFiles(packages=[("stator.surfaces.web", "static")])),
        ],
        exception_handlers={StatorError: _failed, HTTPException: _refused_page},
    )
    app.state.served = served
    app.state.slow_answers = slow_answers or SlowAnswers()
    return Guard(app, port=port, access=access, refuse=_refuse(app))


class Door:
    """Where a running inspector is, and how to get in."""

    def __init__(self, address: str, access: Access) -> None:
        self.address = address
        self._access = access

    def new_link(self) -> str:
        """A link that works once."""
        return f"{self.address}{ENTER}?link={self._access.new_link()}"

    def new_token(self) -> str:
        """The token for programs; an earlier one works no longer."""
        return self._access.new_token()


def serve(make: Callable[[str], Served], *, port: int, ready: Callable[[Door], None]) -> None:
    """Serve until interrupted; call `ready` once the door is open. `make` is given the address."""
    with loopback.bind(port) as listener:
        bound = loopback.port_of(listener)
        door = Door(f"http://{loopback.HOST}:{bound}", access := Access(bound, secrets.token_bytes))
        app = application(make(door.address), access, bound)
        # What is loaded by now lives as long as the service. A collection that looks at it takes longer than a page.
        gc.collect()
        gc.freeze()
        # Ctrl-C is the way to end it: the server has closed every stream by the time this is raised.
        with contextlib.suppress(KeyboardInterrupt):
            loopback.run(app, listener, lambda: ready(door))


def _enter(access: Access) -> Callable[[Request], Response]:
    def enter(request: Request) -> Response:
        cookie = access.enter(request.query_params.get("link", ""))
        if cookie is None:
            return _message(request, 401, "This link was used already, or never existed.")
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(access.cookie_name, cookie, httponly=True, samesite="strict", path="/")
        return response

    return enter


def _refuse(app: Starlette) -> Callable[[Scope, int, str], App]:
    def refuse(scope: Scope, status: int, text: str) -> App:
        if scope["path"].startswith(f"{PREFIX}/"):
            return refusal(status, text)
        return _message(Request({**scope, "app": app}), status, text)

    return refuse


def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, StatorError)
    return _message(request, status_of(error), error.what, error.hint)


def _refused_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if request.url.path.startswith(f"{PREFIX}/"):  # a path that not even the service takes
        return refused(request, error)
    text = "There is no such page." if error.status_code == 404 else error.detail
    return _message(request, error.status_code, text)


def _message(request: Request, status: int, text: str, hint: str = "") -> Response:
    return render(request, "message.html", status=status, text=text, hint=hint, code=status)
