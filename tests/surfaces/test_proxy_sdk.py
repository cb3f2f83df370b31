"""Tests that the SDK's client sees the same server with and without the proxy, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

import stator
from surfaces.test_proxy_http import Front

SERVER = [sys.executable, str(Path(__file__).parent / "servers" / "sdk.py")]
ERAS = ["legacy", "2026-07-28"]


async def asked(transport, era):
    """Return what a client learns from a server."""
    progress = []

    async def heard(done, total, message):
        progress.append((done, total, message))

    async with Client(transport, mode=era) as client:
        tools = await client.list_tools()
        answers = [
            await client.call_tool("add", {"a": 1, "b": 2.5}),
            await client.call_tool("fail", {"why": "no reason"}),
            await client.call_tool("add", {"a": "x"}),
            await client.call_tool("count", {"upto": 3}, progress_callback=heard),
            await client.read_resource("thing://a"),
            await client.list_resource_templates(),
            await client.get_prompt("ask", {"what": "that"}),
        ]
        version = client.protocol_version
    return [version, progress, *(found.model_dump(mode="json") for found in [tools, *answers])]


def talk(transport, era):
    return asyncio.run(asyncio.wait_for(asked(transport, era), 60))


def over_stdio(command):
    return stdio_client(StdioServerParameters(command=command[0], args=command[1:]))


@pytest.mark.parametrize("era", ERAS)
def test_over_stdio_the_sdk_client_sees_no_difference(tmp_path, era):
    path = tmp_path / "a.db"
    program = [sys.executable, "-m", "stator.surfaces.cli.main", "proxy", "--store", str(path)]
    through = [*program, "--session", "talk", "--name", "test", "--", *SERVER]
    assert talk(over_stdio(through), era) == talk(over_stdio(SERVER), era)
    with stator.connect(path) as store:
        assert outcomes(store) == EXPECTED


def test_a_request_too_long_for_the_server_is_answered_through_the_proxy(tmp_path):
    program = [sys.executable, "-m", "stator.surfaces.cli.main"]
    server = [*program, "mcp", "--store", str(tmp_path / "server.db")]
    through = [
        *program,
        "proxy",
        "--store",
        str(tmp_path / "a.db"),
        "--name",
        "test",
        "--",
        *server,
    ]

    async def asked_twice():
        async with Client(over_stdio(through)) as client:
            # longer than what the server reads, and longer than what the proxy decodes
            for size in (5_000_000, 17_000_000):
                with pytest.raises(MCPError):
                    await client.call_tool("open", {"purpose": "x" * size})
            return await client.call_tool("open", {"purpose": "x"})

    assert not asyncio.run(asyncio.wait_for(asked_twice(), 60)).is_error


@pytest.fixture(scope="module")
def served():
    process = subprocess.Popen(
        [*SERVER, "http"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    port = int(process.stdout.readline())
    yield f"http://127.0.0.1:{port}/mcp"
    process.terminate()
    process.communicate()


def test_over_http_the_sdk_client_sees_no_difference(tmp_path, served):
    front = Front(tmp_path, served)
    through = f"http://127.0.0.1:{front.port}/mcp"
    for era in ERAS:
        told = talk(streamable_http_client(through), era)
        assert told == talk(streamable_http_client(served), era)
    assert front.end() == 0
    with stator.connect(front.path) as store:
        assert outcomes(store) == EXPECTED * len(ERAS)


def outcomes(store):
    calls = store.read("talk").calls()
    return [(row.tool, row.effect, row.status, row.cause) for row in reversed(calls)]


EXPECTED = [
    ("mcp__test__add", "read", "ok", ""),
    ("mcp__test__fail", "write", "error", "isError"),
    ("mcp__test__add", "read", "error", "isError"),
    ("mcp__test__count", "write", "ok", ""),
]
