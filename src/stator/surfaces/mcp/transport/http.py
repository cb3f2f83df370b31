"""Serves MCP over streamable HTTP on loopback, to any number of clients of this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp.server.lowlevel import Server

from stator.surfaces import loopback
from stator.surfaces.mcp.transport.auth import TokenGuard

PATH = "/mcp"
HEADERS_MAX = 32_768
"""Maximum number of bytes of a request's headers."""


def serve(
    server: Server[Any], *, port: int, token: str | None, ready: Callable[[str], None]
) -> None:
    """Serve until interrupted; call `ready` with the address."""
    with loopback.bind(port) as listener:
        bound = loopback.port_of(listener)
        app = TokenGuard(
            server.streamable_http_app(streamable_http_path=PATH), port=bound, token=token
        )
        loopback.run(
            app,
            listener,
            lambda: ready(f"http://{loopback.HOST}:{bound}{PATH}"),
            h11_max_incomplete_event_size=HEADERS_MAX,
        )
