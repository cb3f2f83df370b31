"""Forms that act: each acts once however often it is sent, and the page after it shows the result.

A form carries an id that was drawn for it. The first sending acts and keeps what to say; every other one of the same
id gets that answer. Answers are kept here and never taken from an address, so that no link can put words in a page.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from threading import Lock
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from stator.errors import Busy, StatorError
from stator.surfaces.http.served import Served, served

ID_BYTES = 12
KEPT = 1000
"""Forms that were sent and are remembered; the oldest is forgotten first."""
BODY_MAX = 64 * 1024
FIELDS_MAX = 50
SAID = "said"
"""The part of an address that names the form whose answer a page shows."""

Fields = Mapping[str, str]


class FormAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a page shows after a form was sent."""

    text: str
    hint: str = ""
    failed: bool = False
    pause: str = ""
    """The session whose driver can be asked to pause, where that was in the way."""
    link: str = ""
    """Where to look at what was done."""
    link_text: str = ""
    back: str = ""
    """Where to continue, instead of at the page that the form names."""


Act = Callable[[Served, Fields], FormAnswer]


class SentForms:
    """The forms that were sent lately, and what was answered."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._locks: dict[str, Lock] = {}
        self._said: dict[str, FormAnswer] = {}

    def once(self, form: str, act: Callable[[], FormAnswer]) -> FormAnswer:
        """What the first sending of a form led to; a second one waits for it and does nothing."""
        with self._lock:
            lock = self._locks.setdefault(form, Lock())
            while len(self._locks) > KEPT:
                oldest = next(iter(self._locks))
                del self._locks[oldest]
                self._said.pop(oldest, None)
        with lock:
            if form not in self._said:
                self._said[form] = act()
            return self._said[form]

    def said(self, form: str) -> FormAnswer | None:
        """What was answered to a form."""
        return self._said.get(form)


@cache
def sent_forms() -> SentForms:
    """The forms of this process."""
    return SentForms()


def new_form() -> str:
    """The id of a form that a page shows."""
    return secrets.token_hex(ID_BYTES)


def said_on(request: Request) -> FormAnswer | None:
    """What the page at this address has to say about a form that was sent."""
    return sent_forms().said(request.query_params.get(SAID, ""))


def acting(act: Act) -> Callable[[Request], Awaitable[Response]]:
    """A route that acts and sends the browser back to a page. Only a person's browser acts: a program that holds the
    token reads."""

    async def route(request: Request) -> Response:
        if request.scope.get("caller") != "browser":
            raise HTTPException(403, "Only a person in a browser can do this; a token reads.")
        fields = await _fields(request)
        form = fields.get("form", "")
        if not form:
            raise HTTPException(
                400, "This form has no id. Open its page again, and send it from there."
            )
        found = served(request)
        said = await run_in_threadpool(
            lambda: sent_forms().once(form, lambda: _done(act, found, fields))
        )
        return RedirectResponse(_back(said.back or fields.get("back", "/"), form), status_code=303)

    return route


def _done(act: Act, found: Served, fields: Fields) -> FormAnswer:
    """Act, and return the answer; a refusal in the words of its error."""
    try:
        return act(found, fields)
    except Busy as error:
        driver = f" ({error.holder.program}, pid {error.holder.pid})" if error.holder else ""
        return FormAnswer(
            text=f"{error.what}{driver}. Nothing was changed.",
            failed=True,
            pause=str(error.ids.get("session", fields.get("session", ""))),
        )
    except StatorError as error:
        return FormAnswer(
            text=f"{error.what[:1].upper()}{error.what[1:]}", hint=error.hint, failed=True
        )


async def _fields(request: Request) -> dict[str, str]:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_MAX:
            raise HTTPException(413, f"A form may hold {BODY_MAX // 1024} KB.")
    try:
        pairs = parse_qsl(
            body.decode("utf-8"), keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict"
        )
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


def _back(address: str, form: str) -> str:
    """The address of a page of this service, with the form whose answer it shows."""
    parts = urlsplit(address)
    path = parts.path if parts.path.startswith("/") and not parts.path.startswith("//") else "/"
    kept = [pair for pair in parse_qsl(parts.query) if pair[0] != SAID]
    return f"{path}?{urlencode([*kept, (SAID, form)])}"
