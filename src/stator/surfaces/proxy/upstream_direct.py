"""Sends requests to a server of plain HTTP over connections of its own, which are kept and used again.

A request is one write, and a response is read as it arrives: the proxy passes bodies on as they are, and needs nothing
that a client for people offers (cookies, redirects, decoding). `upstream_far` serves all other servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Protocol

import h11

from stator.surfaces.loopback import Headers

CONNECT_S = 10.0
HEAD_MAX = 100 * 1024
"""Bytes that the head of a response may have."""
UNREAD_MAX = 256 * 1024
"""Bytes of a response that wait to be passed on; then the server waits too."""
IDLE_MAX = 20
"""Connections that are kept for later requests."""
IDLE_S = 5.0
"""How long one is kept. Servers close idle connections too, and a request that crosses that is in doubt."""


class UpstreamFailed(Exception):
    """The server did not answer, or not to the end."""


class Unreached(UpstreamFailed):
    """No connection to the server was made: it has not seen the request."""


class ServerResponse(Protocol):
    """A response that has begun."""

    status: int
    headers: Headers

    def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives; `UpstreamFailed` if it breaks off."""

    async def aclose(self) -> None:
        """Let go of the response, read or not."""


class ServerTransport(Protocol):
    """Sends requests to one server."""

    async def send(
        self, method: str, target: str, headers: Headers, body: bytes | AsyncIterator[bytes] | None
    ) -> ServerResponse:
        """Send a request for a path; return when the response begins."""

    async def aclose(self) -> None:
        """Close all connections."""


class DirectTransport:
    """Connections to one server, without encryption and without an HTTP proxy between."""

    def __init__(self, host: str, port: int, netloc: str) -> None:
        self._host = host
        self._port = port
        self._netloc = netloc.encode("latin-1")
        self._idle: list[_ServerLink] = []

    async def send(
        self, method: str, target: str, headers: Headers, body: bytes | AsyncIterator[bytes] | None
    ) -> DirectResponse:
        whole = [(b"host", self._netloc), *headers, *_framing(headers, body)]
        try:
            request = h11.Request(method=method, target=target, headers=whole)
        except h11.LocalProtocolError as error:
            raise Unreached(str(error)) from None
        connection = self._take_idle() or await self._connect()
        try:
            await connection.send(request, body)
            head = await connection.head()
        except h11.LocalProtocolError as error:  # a body that is not as long as its client said
            connection.close()
            raise UpstreamFailed(str(error)) from None
        except BaseException:
            connection.close()
            raise
        return DirectResponse(self, connection, head)

    def keep(self, connection: _ServerLink) -> None:
        """Keep a connection whose response was read to the end, if it can be used again."""
        if connection.may_serve_again() and len(self._idle) < IDLE_MAX:
            self._idle.append(connection)
        else:
            connection.close()

    async def aclose(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _take_idle(self) -> _ServerLink | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_fresh():
                return connection
            connection.close()
        return None

    async def _connect(self) -> _ServerLink:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                _, connection = await loop.create_connection(_ServerLink, self._host, self._port)
        except TimeoutError:
            raise Unreached(f"no connection within {CONNECT_S:g} s") from None
        except OSError as error:
            raise Unreached(str(error)) from None
        return connection


class DirectResponse:
    """A response on a connection of its own until it is read or let go of."""

    def __init__(
        self, transport: DirectTransport, connection: _ServerLink, head: h11.Response
    ) -> None:
        self.status: int = head.status_code
        self.headers: Headers = list(head.headers.raw_items())
        self._transport = transport
        self._connection: _ServerLink | None = connection

    async def pieces(self) -> AsyncIterator[bytes]:
        connection = self._connection
        while connection is not None and self._connection is not None:
            event = await connection.next_event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self._connection = None
                self._transport.keep(connection)

    async def aclose(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _ServerLink(asyncio.Protocol):
    """One connection to the server. A request, then its response; then the next."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_MAX)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._arrived: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._unread = 0
        self._ended: str | None = None
        """Why nothing more arrives."""
        self._idle_since: float | None = None

    # -- called by the event loop -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if (
            self._idle_since is not None
        ):  # no request waits for these bytes: the next must not get them
            self._end("it sent bytes that answer no request")
            return
        self._http.receive_data(data)
        self._unread += len(data)
        if self._unread > UNREAD_MAX and self._transport is not None:
            self._transport.pause_reading()
        _wake(self._arrived)

    def eof_received(self) -> None:
        self._end("it closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(str(exc or "it closed the connection"))

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        _wake(self._writable)
        self._writable = None

    def _end(self, why: str) -> None:
        if self._ended is None:
            self._ended = why
            if self._idle_since is None:
                self._http.receive_data(b"")
        _wake(self._arrived)
        _wake(self._writable)

    # -- called by the exchange -------------------------------------------------------------------

    async def send(self, request: h11.Request, body: bytes | AsyncIterator[bytes] | None) -> None:
        head = self._http.send(request) or b""
        if isinstance(body, bytes) or body is None:
            data = (self._http.send(h11.Data(data=body)) if body else b"") or b""
            self._write(head + data + (self._http.send(h11.EndOfMessage()) or b""))
            return
        self._write(head)
        async for piece in body:
            self._write(self._http.send(h11.Data(data=piece)) or b"")
            if self._writable is not None:
                await asyncio.shield(self._writable)
            if self._ended is not None:  # what the server answered before it stopped reading counts
                return
        self._write(self._http.send(h11.EndOfMessage()) or b"")

    def _write(self, data: bytes) -> None:
        if self._transport is not None and self._ended is None:
            self._transport.write(data)

    async def head(self) -> h11.Response:
        while True:
            event = await self.next_event()
            if isinstance(event, h11.Response):
                return event

    async def next_event(self) -> Any:
        """Return the next event of the response; `UpstreamFailed` if it breaks off."""
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise UpstreamFailed(self._ended or str(error)) from None
            if event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                raise UpstreamFailed(self._ended or "it does not answer with HTTP")
            if event is not h11.NEED_DATA:
                return event
            if self._unread > UNREAD_MAX and self._transport is not None:
                self._transport.resume_reading()
            self._unread = 0
            self._arrived = self._loop.create_future()
            try:
                await self._arrived
            finally:
                self._arrived = None

    def may_serve_again(self) -> bool:
        """Whether the next request can be sent; from here on, arriving bytes end the connection."""
        done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        if not done or self._ended is not None or self._http.trailing_data[0]:
            return False
        self._http.start_next_cycle()
        self._idle_since = self._loop.time()
        return True

    def is_fresh(self) -> bool:
        """Whether a kept connection is still good; it is in use from here on."""
        since, self._idle_since = self._idle_since, None
        is_young = since is not None and self._loop.time() - since < IDLE_S
        return is_young and self._ended is None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _framing(headers: Headers, body: bytes | AsyncIterator[bytes] | None) -> Headers:
    """The header that says where the body ends; a body of unknown length is sent in chunks."""
    if body is None:
        return []
    if isinstance(body, bytes):
        return [(b"content-length", b"%d" % len(body))]
    stated = any(name.lower() == b"content-length" for name, _ in headers)
    return [] if stated else [(b"transfer-encoding", b"chunked")]


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
