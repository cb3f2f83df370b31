"""Serves ASGI applications on loopback only, and refuses requests from web pages of other origins.

A web page can reach loopback under any name that resolves to it (DNS rebinding), so Host and Origin must
match the address of the server.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from stator.errors import InvalidInput

Headers = list[tuple[bytes, bytes]]

HOST = "127.0.0.1"
NAMES = ("127.0.0.1", "localhost", "[::1]")
BACKLOG = 128
CONNECTIONS_MAX = 500
"""Maximum number of connections at once; further ones are answered with 503."""
LEAVE_S = 2
"""How long open streams may take to end when the server stops."""


def bind(port: int) -> socket.socket:
    """Return a listening socket; port 0 takes any free port."""
    # name TCP explicitly: only then does asyncio set TCP_NODELAY, so that small writes do not wait
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        raise InvalidInput(
            f"cannot listen on {HOST}:{port}: {error}", hint="choose another --port, 0 for any"
        ) from None
    return listener


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def run(app: Any, listener: socket.socket, ready: Callable[[], None], **more: Any) -> None:
    """Serve until interrupted; call `ready` once the server accepts connections and signals."""
    import uvicorn

    class AnnouncedServer(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=LEAVE_S,
        **more,
    )
    AnnouncedServer(config).run(sockets=[listener])


class AllowedCallers:
    """Accepts programs that use the server's own address as Host, and pages of its own origin."""

    def __init__(self, port: int) -> None:
        self._hosts = [[f"{name}:{port}"] for name in NAMES]
        self._origins = [[], *([f"http://{name}:{port}"] for name in NAMES)]

    def refusal(self, headers: Headers) -> tuple[int, str] | None:
        """Return the status and text of a refusal; None if the request is accepted."""
        if header_values(headers, b"host") not in self._hosts:
            return 421, "wrong Host header: this server answers only under its own loopback address"
        if header_values(headers, b"origin") not in self._origins:
            return 403, "requests from this Origin are refused"
        return None


def is_json(headers: Headers) -> bool:
    """Whether the content type is JSON: a page of another origin cannot send that without a CORS preflight."""
    kind = ",".join(header_values(headers, b"content-type")).partition(";")[0].strip().lower()
    return kind == "application/json"


def header_values(headers: Headers, name: bytes) -> list[str]:
    """Return all values of a header."""
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]
