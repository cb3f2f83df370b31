"""Connects the SDK's own client to an MCP server, in this process or over a real transport."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters

from stator.surfaces.mcp.scope import Scope
from stator.surfaces.mcp.server import build

MODERN, LEGACY = "2026-07-28", "legacy"
ERAS = (MODERN, LEGACY)
PROGRAM = [sys.executable, "-m", "stator.surfaces.cli.main", "mcp"]
ME = types.Implementation(name="tester", version="1")


class Refused(Exception):
    """A tool returned an error; holds the error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error)
        self.error = error


class Agent:
    """A client that calls tools and returns their structured answers."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **given: Any) -> dict[str, Any]:
        found = await self.client.call_tool(tool, given)
        assert isinstance(found, types.CallToolResult)
        structured = found.structured_content
        assert structured is not None
        texts = [block.text for block in found.content if isinstance(block, types.TextContent)]
        if found.is_error:
            assert texts[0].startswith(structured["error"]["code"])
            raise Refused(structured["error"])
        assert json.loads(texts[1]) == structured
        return dict(structured)

    async def refused(self, tool: str, **given: Any) -> dict[str, Any]:
        """Return the error of a call."""
        try:
            found = await self.call(tool, **given)
        except Refused as refusal:
            return refusal.error
        raise AssertionError(f"not refused: {found}")

    async def begin(self, purpose: str = "fix the login bug") -> str:
        return str((await self.call("stator_open", purpose=purpose))["session"])

    async def read(self, uri: str) -> Any:
        found = await self.client.read_resource(uri)
        text = found.contents[0].text  # type: ignore[union-attr]
        return json.loads(text) if found.contents[0].mime_type == "application/json" else text


async def next_uri(heard: Any) -> str:
    """Wait for the next notification; return its resource."""
    return str((await anext(heard)).uri)


@asynccontextmanager
async def talking(store, era=MODERN, *, project="shop", me=ME, sleep=None, **options):
    """Run an agent and its server, both in this process."""
    server = build(Scope(store, project), sleep) if sleep else build(Scope(store, project))
    async with Client(server, mode=era, client_info=me, **options) as client:
        yield Agent(client)


def over_stdio(store, *words: str, era=MODERN, me=ME, **options) -> Client:
    """Run a client that starts the real program."""
    server = StdioServerParameters(
        command=PROGRAM[0],
        args=[*PROGRAM[1:], "--store", str(store), *words],
        cwd=os.getcwd(),
        env=dict(os.environ),
    )
    return Client(server, mode=era, client_info=me, **options)


def started(store, *words: str) -> subprocess.Popen[bytes]:
    """Start the real program with pipes for its input and output."""
    return subprocess.Popen(
        [*PROGRAM, "--store", str(store), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def message(method: str, number: Any = 1, **params: Any) -> bytes:
    """Return a request of the revision without `initialize`, as a line."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    request = {
        "jsonrpc": "2.0",
        "id": number,
        "method": method,
        "params": {**params, "_meta": meta},
    }
    return json.dumps(request).encode() + b"\n"
