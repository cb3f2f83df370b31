"""Runs a server on the official SDK for tests: over stdio, or with `http` on a free port, which it prints."""

from __future__ import annotations

import socket
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("things")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: float) -> float:
    """Add two numbers."""
    return a + b


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@server.tool()
async def count(ctx: Context, upto: int) -> list[int]:
    """Count, saying how far it is."""
    for n in range(upto):
        await ctx.report_progress(n, upto)
    return list(range(upto))


@server.resource("thing://{name}")
def thing(name: str) -> str:
    """A thing."""
    return f"the thing {name} — ünïcode"


@server.prompt()
def ask(what: str) -> str:
    """Ask for something."""
    return f"Please: {what}"


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        import uvicorn

        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        uvicorn.Server(config).run(sockets=[listener])
    else:
        server.run(transport="stdio")
