"""Over streamable HTTP: any number of clients of this machine, on loopback and nowhere else."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server

from stator.errors import InvalidInput
from stator.surfaces.mcp.auth import Guard

HOST = "127.0.0.1"
PATH = "/mcp"
BACKLOG = 128
CONNECTIONS_MAX = 500
"""Connections at once; more are told to come back."""
HEADERS_MAX = 32_768
"""Bytes of a request's head."""
LEAVE_S = 2
"""How long open streams are given when the server stops."""


def serve(
    server: Server[Any], *, port: int, token: str | None, ready: Callable[[str], None]
) -> None:
    """Serve until interrupted. `ready` is told the address."""
    listener = _bind(port)
    with listener:
        bound = int(listener.getsockname()[1])
        app = Guard(server.streamable_http_app(streamable_http_path=PATH), port=bound, token=token)
        config = uvicorn.Config(
            app,
            log_level="error",
            access_log=False,
            server_header=False,
            ws="none",
            lifespan="on",
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=LEAVE_S,
            h11_max_incomplete_event_size=HEADERS_MAX,
        )
        _Announced(config, lambda: ready(f"http://{HOST}:{bound}{PATH}")).run(sockets=[listener])


class _Announced(uvicorn.Server):
    """Says so once it serves, and not before it can be stopped."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def _bind(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
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
