"""Over streamable HTTP: any number of clients of this machine, on loopback and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp.server.lowlevel import Server

from stator.surfaces import loopback
from stator.surfaces.mcp.transport.auth import Guard

PATH = "/mcp"
HEADERS_MAX = 32_768
"""Bytes of a request's head."""


def serve(
    server: Server[Any], *, port: int, token: str | None, ready: Callable[[str], None]
) -> None:
    """Serve until interrupted. `ready` is told the address."""
    with loopback.bind(port) as listener:
        bound = loopback.port_of(listener)
        app = Guard(server.streamable_http_app(streamable_http_path=PATH), port=bound, token=token)
        loopback.run(
            app,
            listener,
            lambda: ready(f"http://{loopback.HOST}:{bound}{PATH}"),
            h11_max_incomplete_event_size=HEADERS_MAX,
        )
