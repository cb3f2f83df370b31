"""Accepts HTTP requests from this machine that carry the token from a file only its owner can read.

A web page can reach loopback under any name that resolves to it, so Host and Origin must match, and the token
is required even on loopback.
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
TOKEN_MIN, TOKEN_MAX = 20, 500
SUFFIX = "-mcp-token"
BODY_S = 30.0
"""How long the body of a request may take to arrive."""
TOKEN_NAMES = ("token", "access_token", "bearer", "authorization")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def token_file(store: str) -> str:
    """Return the path of a store's token file, which is beside the store."""
    if not os.path.isfile(store):
        raise NotFound(
            f"no file {store!r:.200} to store a token next to",
            hint="--no-token serves without a token",
        )
    return store + SUFFIX


def read_or_create_token(path: str) -> str:
    """Return the token in a file; a missing file is created, readable only by its owner."""
    if not os.path.lexists(path):
        _create(path)
    try:
        source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise InvalidInput(
            f"{path}: {error.strerror}", hint="delete it; the next start creates a new token"
        ) from None
    try:
        found = os.fstat(source)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise InvalidInput(
                f"{path} is not a file that only you can read", hint=f"chmod 600 {path}"
            )
        token = os.read(source, TOKEN_MAX).strip()
    finally:
        os.close(source)
    if not TOKEN_MIN <= len(token) < TOKEN_MAX or not token.isascii():
        raise InvalidInput(
            f"{path} holds no token", hint="delete it; the next start creates a new token"
        )
    return token.decode()


def _create(path: str) -> None:
    """Create a token file atomically; never replace one that another process has just created."""
    partial = f"{path}.{secrets.token_hex(8)}"
    try:
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidInput(
            f"cannot create {path}: {error.strerror}", hint="--no-token serves without a token"
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


class TokenGuard:
    """Passes a request on to the server, or refuses it."""

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
        await self._forward(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return the status and text of a refusal; None if the request is accepted."""
        headers = scope["headers"]
        refusal = self._callers.refusal(headers)
        if refusal is not None:
            return refusal
        if any(name in parse_qs(scope["query_string"].decode("latin-1")) for name in TOKEN_NAMES):
            return 400, "a token belongs in the Authorization header, never in an address"
        if self._token is not None and not self._knows(header_values(headers, b"authorization")):
            return (
                401,
                "a bearer token is required; stator mcp --http prints the file that holds it",
            )
        if scope["method"] == "POST" and not is_json(headers):
            return 415, "Content-Type must be application/json"
        return None

    def _knows(self, given: list[str]) -> bool:
        scheme, _, token = (given[0] if len(given) == 1 else "").encode("latin-1").partition(b" ")
        expected = (self._token or "").encode()
        return hmac.compare_digest(token.strip(), expected) and scheme.lower() == b"bearer"

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on. Its body must arrive in time; its response may take as long as it needs."""
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

        async def handlers(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, arriving, handlers)
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
