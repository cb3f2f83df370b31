"""Over stdio: one client, one JSON message a line, every line bounded and every one answered.

The SDK's own reader takes lines of any length and drops those that are not messages; this one refuses
both with the code that JSON-RPC has for it. At the end of its input the server finishes what was asked.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from stator.errors import InvalidInput

LINE_MAX = 4 * 1024 * 1024
"""Bytes of one message, as over HTTP."""
CHUNK = 65_536
BOM = b"\xef\xbb\xbf"
LEAVE_S = 0.5
"""How long the reader may take to notice that nobody is left to read for."""
DRAIN_S = 30.0
"""How long what was asked may take after the input has ended."""
STREAMED = "subscriptions/listen"
"""The one request whose answer does not come by itself."""

Message = SessionMessage | Exception


def serve(server: Server[Any]) -> None:
    """Serve the client at the other end of standard input and output, until it ends."""
    with _wire() as (source, sink):
        anyio.run(_serve, server, source, sink)


@contextmanager
def _wire() -> Iterator[tuple[int, int]]:
    """Both ends of the wire. What else reads or prints in this process does not reach it."""
    try:
        source, sink = os.dup(0), os.dup(1)
    except OSError:
        raise InvalidInput(
            "standard input or output is closed", hint="an MCP client starts this"
        ) from None
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        yield source, sink
    finally:
        os.dup2(source, 0)
        os.dup2(sink, 1)
        os.close(sink)
        os.close(source)


async def _serve(server: Server[Any], source: int, sink: int) -> None:
    to_server, inbound = anyio.create_memory_object_stream[Message](0)
    outbound, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    wire = _Wire(to_server, outbound.clone(), sink)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wire.write, from_server)
        reader = threading.Thread(
            target=wire.read, args=(os.dup(source), anyio.lowlevel.current_token()), daemon=True
        )
        reader.start()
        try:
            await server.run(inbound, outbound, server.create_initialization_options())
            await wire.done()
            tasks.cancel_scope.cancel()
        finally:
            # One that is still busy when the interpreter ends can take the whole program down with it.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(reader.join, LEAVE_S)


class _Wire:
    """Messages in and out, and which of them still want an answer."""

    def __init__(
        self,
        to_server: MemoryObjectSendStream[Message],
        answers: MemoryObjectSendStream[SessionMessage],
        sink: int,
    ) -> None:
        self._to_server = to_server
        self._answers = answers
        self._sink = sink
        self._asked: set[int | str] = set()
        self._answered = anyio.Event()

    # -- in ---------------------------------------------------------------------------------------

    def read(self, source: int, token: Any) -> None:
        """In a thread of its own: reading waits for as long as nothing comes."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, RuntimeError, OSError):
            # Any of these: the server has stopped, and nobody is left to read for.
            for line in lines(source):
                anyio.from_thread.run(self._take, line, token=token)
            anyio.from_thread.run(self._end, token=token)
        os.close(source)

    async def _take(self, line: bytes | None) -> None:
        found = parse(line)
        if isinstance(found, types.JSONRPCError):
            await self._answers.send(SessionMessage(found))
            return
        if isinstance(found, types.JSONRPCRequest) and found.method != STREAMED:
            self._asked.add(found.id)
        elif isinstance(found, types.JSONRPCNotification) and found.method.endswith("/cancelled"):
            self._settled((found.params or {}).get("requestId"))  # it is never answered
        await self._to_server.send(SessionMessage(found))

    async def _end(self) -> None:
        """The input has ended: what was asked is answered, then the server stops."""
        with anyio.move_on_after(DRAIN_S):
            while self._asked:
                await self._answered.wait()
        await self._to_server.aclose()

    # -- out --------------------------------------------------------------------------------------

    async def write(self, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with messages:
            async for item in messages:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await anyio.to_thread.run_sync(
                        _write, self._sink, text.encode() + b"\n", abandon_on_cancel=True
                    )
                except OSError:  # the client is gone
                    await self._to_server.aclose()
                    return
                if isinstance(item.message, (types.JSONRPCResponse, types.JSONRPCError)):
                    self._settled(item.message.id)

    def _settled(self, request: Any) -> None:
        if isinstance(request, (int, str)):
            self._asked.discard(request)
            self._answered.set()
            self._answered = anyio.Event()

    async def done(self) -> None:
        await self._answers.aclose()
        await self._to_server.aclose()


def lines(source: int) -> Iterator[bytes | None]:
    """Lines as they come, without blank ones; None for one that is longer than a message may be."""
    buffer = bytearray()
    over = False
    while chunk := os.read(source, CHUNK):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            buffer += end
            if over or len(buffer) > LINE_MAX:
                yield None
            elif buffer.strip():
                yield bytes(buffer)
            buffer.clear()
            over = False
        buffer += rest
        if over or len(buffer) > LINE_MAX:
            over = True
            buffer.clear()
    if over:
        yield None
    elif buffer.strip():
        yield bytes(buffer)


def parse(line: bytes | None) -> types.JSONRPCMessage:
    """The message of a line; where there is none, the error that answers it."""
    if line is None:
        return _refusal(types.INVALID_REQUEST, f"a message has at most {LINE_MAX:,} bytes")
    if line.startswith(BOM):
        return _refusal(types.PARSE_ERROR, "a message does not begin with a byte order mark")
    try:
        found = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return _no_message(line)
    if isinstance(found, types.JSONRPCNotification) and "id" in json.loads(line):
        # The SDK takes a request whose id is no id for a notification, and nobody would hear of it.
        return _refusal(types.INVALID_REQUEST, "an id is a whole number or a text")
    return found


def _no_message(line: bytes) -> types.JSONRPCError:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return _refusal(types.PARSE_ERROR, "Parse error")
    identifier = found.get("id") if isinstance(found, dict) else None
    known = isinstance(identifier, (int, str)) and not isinstance(identifier, bool)
    if isinstance(identifier, str):  # half a surrogate pair cannot be written back
        known = identifier.isascii() or identifier.encode(errors="ignore").decode() == identifier
    return _refusal(types.INVALID_REQUEST, "Invalid Request", identifier if known else None)


def _refusal(code: int, message: str, identifier: int | str | None = None) -> types.JSONRPCError:
    error = types.ErrorData(code=code, message=message)
    return types.JSONRPCError(jsonrpc="2.0", id=identifier, error=error)


def _write(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]
