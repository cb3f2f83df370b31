"""Serves the proxy over streamable HTTP on loopback: passes each request on and its response back.

Bodies are passed on unchanged, streams piece by piece. A message in an HTTP response answers a request of the
same exchange. If the client has an `Mcp-Session-Id` (older revisions), it may also answer an earlier request
of that session, since such a client can reconnect for messages it missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from concurrent.futures import Future
from typing import Any

from stator.surfaces import loopback
from stator.surfaces.loopback import Headers, header_values
from stator.surfaces.proxy.classify import error_answer
from stator.surfaces.proxy.frames import LINE_MAX, EventStreamReader, LongMessage
from stator.surfaces.proxy.http_policy import (
    RequestPolicy,
    Upstream,
    request_headers,
    response_headers,
)
from stator.surfaces.proxy.pending_requests import PendingRequest, PendingRequests
from stator.surfaces.proxy.recorder import ProxyRecorder, UnansweredStatus
from stator.surfaces.proxy.stdio import ATTEMPTS_MAX, DIED, NOT_RECORDED, TIMED_OUT
from stator.surfaces.proxy.upstream_direct import (
    DirectTransport,
    ServerResponse,
    ServerTransport,
    Unreached,
    UpstreamFailed,
)

HEADERS_MAX = 65_536
BODY_S = 30.0
"""How long the body of a request may take to arrive."""
REST_S = 10.0
"""How long to keep reading a response that has begun after its client has left."""
SESSIONS_MAX = 1_000
"""Maximum number of sessions of older revisions whose open requests are remembered."""
RETRY_WAIT_S = 0.2
"""Pause before a call that is safe to repeat is sent again; doubled for each further attempt."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def serve(
    recorder: ProxyRecorder,
    upstream: str,
    *,
    port: int,
    timeout: float | None,
    timeout_answer: bool,
    ready: Callable[[str], None],
    say: Callable[[str], None],
) -> None:
    """Serve until interrupted; call `ready` with the address."""
    target = Upstream(upstream)
    served = threading.Event()
    with loopback.bind(port) as listener, _finish_recording(served):
        bound = loopback.port_of(listener)
        app = ProxyApp(
            recorder, target, RequestPolicy(bound), timeout, timeout_answer=timeout_answer, say=say
        )

        def announce() -> None:
            served.set()
            ready(f"http://{loopback.HOST}:{bound}{target.path}")

        loopback.run(
            app,
            listener,
            announce,
            date_header=False,
            h11_max_incomplete_event_size=HEADERS_MAX,
        )


@contextlib.contextmanager
def _finish_recording(served: threading.Event) -> Iterator[None]:
    """Keep a signal from ending the program before everything is recorded: the server itself stops on it."""

    def on_signal(number: int, frame: object) -> None:
        if not served.is_set():
            raise SystemExit(0)

    before = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class ProxyApp:
    """The ASGI application: passes each request on to the server."""

    def __init__(
        self,
        recorder: ProxyRecorder,
        upstream: Upstream,
        policy: RequestPolicy,
        timeout: float | None,
        *,
        timeout_answer: bool,
        say: Callable[[str], None],
    ) -> None:
        self.recorder = recorder
        self.upstream = upstream
        self.timeout = timeout
        self.timeout_answer = timeout_answer
        self.say = say
        self._policy = policy
        self._by_session: OrderedDict[str, PendingRequests] = OrderedDict()
        self.transport = _transport(upstream)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        headers: Headers = scope["headers"]
        refusal = self._policy.refusal(scope["method"], headers)
        if refusal is not None:
            await _send_text(send, *refusal)
            return
        path = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
        target = self.upstream.target(path, scope["query_string"])
        if target is None:
            await _send_text(send, 404, "the proxy does not pass on requests for this path")
            return
        exchange = Exchange(self, scope["method"], target, headers, receive, send)
        await exchange.run()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await self.transport.aclose()
        for pending in self._by_session.values():
            self.record_unanswered(pending, pending.take_all(), "the proxy ended", "cancelled")
        await send({"type": "lifespan.shutdown.complete"})

    def pending_of(self, session: str) -> PendingRequests:
        """Return the open requests of a client's session; without a session, a new empty table."""
        if not session:
            return PendingRequests(self.recorder)
        pending = self._by_session.pop(session, None) or PendingRequests(self.recorder)
        self._by_session[session] = pending
        if len(self._by_session) > SESSIONS_MAX:
            _, oldest = self._by_session.popitem(last=False)
            self.record_unanswered(
                oldest, oldest.take_all(), "nobody came back for it", "cancelled"
            )
        return pending

    def end_session(self, session: str) -> None:
        """Record that a client has ended its session."""
        pending = self._by_session.pop(session, None)
        if pending is not None:
            self.record_unanswered(
                pending, pending.take_all(), "the client ended its session", "cancelled"
            )

    def record_unanswered(
        self,
        pending: PendingRequests,
        waiting: list[PendingRequest],
        cause: str,
        status_if_read: UnansweredStatus,
    ) -> None:
        for request in waiting:
            self.recorder.put(*pending.unanswered(request, cause, status_if_read))


