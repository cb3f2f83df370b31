"""`stator proxy`: records the calls between an agent and an MCP server."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from stator.connect import FILE, NEAREST, connect, locate, user_folder
from stator.errors import BadQuery, InvalidInput
from stator.model.values.ids import short
from stator.surfaces.cli.exits import write_stderr
from stator.surfaces.proxy.recorder import ProxyRecorder
from stator.surfaces.proxy.session import choose, clean_name, server_name

if TYPE_CHECKING:
    from stator.runtime.facade.store import Store
    from stator.surfaces.cli.options import (
        Command,
        JsonFlag,
        NoPagerFlag,
        PortOption,
        RunSessionOption,
        StoreOption,
        UpstreamOption,
    )

EXAMPLES = """
stator proxy --name files -- npx -y @modelcontextprotocol/server-filesystem .
stator proxy --session fix-login --name db -- uvx some-server     in this session, created if missing
stator proxy --timeout 60 --timeout-answer -- ./server
stator proxy --http --upstream http://127.0.0.1:3001/mcp          prints its address to stderr
"""
PORT = 8718
SWITCH_S = 0.0005


def proxy(
    *command: Command,
    session: RunSessionOption = None,
    name: str | None = None,
    timeout: float | None = None,
    timeout_answer: bool = False,
    respawn: bool = False,
    http: bool = False,
    port: PortOption = PORT,
    upstream: UpstreamOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Record the calls between an agent and an MCP server.

    Passes every byte on unchanged. Records a call before the server sees it, and its outcome after the agent has
    seen it; a call that is never answered is in doubt. Remembers the tool definitions of the server and flags
    changes. Without --session it uses $STATOR_SESSION, or a new session for each run.

    Parameters
    ----------
    name
        The name of the server; its tools are recorded as mcp__NAME__tool. Default: the name of its program.
    timeout
        Seconds after which a call counts as unanswered. The agent still gets an answer that arrives later.
    timeout_answer
        After the timeout, answer the agent with an error; a later answer is recorded but not passed on.
    respawn
        Restart a server that ended, and resend requests that are read-only or idempotent.
    http
        Speak streamable HTTP on loopback instead of stdio, with a server that does; see --upstream.
    """
    if http != (upstream is not None):
        raise BadQuery(
            "--http and --upstream URL must be used together", hint="stator proxy --help"
        )
    if bool(command) == http:
        raise BadQuery("name one server: a command after --, or --http --upstream URL")
    if timeout is not None and not timeout > 0:
        raise BadQuery(f"--timeout must be more than 0 seconds, got {timeout:g}")
    if timeout_answer and timeout is None:
        raise BadQuery("--timeout-answer needs --timeout")
    if not http and (sys.stdin is None or sys.stdout is None):
        raise BadQuery("the agent uses standard input and output, and one of them is closed")
    # The threads that pass bytes on must not wait for the one that records.
    sys.setswitchinterval(SWITCH_S)
    server = clean_name(name) if name else server_name(command, upstream or "")
    # "barrier" syncs the intent of a write before it is passed on; its outcome need only survive a kill.
    with _recorded_in(store) as opened:
        run = opened.context.mint("run")
        wanted = session or os.environ.get("STATOR_SESSION", "")
        chosen = choose(opened, wanted, server, run)
        if chosen.notice:
            _say(chosen.notice)
        recording = ProxyRecorder(
            opened,
            chosen.open_recorder,
            server=server,
            run=short(run)[2:],
            shared=chosen.shared,
            say=_say,
        )
        try:
            if upstream is not None:
                return _over_http(recording, upstream, port, timeout, timeout_answer, json)
            from stator.surfaces.proxy.stdio import StdioOptions, StdioProxy

            options = StdioOptions(timeout=timeout, timeout_answer=timeout_answer, restart=respawn)
            return StdioProxy(command, recording, options, say=_say).run()
        finally:
            recording.close()
            opened.sync()


def _recorded_in(store: str | None) -> Store:
    """The store to record in. One that was only found and is not this user's own gets nothing: the user's own store
    records instead, because an agent must not lose its connection by that."""
    place = locate(store)
    opened = connect(place, durability="barrier")
    if not opened.port.ownership.foreign or place.why != NEAREST:
        return opened
    _say(f"{place.url} {opened.port.ownership.foreign}; recording in your own store (stator trust)")
    opened.close()
    return connect(user_folder() / FILE, durability="barrier")


def _over_http(
    recording: ProxyRecorder,
    upstream: str,
    port: int,
    timeout: float | None,
    timeout_answer: bool,
    json: bool,
) -> int:
    try:
        import httpx2  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise InvalidInput(
            "a proxy over HTTP needs httpx2 and uvicorn", hint="pip install 'stator[server]'"
        ) from None
    from stator.surfaces.cli.render import wire
    from stator.surfaces.proxy.http import serve

    def ready(address: str) -> None:
        if json:
            write_stderr(wire.dumps({"schema": "stator.proxy/1", "address": address}))
        else:
            _say(f"listening on {address}")

    serve(
        recording,
        upstream,
        port=port,
        timeout=timeout,
        timeout_answer=timeout_answer,
        ready=ready,
        say=_say,
    )
    return 0


def _say(text: str) -> None:
    """Write a remark to stderr. An agent that closed stderr must not lose its connection by that."""
    try:
        write_stderr(f"stator proxy: {text}")
        if sys.stderr is not None:
            sys.stderr.flush()
    except ValueError:
        return
    except OSError:
        # The unwritten rest would be flushed at exit and fail the whole run: send it to /dev/null.
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nowhere, 2)
            os.close(nowhere)
