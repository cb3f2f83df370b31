"""`stator mcp`: serves sessions to an agent over the Model Context Protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.connect import connect
from stator.errors import InvalidInput
from stator.surfaces.cli.exits import write_stderr
from stator.surfaces.cli.parts.foreign import warn_if_foreign
from stator.surfaces.cli.render import wire

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        EverywhereFlag,
        JsonFlag,
        NoPagerFlag,
        PortOption,
        StoreOption,
    )
    from stator.surfaces.mcp.scope import Scope

EXAMPLES = """
stator mcp                         over stdio; the agent starts this command
stator mcp --http                  over HTTP, for clients on this machine
stator mcp --http --port 0         on a free port; prints the address to stderr
"""
PORT = 8717


def mcp(
    *,
    http: bool = False,
    port: PortOption = PORT,
    no_token: bool = False,
    everywhere: EverywhereFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Serve sessions to an agent over MCP.

    The agent can open sessions, record in them, query them and continue them. It sees the sessions of this
    project. It cannot approve, erase or export anything.

    Parameters
    ----------
    http
        Speak streamable HTTP on loopback instead of stdio.
    no_token
        Accept every client that can reach the port; by default clients need the token stored beside the store.
    """
    if no_token and not http:
        raise InvalidInput("stdio has no token", hint="--no-token needs --http")
    try:
        import jsonschema_rs  # noqa: F401
        import mcp as sdk  # noqa: F401
    except ImportError:
        raise InvalidInput(
            "the MCP server needs mcp and jsonschema_rs", hint="pip install 'stator[mcp]'"
        ) from None
    from stator.surfaces.mcp.scope import Scope
    from stator.surfaces.mcp.server import build

    with connect(store) as opened:
        warn_if_foreign(opened)
        scope = Scope(opened, None if everywhere else opened.context.project)
        if http:
            _over_http(scope, port, no_token, json)
        else:
            from stator.surfaces.mcp.transport.stdio import serve

            serve(build(scope))
    return 0


def _over_http(scope: Scope, port: int, no_token: bool, json: bool) -> None:
    from stator.surfaces.mcp.server import build
    from stator.surfaces.mcp.transport import auth
    from stator.surfaces.mcp.transport.http import serve

    url = scope.store.info().url.removeprefix("sqlite:///")
    kept = getattr(
        scope.store.port, "index_path", ""
    )  # what this machine keeps of a store on a server
    file = "" if no_token else kept + auth.SUFFIX if kept else auth.token_file(url)
    token = auth.read_or_create_token(file) if file else None

    def ready(address: str) -> None:
        if json:
            found = {"schema": "stator.mcp/1", "address": address, "token_file": file or None}
            write_stderr(wire.dumps(found))
        else:
            write_stderr(
                f"serving {address}; " + (f"token in {file}" if file else "no token required")
            )

    serve(build(scope), port=port, token=token, ready=ready)
