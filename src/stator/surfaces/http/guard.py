"""Checks each request before it reaches a route, and puts the security headers on each response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from stator.surfaces.http.access import Access
from stator.surfaces.loopback import AllowedCallers, header_values

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ENTER = "/enter"
OPEN = (ENTER, "/static/")
"""What a stranger may ask for: the door, and the style of the page that refuses."""
ACTING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    # Not "no-referrer": under that, a browser sends a form of our own page with the origin "null".
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)


class Guard:
    """Refuses wrong hosts, other origins and strangers; `caller` in the scope says who got through."""

    def __init__(
        self, app: App, *, port: int, access: Access, refuse: Callable[[Scope, int, str], App]
    ) -> None:
        """`refuse` makes the response of a refusal, from a status and a sentence."""
        self._app = app
        self._callers = AllowedCallers(port)
        self._access = access
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        app = self._app
        if (refusal := self._refusal(scope)) is not None:
            app = self._refuse(scope, *refusal)
        await app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = scope["headers"]
        if (refusal := self._callers.refusal(headers)) is not None:
            return refusal
        caller = self._access.caller(
            header_values(headers, b"cookie"), header_values(headers, b"authorization")
        )
        scope["caller"] = caller
        if caller is None and not scope["path"].startswith(OPEN):
            return 401, "open the link that `stator web` printed; it works once"
        # A page of another origin can send a form without asking; browsers name their origin with every one.
        acting = scope["method"] in ACTING
        if acting and caller == "browser" and not header_values(headers, b"origin"):
            return 403, "a browser must name its origin to change anything"
        return None


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", []))
            names = {name.lower() for name, _ in given}
            own = [header for header in HEADERS if header[0] not in names]
            if b"cache-control" not in names:
                own.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*given, *own]}
        await send(message)

    return sending
