"""Who may come in over HTTP: a token in a file that only its owner reads, from this machine, from no web page.

A page in a browser can reach loopback too, under any name that resolves to it; so Host and Origin are
held against what they must be, and the token is asked for even here.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

import anyio

from stator.errors import InvalidInput, NotFound
from stator.surfaces.loopback import AllowedCallers, header_values, is_json

TOKEN_BYTES = 32
TOKEN_LEAST, TOKEN_MOST = 20, 500
SUFFIX = "-mcp-token"
BODY_S = 30.0
"""How long a request may take to arrive."""
TOKEN_NAMES = ("token", "access_token", "bearer", "authorization")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def token_file(store: str) -> str:
    """Where the token of a store is kept: beside it."""
    if not os.path.isfile(store):
        raise NotFound(
            f"no file {store!r:.200} to keep a token beside", hint="--no-token asks for none"
        )
    return store + SUFFIX


def token_in(path: str) -> str:
    """The token in a file; made, and only its owner's to read, if there is none."""
    if not os.path.lexists(path):
        _make(path)
    try:
        source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise InvalidInput(
            f"{path}: {error.strerror}", hint="remove it, and a new one is made"
        ) from None
    try:
        found = os.fstat(source)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise InvalidInput(
                f"{path} is not a file that only you can read", hint=f"chmod 600 {path}"
            )
        token = os.read(source, TOKEN_MOST).strip()
    finally:
        os.close(source)
    if not TOKEN_LEAST <= len(token) < TOKEN_MOST or not token.isascii():
        raise InvalidInput(f"{path} holds no token", hint="remove it, and a new one is made")
    return token.decode()


def _make(path: str) -> None:
    """Whole or not at all, and never over one that somebody else has just made."""
    partial = f"{path}.{secrets.token_hex(8)}"
    try:
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be made: {error.strerror}", hint="--no-token asks for none"
        ) from None
    try:
        os.write(file, secrets.token_urlsafe(TOKEN_BYTES).encode() + b"\n")
        os.fsync(file)
        try:
            os.link(partial, path)
        except FileExistsError:
            return
    finally:
        os.close(file)
        os.unlink(partial)


class Guard:
    """Lets a request through to the server, or says why not."""

    def __init__(self, app: App, *, port: int, token: str | None) -> None:
        self._app = app
        self._token = token
        self._callers = AllowedCallers(port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await _answer(send, *refusal)
            return
        await self._let_in(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """The status and the words with which a request is turned away."""
        headers = scope["headers"]
        refusal = self._callers.refusal(headers)
        if refusal is not None:
            return refusal
        if any(name in parse_qs(scope["query_string"].decode("latin-1")) for name in TOKEN_NAMES):
            return 400, "a token belongs in the Authorization header, never in an address"
        if self._token is not None and not self._knows(header_values(headers, b"authorization")):
            return 401, "a bearer token is needed: stator mcp says where it is kept"
        if scope["method"] == "POST" and not is_json(headers):
            return 415, "a message is application/json"
        return None

    def _knows(self, given: list[str]) -> bool:
        scheme, _, token = (given[0] if len(given) == 1 else "").encode("latin-1").partition(b" ")
        expected = (self._token or "").encode()
        return hmac.compare_digest(token.strip(), expected) and scheme.lower() == b"bearer"

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request that trickles in is given up; once it is here, its answer may take its time."""
        begun = whole = False
        deadline = anyio.current_time() + BODY_S

        async def arriving() -> MutableMapping[str, Any]:
            nonlocal whole
            if whole:
                return await receive()
            with anyio.fail_after(max(0.0, deadline - anyio.current_time())):
                message = await receive()
            whole = not message.get("more_body", False)
            return message

        async def answering(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, arriving, answering)
        except TimeoutError:
            if begun:
                raise
            await _answer(send, 408, "the request did not arrive in time")


async def _answer(send: Send, status: int, text: str) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode() + b"\n"})
