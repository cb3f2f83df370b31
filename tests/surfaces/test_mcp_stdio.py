"""Tests the MCP server over stdio: the real program with the SDK's client, raw lines, and SIGKILL."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

import stator
from stator.surfaces.mcp.transport import stdio
from stator.surfaces.mcp.transport.long_request import LongRequest
from surfaces.agents import ERAS, PROGRAM, Agent, message, next_uri, over_stdio, started

pytestmark = pytest.mark.anyio
OVER = stdio.LINE_MAX + 1


@pytest.fixture
def path(tmp_path):
    return tmp_path / "agent.db"


@pytest.fixture
def server(path):
    """The program, with both ends of its wire in our hands."""
    process = started(path)
    yield process
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def ask(process, line: bytes):
    """Send a line; the answer to it."""
    process.stdin.write(line)
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def tool(name: str, number=1, **arguments):
    return message("tools/call", number, name=name, arguments=arguments)


@pytest.mark.parametrize("era", ERAS)
async def test_the_sdk_client_calls_every_tool_end_to_end(path, era):
    async with over_stdio(path, era=era) as client:
        agent = Agent(client)
        handle = await agent.begin()
        items = [{"kind": "decision", "what": "use JWT", "topic": "auth", "why": "stateless"}]
        await agent.call("stator_record", session=handle, items=items)
        assert (await agent.call("stator_log", session=handle))["rows"][0]["kind"] == "decision"
        assert (await agent.call("stator_diff", session=handle))["changes"]
        assert (
            "use JWT"
            in (await agent.call("stator_recall", session=handle, key="decision:auth"))["content"]
        )
        assert (await agent.call("stator_settle", session=handle))["in_doubt"] == []
        assert (await agent.call("stator_open", action="list"))["sessions"][0]["session"] == handle
        assert (await agent.read(f"session://{handle}/head"))["seq"] == 3
        assert (await client.get_prompt("resume")).messages


async def test_two_servers_on_one_store_see_each_other_at_once(path):
    async with over_stdio(path) as one, over_stdio(path) as two:
        a, b = Agent(one), Agent(two)
        handle = await a.begin()
        async with two.listen(resource_subscriptions=[f"session://{handle}/head"]) as heard:

            async def fill(agent, name):
                for n in range(10):
                    items = [{"kind": "fact", "name": f"{name}{n}", "value": n}]
                    await agent.call("stator_record", session=handle, items=items)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(fill, a, "a")
                tasks.start_soon(fill, b, "b")
            assert await next_uri(heard) == f"session://{handle}/head"
        assert (await b.call("stator_open", session=handle))["head"]["seq"] == 22
    with stator.connect(path) as store:
        assert len(store.read(handle).facts()) == 20


@pytest.mark.parametrize(
    ("line", "code", "number"),
    [
        (b"{nonsense\n", types.PARSE_ERROR, None),
        (b"\xef\xbb\xbf" + message("ping"), types.PARSE_ERROR, None),
        (message("ping").strip() + message("ping"), types.PARSE_ERROR, None),
        (b"\xff\xfe\n", types.PARSE_ERROR, None),
        (b"[" * 100_000 + b"\n", types.PARSE_ERROR, None),
        (b"[]\n", types.INVALID_REQUEST, None),
        (b"[" + message("ping").strip() + b"]\n", types.INVALID_REQUEST, None),
        (b"null\n", types.INVALID_REQUEST, None),
        (b'{"id": 7}\n', types.INVALID_REQUEST, 7),
        (message("ping", None), types.INVALID_REQUEST, None),
        (message("ping", 1.5), types.INVALID_REQUEST, None),
        (message("ping", True), types.INVALID_REQUEST, None),
        (b"x" * OVER + b"\n", types.INVALID_REQUEST, None),
        (b'{"id": "\\ud800"}\n', types.INVALID_REQUEST, None),
        ('{"id": "é"}\n'.encode(), types.INVALID_REQUEST, "é"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else str(value),
)
def test_a_line_that_is_not_a_message_is_answered_with_an_error(line, code, number):
    reading, writing = os.pipe()
    feeding = threading.Thread(target=_feed, args=(writing, line))
    feeding.start()
    (found,) = stdio.read_lines(reading)
    feeding.join()
    os.close(reading)
    answer = stdio.parse(found)
    assert isinstance(answer, types.JSONRPCError)
    assert (answer.error.code, answer.id) == (code, number)


MANY = 200_000
"""Bytes of a part that is read in several chunks; whether a line is too long is decided before."""
LONG = b'"' + b"x" * MANY + b'"'
LONG_REQUESTS = {
    "id first": (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":%b}}' % LONG, 7),
    "id last": (b'{"jsonrpc":"2.0","method":"m","params":{"a":%b,"id":1},"id":8}' % LONG, 8),
    "id between": (
        b'{ "params" : [%b] , "id" : "a\\"b" , "method":"m","x":%b}' % (LONG, LONG),
        'a"b',
    ),
    "id of the arguments": (b'{"id":9,"method":"m","params":{"a":%b,"id":1}}' % LONG, 9),
    "id in a text": (
        b'{"id":9,"method":"m","a":"\\"id\\":1,","b":%b,"c":"},\\"id\\":2"}' % LONG,
        9,
    ),
    "id after an escaped end": (b'{"a":"\\\\","b":%b,"id":4,"method":"m"}' % LONG, 4),
    "only escapes": (b'{"a":"%b","id":4,"method":"m"}' % (b"\\\\" * MANY), 4),
    "deep nesting": (b'{"a":%b%b,"id":4,"method":"m"}' % (b"[" * MANY, b"]" * MANY), 4),
    "a notification": (b'{"method":"m","params":{"id":1,"a":%b}}' % LONG, None),
    "a response": (b'{"id":5,"result":{"method":"m","a":%b}}' % LONG, None),
    "an id that is none": (b'{"id":1.5,"method":"m","a":%b}' % LONG, None),
    "a boolean id": (b'{"id":true,"method":"m","a":%b}' % LONG, None),
    "an object as id": (b'{"id":{"id":1},"method":"m","a":%b}' % LONG, None),
    "a surrogate as id": (b'{"id":"\\ud800","method":"m","a":%b}' % LONG, None),
    "an id too long to repeat": (b'{"id":%b,"method":"m"}' % LONG, None),
    "cut off": (b'{"id":3,"method":"m","params":{"a":%b' % LONG, 3),
}


@pytest.mark.parametrize("size", [1013, 65_536, 10**9])
@pytest.mark.parametrize(("line", "number"), LONG_REQUESTS.values(), ids=LONG_REQUESTS)
def test_a_request_that_is_too_long_is_answered_under_its_own_id(line, number, size):
    long = LongRequest()
    for start in range(0, len(line), size):
        long.feed(line[start : start + size])
    answer = stdio.parse(long)
    assert isinstance(answer, types.JSONRPCError)
    assert (answer.error.code, answer.id) == (types.INVALID_REQUEST, number)


async def test_the_sdk_client_gets_an_error_for_a_long_request_and_can_continue(path):
    async with over_stdio(path) as client:
        agent = Agent(client)
        with pytest.raises(MCPError) as caught:
            await agent.call("stator_open", purpose="x" * 5_000_000)
        assert "at most 4,194,304 bytes" in str(caught.value)
        assert await agent.begin()


def _feed(writing: int, data: bytes) -> None:
    with os.fdopen(writing, "wb") as file:
        file.write(data)


@pytest.mark.parametrize("size", [1, 7, 65_536])
def test_lines_are_whole_however_the_bytes_are_split(size):
    reading, writing = os.pipe()
    sent = [b'{"a":1}', b"x" * 100_000, b"", b"last"]
    data = b"\n".join(sent)

    def feed():
        for start in range(0, len(data), size):
            os.write(writing, data[start : start + size])
        os.close(writing)

    feeding = threading.Thread(target=feed)
    feeding.start()
    assert list(stdio.read_lines(reading)) == [line for line in sent if line]
    feeding.join()
    os.close(reading)


def test_the_server_survives_invalid_input(server):
    for line in (b"{\n", b"[]\n", b"x" * OVER + b"\n", b"\xef\xbb\xbf{}\n", message("ping", None)):
        assert ask(server, line)["error"]["code"] in (types.PARSE_ERROR, types.INVALID_REQUEST)
    listed = ask(server, message("tools/list", "a"))
    assert listed["id"] == "a"
    assert len(listed["result"]["tools"]) == 8
    assert ask(server, message("no/such", 2))["error"]["code"] == types.METHOD_NOT_FOUND
    assert ask(server, message("tools/call", 3))["error"]["code"] == types.INVALID_PARAMS
    stale = message("tools/list", 4).replace(b"2026-07-28", b"2019-01-01")
    error = ask(server, stale)["error"]
    assert "2026-07-28" in json.dumps(error["data"])
    initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    late = {"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": initialize}
    assert "2026-07-28" in json.dumps(ask(server, json.dumps(late).encode() + b"\n")["error"])
    # Two requests of one id: each is answered, and the server goes on.
    server.stdin.write(message("tools/list", 6) * 2)
    server.stdin.flush()
    assert [json.loads(server.stdout.readline())["id"] for _ in range(2)] == [6, 6]
    assert "result" in ask(server, message("tools/list", 7))


def test_a_tool_before_initialize_is_refused(server):
    call = {"name": "sessions", "arguments": {}}
    line = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    assert "error" in ask(server, json.dumps(line).encode() + b"\n")


def test_the_server_answers_open_requests_after_its_input_ends(server, path):
    handle = ask(server, tool("stator_open", purpose="x"))["result"]["structuredContent"]["session"]
    items = [{"kind": "fact", "name": f"f{n}", "value": n} for n in range(20)]
    asked = [tool("stator_record", n, session=handle, items=items) for n in range(2, 12)]
    out, err = server.communicate(b"".join(asked))
    assert server.returncode == 0, err
    assert sorted(json.loads(line)["id"] for line in out.splitlines()) == list(range(2, 12))
    assert err == b""
    with stator.connect(path) as store:
        assert store.read(handle).head.seq == 2 + 200


def test_the_server_ends_cleanly_when_its_client_leaves(server):
    server.stdout.close()
    server.stdin.write(message("tools/list"))
    server.stdin.close()
    assert server.wait(timeout=60) == 0


def test_a_kill_loses_nothing_that_was_acknowledged(path):
    process: Any = started(path)
    handle = ask(process, tool("stator_open", purpose="x"))["result"]["structuredContent"][
        "session"
    ]
    for n in range(20):
        items = [{"kind": "dead_end", "what": f"{n}"}]
        process.stdin.write(tool("stator_record", n, session=handle, items=items))
    process.stdin.flush()
    acknowledged = ["result" in json.loads(process.stdout.readline()) for _ in range(5)]
    process.send_signal(signal.SIGKILL)
    rest = process.communicate()[0]
    acknowledged += [b'"result"' in line for line in rest.splitlines()]
    again = started(path)
    opened = ask(again, tool("stator_open", session=handle))["result"]["structuredContent"]
    again.communicate()
    assert again.returncode == 0
    assert opened["head"]["seq"] >= 2 + sum(acknowledged)


def test_the_server_ends_at_once_when_standard_input_is_closed(path):
    command = " ".join(PROGRAM) + f" --store {path} <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=60, check=False)
    assert done.returncode in (0, 2)
    assert b"Traceback" not in done.stderr
