"""`stator proxy`: stand between an agent and an MCP server, and record its calls."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from stator.connect import connect
from stator.errors import BadQuery, InvalidInput
from stator.model.values.ids import short
from stator.surfaces.cli.exits import say
from stator.surfaces.proxy.recorder import ProxyRecorder
from stator.surfaces.proxy.session import choose, clean_name, server_name

if TYPE_CHECKING:
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
stator proxy --session fix-login --name db -- uvx some-server     in a session there is, or is to be
stator proxy --timeout 60 --timeout-answer -- ./server
stator proxy --http --upstream http://127.0.0.1:3001/mcp          the address to use is said on stderr
"""
PORT = 8718
SWITCH_S = 0.0005


def proxy(
    *command: Command,
    session: RunSessionOption = None,
    name: str | None = None,
    timeout: float | None = None,
    timeout_answer: bool = False,
    restart: bool = False,
    http: bool = False,
    port: PortOption = PORT,
    upstream: UpstreamOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Stand between an agent and an MCP server, and record its calls.

    Every byte is passed on as it came. The intent of a call is on disk before the server sees it, its
    outcome after the agent does; a call that nobody answers is in doubt. What a server says its tools are
    is pinned, and a change of it is flagged. Without --session it is the one $STATOR_SESSION says, else
    one of its own for each run.

    Parameters
    ----------
    name
        What the server is called: its tools are recorded as mcp__NAME__tool. Default: after its program.
    timeout
        Seconds after which a call counts as unanswered. The agent is told nothing, and still gets an
        answer that comes later.
    timeout_answer
        Answer the agent with an error then; a later answer is recorded and not passed on.
    restart
        Start a server that ended again, and send it once more what only reads or does no harm twice.
    http
        In front of a server that is spoken to over streamable HTTP; on loopback only.
    """
    if http != (upstream is not None):
        raise BadQuery("--http and --upstream URL go together", hint="stator proxy --help")
    if bool(command) == http:
        raise BadQuery("name one server: a command after --, or --http --upstream URL")
    if timeout is not None and not timeout > 0:
        raise BadQuery(f"a timeout is more than 0 seconds, got {timeout:g}")
    if timeout_answer and timeout is None:
        raise BadQuery("--timeout-answer goes with --timeout")
    if not http and (sys.stdin is None or sys.stdout is None):
        raise BadQuery("the agent speaks over standard input and output, and one of them is closed")
    # a thread that passes something on must not wait for the one that records
    sys.setswitchinterval(SWITCH_S)
    server = clean_name(name) if name else server_name(command, upstream or "")
    # an intent that writes is synced before it is passed on; its outcome need only survive a kill
    with connect(store, durability="barrier") as opened:
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

            options = StdioOptions(timeout=timeout, timeout_answer=timeout_answer, restart=restart)
            return StdioProxy(command, recording, options, say=_say).run()
        finally:
            recording.close()
            opened.sync()


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
            said = {"schema": "stator.proxy/1", "address": address}
            say(wire.dumps(said))
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
    """One line beside the protocol. An agent that does not listen to it must lose nothing by that."""
    try:
        say(f"stator proxy: {text}")
        if sys.stderr is not None:
            sys.stderr.flush()
    except ValueError:
        return
    except OSError:
        # what is left of it would be written once more at the end, and fail the whole run
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nowhere, 2)
            os.close(nowhere)
