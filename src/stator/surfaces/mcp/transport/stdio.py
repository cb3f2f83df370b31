"""Serves MCP over stdio to one client: one JSON message per line, of limited length.

The SDK's own reader accepts lines of any length and drops lines that are not messages; this one answers both
with a JSON-RPC error, under the request's own id. When the input ends, the server completes the open requests first.
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
from stator.surfaces.mcp.transport.long_request import LongRequest

LINE_MAX = 4 * 1024 * 1024
"""Maximum number of bytes of one message, as over HTTP."""
CHUNK = 65_536
BOM = b"\xef\xbb\xbf"
READER_S = 0.5
"""How long to wait for the reader thread at the end."""
DRAIN_S = 30.0
"""How long open requests may take after the input has ended."""
STREAMED = "subscriptions/listen"
"""The one request that is answered only when its stream ends."""

Message = SessionMessage | Exception


def serve(server: Server[Any]) -> None:
    """Serve the client on standard input and output until it ends."""
    with _standard_streams() as (source, sink):
        anyio.run(_serve, server, source, sink)


@contextmanager
def _standard_streams() -> Iterator[tuple[int, int]]:
    """Return private copies of stdin and stdout; other code in this process then cannot read or print there."""
    try:
        source, sink = os.dup(0), os.dup(1)
    except OSError:
        raise InvalidInput(
            "standard input or output is closed", hint="start stator mcp from an MCP client"
        ) from None
    # stdin becomes empty and stdout becomes stderr: a stray print must not corrupt the protocol
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
    connection = _Connection(to_server, outbound.clone(), sink)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.write, from_server)
        reader = threading.Thread(
            target=connection.read,
            args=(os.dup(source), anyio.lowlevel.current_token()),
            daemon=True,
        )
        reader.start()
        try:
            await server.run(inbound, outbound, server.create_initialization_options())
            await connection.close()
            tasks.cancel_scope.cancel()
        finally:
            # A reader that still runs when the interpreter ends can crash the program.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(reader.join, READER_S)


class _Connection:
    """Reads and writes messages, and knows which requests are still unanswered."""

    def __init__(
        self,
        to_server: MemoryObjectSendStream[Message],
        answers: MemoryObjectSendStream[SessionMessage],
        sink: int,
    ) -> None:
        self._to_server = to_server
        self._answers = answers
        self._sink = sink
        self._unanswered: set[int | str] = set()
        self._answered = anyio.Event()

    # -- in ---------------------------------------------------------------------------------------

    def read(self, source: int, token: Any) -> None:
        """Read lines, in a thread of its own: reading blocks while no input arrives."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, RuntimeError, OSError):
            # Each of these errors means that the server has stopped.
            for line in read_lines(source):
                anyio.from_thread.run(self._handle_line, line, token=token)
            anyio.from_thread.run(self._end, token=token)
        os.close(source)

    async def _handle_line(self, line: bytes | LongRequest) -> None:
        found = parse(line)
        if isinstance(found, types.JSONRPCError):
            await self._answers.send(SessionMessage(found))
            return
        if isinstance(found, types.JSONRPCRequest) and found.method != STREAMED:
            self._unanswered.add(found.id)
        elif isinstance(found, types.JSONRPCNotification) and found.method.endswith("/cancelled"):
            self._mark_answered(
                (found.params or {}).get("requestId")
            )  # a cancelled request is never answered
        await self._to_server.send(SessionMessage(found))

    async def _end(self) -> None:
        """Wait until the open requests are answered, then stop the server."""
        with anyio.move_on_after(DRAIN_S):
            while self._unanswered:
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
                except OSError:  # the client has left
                    await self._to_server.aclose()
                    return
                if isinstance(item.message, (types.JSONRPCResponse, types.JSONRPCError)):
                    self._mark_answered(item.message.id)

    def _mark_answered(self, request: Any) -> None:
        if isinstance(request, (int, str)):
            self._unanswered.discard(request)
            self._answered.set()
            self._answered = anyio.Event()

    async def close(self) -> None:
        await self._answers.aclose()
        await self._to_server.aclose()


def read_lines(source: int) -> Iterator[bytes | LongRequest]:
    """Yield lines as they arrive, without blank ones; of a line longer than `LINE_MAX`, what is known of it."""
    buffer = bytearray()
    long: LongRequest | None = None
    while chunk := os.read(source, CHUNK):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            buffer += end
            long = _grown(buffer, long)
            if long is not None or buffer.strip():
                yield long or bytes(buffer)
            buffer.clear()
            long = None
        buffer += rest
        long = _grown(buffer, long)
    if long is not None or buffer.strip():
        yield long or bytes(buffer)


def _grown(buffer: bytearray, long: LongRequest | None) -> LongRequest | None:
    """Move the bytes of a line that is too long to what is known of it."""
    if long is None and len(buffer) <= LINE_MAX:
        return None
    long = long or LongRequest()
    long.feed(bytes(buffer))
    buffer.clear()
    return long


def parse(line: bytes | LongRequest) -> types.JSONRPCMessage:
    """Return the message in a line, or the error response if the line is not a message."""
    if isinstance(line, LongRequest):
        what = f"a message has at most {LINE_MAX:,} bytes"
        return _refusal(types.INVALID_REQUEST, what, line.id)
    if line.startswith(BOM):
        return _refusal(types.PARSE_ERROR, "a message does not begin with a byte order mark")
    try:
        found = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return _invalid_message(line)
    if isinstance(found, types.JSONRPCNotification) and "id" in json.loads(line):
        # The SDK takes a request with an invalid id for a notification, and would never answer it.
        return _refusal(types.INVALID_REQUEST, "an id must be a whole number or a string")
    return found


def _invalid_message(line: bytes) -> types.JSONRPCError:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return _refusal(types.PARSE_ERROR, "Parse error")
    identifier = found.get("id") if isinstance(found, dict) else None
    known = isinstance(identifier, (int, str)) and not isinstance(identifier, bool)
    if isinstance(identifier, str):  # a lone surrogate cannot be encoded in the response
        known = identifier.isascii() or identifier.encode(errors="ignore").decode() == identifier
    return _refusal(types.INVALID_REQUEST, "Invalid Request", identifier if known else None)


def _refusal(code: int, message: str, identifier: int | str | None = None) -> types.JSONRPCError:
    error = types.ErrorData(code=code, message=message)
    return types.JSONRPCError(jsonrpc="2.0", id=identifier, error=error)


def _write(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]