def _transport(upstream: Upstream) -> ServerTransport:
    if upstream.is_direct:
        return DirectTransport(upstream.host, upstream.port, upstream.netloc)
    from stator.surfaces.proxy.upstream_far import FarTransport

    return FarTransport(upstream.origin, upstream.proxy)


class ClientLeft(Exception):
    """The client closed the connection."""


class Exchange:
    """One HTTP request of a client and the response to it."""

    def __init__(
        self,
        app: ProxyApp,
        method: str,
        target: str,
        headers: Headers,
        receive: Receive,
        send: Send,
    ) -> None:
        self._app = app
        self._method = method
        self._target = target
        self._headers = headers
        self._receive = receive
        self._send = send
        self._session = "".join(header_values(headers, b"mcp-session-id"))
        self._pending = app.pending_of(self._session)
        self._requests: list[PendingRequest] = []
        self._response_began = False
        self._is_single_message = False
        """Whether the response is one message instead of a stream."""
        self._resumable = False

    async def run(self) -> None:
        try:
            async with asyncio.timeout(BODY_S):
                body = await self._body()
        except TimeoutError:
            await _send_text(self._send, 408, "the request did not arrive in time")
            return
        except ClientLeft:
            return
        if isinstance(body, bytes) and not await self._record_intents(body):
            return
        try:
            await self._exchange(body)
        finally:
            self._give_up("the client went away", "cancelled")

    async def _exchange(self, body: bytes | AsyncIterator[bytes]) -> None:
        """Forward the request until the response has ended or the client has left."""
        passing = asyncio.ensure_future(self._forward(body))
        leaving = asyncio.ensure_future(self._client_left()) if isinstance(body, bytes) else None
        waits = [task for task in (passing, leaving) if task is not None]
        timeout = self._app.timeout if any(one.call for one in self._requests) else None
        done, _ = await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            await self._timed_out(passing)
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if self._is_single_message and any(
            self._pending.is_waiting(request) for request in self._requests
        ):
            # The client left after the head of the response and before its body: the server has done
            # the work, and how the call ended is in the body. A stream has no such end to wait for.
            await asyncio.wait([passing], timeout=REST_S)
        for task in waits:
            task.cancel()
        ended, *_ = await asyncio.gather(*waits, return_exceptions=True)
        if isinstance(ended, Exception):
            self._app.say(f"{type(ended).__name__}: {ended!s:.300}")
        if self._method == "DELETE" and passing.done() and not passing.cancelled():
            self._app.end_session(self._session)

    # -- the request ------------------------------------------------------------------------------

    async def _body(self) -> bytes | AsyncIterator[bytes]:
        """Return the body; one that is too long to decode as an iterator."""
        whole = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            whole += message.get("body", b"")
            if not message.get("more_body", False):
                return bytes(whole)
            if len(whole) > LINE_MAX:
                return self._long_body(bytes(whole))

    async def _long_body(self, data: bytes) -> AsyncIterator[bytes]:
        """Record the size and digest of a long body before its last part is passed on."""
        long, more = LongMessage(), True
        while more:
            long.add(data)
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            yield data
            data, more = message.get("body", b""), message.get("more_body", False)
        long.add(data)
        write = self._app.recorder.raw("too long to be read, from the client", long)
        write.done = Future()
        self._app.recorder.put(write)
        await asyncio.wrap_future(write.done)
        yield data

    async def _record_intents(self, body: bytes) -> bool:
        """Wait until the intents of its calls are on disk; if that fails, the calls are not made."""
        if self._method != "POST":
            return True
        found = self._pending.outgoing(body)
        self._requests = found.requests
        self._app.recorder.put(*found.writes)
        try:
            for call in found.calls:
                await asyncio.wrap_future(call.done)
        except Exception as error:
            text = f"stator proxy: the call could not be recorded and was not made: {error!s:.300}"
            self._app.say(text.removeprefix("stator proxy: "))
            self._withdraw()
            await self._answer(503, NOT_RECORDED, text)
            return False
        return True

    async def _forward(self, body: bytes | AsyncIterator[bytes]) -> None:
        """Send the request, again where that is safe, and pass the response back."""
        try:
            response = await self._send_upstream(body)
        except UpstreamFailed as error:
            await self._no_response(error)
            return
        try:
            await self._pass_back(response)
        except UpstreamFailed:
            await self._response_broke_off()
        finally:
            await response.aclose()

    async def _send_upstream(self, body: bytes | AsyncIterator[bytes]) -> ServerResponse:
        headers = request_headers(self._headers, self._app.upstream)
        if not isinstance(body, bytes):  # the length is known only from the client's header
            lengths = header_values(self._headers, b"content-length")
            headers += [(b"content-length", length.encode()) for length in lengths]
        sent = body if self._method == "POST" else None
        while True:
            try:
                return await self._app.transport.send(self._method, self._target, headers, sent)
            except UpstreamFailed as error:
                if not await self._may_retry(error):
                    raise

    async def _may_retry(self, error: UpstreamFailed) -> bool:
        """Record another attempt if every request in it is a call that is safe to repeat."""
        calls = [one.call for one in self._requests if one.call is not None]
        harmless = [
            call for call in calls if call.effect != "write" and call.attempt < ATTEMPTS_MAX
        ]
        if not calls or len(harmless) < len(self._requests):
            return False
        await asyncio.sleep(RETRY_WAIT_S * 2 ** (calls[0].attempt - 1))
        for call in calls:
            self._app.recorder.retry(call, _reason(error))
            await asyncio.wrap_future(call.done)
        return True

    # -- the response -----------------------------------------------------------------------------

    async def _pass_back(self, response: ServerResponse) -> None:
        headers = response_headers(response.headers)
        kind = _first(headers, b"content-type").partition(";")[0].strip().lower()
        session = _first(headers, b"mcp-session-id")
        if session and not self._session:
            # the session begins with this response; later requests belong to it
            self._session = session
        reader = EventStreamReader() if kind == "text/event-stream" else None
        self._is_single_message = reader is None
        start = {"type": "http.response.start", "status": response.status, "headers": headers}
        await self._send(start)
        self._response_began = True
        copy, long = bytearray(), LongMessage()
        stated = _first(headers, b"content-length")
        length = int(stated) if stated.isdecimal() else -1
        async for chunk in response.pieces():
            if reader is not None:
                for data in reader.feed(chunk):
                    # a resumed stream may repeat messages
                    found = self._pending.incoming(data, may_repeat=self._method == "GET")
                    self._app.recorder.put(*(found.writes if found is not None else ()))
                self._resumable = reader.resumable
            else:
                long.add(chunk)
                copy += chunk if long.size <= LINE_MAX else b""
                # Queued before the last piece is passed on: a client that has its answer may end this program at once.
                if long.size == length:
                    self._record_body(bytes(copy), long)
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        if reader is None and long.size != length:
            self._record_body(bytes(copy), long)
        self._response_ended(response.status, reader)
        await self._send({"type": "http.response.body", "body": b""})

    def _record_body(self, data: bytes, long: LongMessage) -> None:
        """Record a response that is one message."""
        if long.size > LINE_MAX:
            for request in self._requests:
                if request.call is not None and self._pending.withdraw(request):
                    self._app.recorder.put(self._app.recorder.unread(request.call, long))
            return
        found = self._pending.incoming(data) if data.strip() else None
        if found is not None:
            self._app.recorder.put(*found.writes)

    def _response_ended(self, status: int, reader: EventStreamReader | None) -> None:
        """Record the calls a finished response left unanswered, unless its client can reconnect."""
        if status >= 400:
            for request in self._requests:
                if request.call is not None and self._pending.withdraw(request):
                    self._app.recorder.put(self._rejection(request, status))
        elif reader is None or not (reader.resumable and self._session):
            long = reader is not None and reader.unread
            ended = "an answer too long to be read" if long else "no answer in the response"
            self._give_up(ended, "error")

    def _rejection(self, request: PendingRequest, status: int) -> Any:
        assert request.call is not None
        # With 4xx a server says that it did not act; before a 5xx it may have acted and then failed.
        if status < 500:
            return self._app.recorder.failed(request.call, f"HTTP {status}")
        return self._app.recorder.unanswered(request.call, f"HTTP {status}", "error")

    # -- no response ------------------------------------------------------------------------------

    async def _client_left(self) -> None:
        """Return when the client has left."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _no_response(self, error: UpstreamFailed) -> None:
        """Record that no response came: the call had no effect if the server was not reached, else it is in doubt."""
        unreached = isinstance(error, Unreached)
        cause = _reason(error)
        for request in self._requests:
            if request.call is not None and self._pending.withdraw(request):
                write = (
                    self._app.recorder.failed(request.call, cause)
                    if unreached
                    else self._app.recorder.unanswered(request.call, cause, "error")
                )
                self._app.recorder.put(write)
        self._app.say(cause)
        await self._answer(502, DIED, f"stator proxy: {cause}")

    async def _response_broke_off(self) -> None:
        """End a response that broke off; a stream that cannot be resumed ends with an error message."""
        waiting = [request for request in self._requests if self._pending.is_waiting(request)]
        if self._resumable and self._session:
            await self._send({"type": "http.response.body", "body": b""})
            return
        self._give_up("the server broke off", "error")
        lines = [
            b"data: " + error_answer(request.id, DIED, "stator proxy: the server broke off") + b"\n"
            for request in waiting
        ]
        await self._send({"type": "http.response.body", "body": b"".join(lines)})

    async def _timed_out(self, passing: asyncio.Future[None]) -> None:
        timeout = self._app.timeout
        cause = f"no answer within {timeout:g} s"
        waiting = [
            one for one in self._requests if one.call is not None and self._pending.is_waiting(one)
        ]
        for request in waiting:
            self._app.recorder.put(*self._pending.unanswered(request, cause, "timeout"))
        if waiting and self._app.timeout_answer and not self._response_began:
            passing.cancel()
            await asyncio.gather(passing, return_exceptions=True)
            await self._answer(504, TIMED_OUT, f"stator proxy: {cause}")

    async def _answer(self, status: int, code: int, text: str) -> None:
        """Answer in place of the server: an error for each request that waits."""
        answers = [error_answer(request.id, code, text).strip() for request in self._requests]
        body = answers[0] if len(answers) == 1 else b"[" + b",".join(answers) + b"]"
        self._withdraw()
        if not answers:
            await _send_text(self._send, status, text)
            return
        await _send_body(self._send, status, b"application/json", body)

    def _withdraw(self) -> None:
        for request in self._requests:
            self._pending.withdraw(request)

    def _give_up(self, cause: str, status_if_read: UnansweredStatus) -> None:
        if self._session and self._resumable:
            return  # its client can reconnect for the response
        waiting = [request for request in self._requests if self._pending.withdraw(request)]
        self._app.record_unanswered(self._pending, waiting, cause, status_if_read)


def _first(headers: Headers, name: bytes) -> str:
    """The first value of a header; "" if there is none."""
    return next(iter(header_values(headers, name)), "")


def _reason(error: UpstreamFailed) -> str:
    text = str(error) or type(error).__name__
    if isinstance(error, Unreached):
        return f"the server could not be reached: {text:.200}"
    return f"the server went away: {text:.200}"


async def _send_text(send: Send, status: int, words: str) -> None:
    await _send_body(send, status, b"text/plain; charset=utf-8", words.encode())


async def _send_body(send: Send, status: int, kind: bytes, body: bytes) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
