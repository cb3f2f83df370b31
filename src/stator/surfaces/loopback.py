"""What our servers over HTTP have in common: they listen on loopback and nowhere else, and to no web page.

A page in a browser can reach loopback too, under any name that resolves to it: so Host and Origin are
held against what they must be.
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
"""Connections at once; more are told to come back."""
LEAVE_S = 2
"""How long open streams are given when the server stops."""


def bind(port: int) -> socket.socket:
    """A socket that listens; 0 is any port that is free."""
    # said to be TCP, so that asyncio knows it and lets no small write wait for the one before
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
    """Serve until interrupted. `ready` is called once that is so, and not before it can be stopped."""
    import uvicorn

    class Announced(uvicorn.Server):
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
    Announced(config).run(sockets=[listener])


class AllowedCallers:
    """Who may speak to a port: programs that call it by its own name, and pages it served itself."""

    def __init__(self, port: int) -> None:
        self._hosts = [[f"{name}:{port}"] for name in NAMES]
        self._origins = [[], *([f"http://{name}:{port}"] for name in NAMES)]

    def refusal(self, headers: Headers) -> tuple[int, str] | None:
        """The status and the words with which a request is turned away; None: it is let in."""
        if header_values(headers, b"host") not in self._hosts:
            return 421, "it answers to its own loopback address only"
        if header_values(headers, b"origin") not in self._origins:
            return 403, "not from this origin"
        return None


def is_json(headers: Headers) -> bool:
    """Whether a body is said to be JSON: no page can send that elsewhere without asking first."""
    kind = ",".join(header_values(headers, b"content-type")).partition(";")[0].strip().lower()
    return kind == "application/json"


def header_values(headers: Headers, name: bytes) -> list[str]:
    """What a request says under that name."""
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]
