"""Over streamable HTTP: a server on loopback that passes each request on and its answer back.

Bodies are passed as they are, streams as they come. An answer belongs to the request whose response it
is in; where the client holds an `Mcp-Session-Id` (older revisions), also to a request of that id that
it asked before, since such a client may come back for what it missed.
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

import httpx2

from stator.surfaces import loopback
from stator.surfaces.loopback import Headers, values
from stator.surfaces.proxy.classify import error_answer
from stator.surfaces.proxy.framing import LINE_MAX, Long, ServerSent
from stator.surfaces.proxy.http_policy import (
    Gate,
    Upstream,
    back,
    onward,
)
from stator.surfaces.proxy.pending_requests import Asked, Book
from stator.surfaces.proxy.recorder import Recording, Unanswered
from stator.surfaces.proxy.stdio import ATTEMPTS_MAX, DIED, NOT_RECORDED, TIMED_OUT

HEADERS_MAX = 65_536
CONNECT_S = 10.0
BODY_S = 30.0
"""How long a request may take to arrive."""
REST_S = 10.0
"""How long an answer that has begun may take to end once its client has gone."""
BOOKS_MAX = 1_000
"""Sessions of older revisions whose open requests are remembered."""
PAUSE_S = 0.2
"""Before a call that does no harm is sent again; twice that before the next."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def serve(
    recording: Recording,
    upstream: str,
    *,
    port: int,
    timeout: float | None,
    timeout_answer: bool,
    ready: Callable[[str], None],
    say: Callable[[str], None],
) -> None:
    """Serve until interrupted. `ready` is told the address."""
    target = Upstream(upstream)
    served = threading.Event()
    with loopback.bind(port) as listener, _lasting(served):
        bound = loopback.port_of(listener)
        app = App(recording, target, Gate(bound), timeout, timeout_answer=timeout_answer, say=say)

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
def _lasting(served: threading.Event) -> Iterator[None]:
    """Being asked to end, which the server has heeded once it served, ends nothing before it is on record."""

    def asked(number: int, frame: object) -> None:
        if not served.is_set():
            raise SystemExit(0)

    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class App:
    """Passes requests on."""

    def __init__(
        self,
        recording: Recording,
        upstream: Upstream,
        gate: Gate,
        timeout: float | None,
        *,
        timeout_answer: bool,
        say: Callable[[str], None],
    ) -> None:
        self.recording = recording
        self.upstream = upstream
        self.timeout = timeout
        self.timeout_answer = timeout_answer
        self.say = say
        self._gate = gate
        self._books: OrderedDict[str, Book] = OrderedDict()
        # not a client, which would keep cookies of one for another and follow where it is sent
        self.transport = httpx2.AsyncHTTPTransport(
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            trust_env=False,
            proxy=upstream.proxy,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        headers: Headers = scope["headers"]
        refusal = self._gate.refusal(scope["method"], headers)
        if refusal is not None:
            await _say(send, *refusal)
            return
        path = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
        target = self.upstream.target(path, scope["query_string"])
        if target is None:
            await _say(send, 404, "nothing is served here")
            return
        exchange = Exchange(self, scope["method"], target, headers, receive, send)
        await exchange.run()

    async def _live(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await self.transport.aclose()
        for book in self._books.values():
            self.give_up(book, book.leave(), "the proxy ended", "cancelled")
        await send({"type": "lifespan.shutdown.complete"})

    def book(self, session: str) -> Book:
        """The open requests of a client: those of its session, or of this one exchange."""
        if not session:
            return Book(self.recording)
        book = self._books.pop(session, None) or Book(self.recording)
        self._books[session] = book
        if len(self._books) > BOOKS_MAX:
            _, oldest = self._books.popitem(last=False)
            self.give_up(oldest, oldest.leave(), "nobody came back for it", "cancelled")
        return book

    def end(self, session: str) -> None:
        """A client has ended its session."""
        book = self._books.pop(session, None)
        if book is not None:
            self.give_up(book, book.leave(), "the client ended its session", "cancelled")

    def give_up(self, book: Book, waiting: list[Asked], cause: str, otherwise: Unanswered) -> None:
        for asked in waiting:
            self.recording.put(*book.unanswered(asked, cause, otherwise))


class Left(Exception):
    """The client has gone."""


class Exchange:
    """One request of a client and the response to it."""

    def __init__(
        self, app: App, method: str, target: str, headers: Headers, receive: Receive, send: Send
    ) -> None:
        self._app = app
        self._method = method
        self._target = target
        self._headers = headers
        self._receive = receive
        self._send = send
        self._session = "".join(values(headers, b"mcp-session-id"))
        self._book = app.book(self._session)
        self._asked: list[Asked] = []
        self._begun = False
        self._single = False
        """Whether the response is one message, not a stream."""
        self._resumable = False

    async def run(self) -> None:
        try:
            async with asyncio.timeout(BODY_S):
                body = await self._body()
        except TimeoutError:
            await _say(self._send, 408, "the request did not arrive in time")
            return
        except Left:
            return
        if isinstance(body, bytes) and not await self._intended(body):
            return
        try:
            await self._exchange(body)
        finally:
            self._conclude("the client went away", "cancelled")

    async def _exchange(self, body: bytes | AsyncIterator[bytes]) -> None:
        """Pass it on, until that is done or the client has gone."""
        passing = asyncio.ensure_future(self._pass(body))
        leaving = asyncio.ensure_future(self._left()) if isinstance(body, bytes) else None
        waits = [task for task in (passing, leaving) if task is not None]
        timeout = self._app.timeout if any(one.call for one in self._asked) else None
        done, _ = await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            await self._too_late(passing)
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if self._single and any(self._book.waits(asked) for asked in self._asked):
            # The client left after the head of the response and before its body: the server has done
            # the work, and how the call ended is in the body. A stream has no such end to wait for.
            await asyncio.wait([passing], timeout=REST_S)
        for task in waits:
            task.cancel()
        ended, *_ = await asyncio.gather(*waits, return_exceptions=True)
        if isinstance(ended, Exception):
            self._app.say(f"{type(ended).__name__}: {ended!s:.300}")
        if self._method == "DELETE" and passing.done() and not passing.cancelled():
            self._app.end(self._session)

    # -- the request ------------------------------------------------------------------------------

    async def _body(self) -> bytes | AsyncIterator[bytes]:
        """The body; one too long to be read as it comes."""
        whole = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Left
            whole += message.get("body", b"")
            if not message.get("more_body", False):
                return bytes(whole)
            if len(whole) > LINE_MAX:
                return self._long_body(bytes(whole))

    async def _long_body(self, data: bytes) -> AsyncIterator[bytes]:
        """What cannot be read is on record, by its digest, before the last of it is passed on."""
        long, more = Long(), True
        while more:
            long.add(data)
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Left
            yield data
            data, more = message.get("body", b""), message.get("more_body", False)
        long.add(data)
        work = self._app.recording.raw("too long to be read, from the client", long)
        work.done = Future()
        self._app.recording.put(work)
        await asyncio.wrap_future(work.done)
        yield data

    async def _intended(self, body: bytes) -> bool:
        """Wait until the calls in it are on disk; where they cannot be, they are not made."""
        if self._method != "POST":
            return True
        found = self._book.outgoing(body)
        self._asked = found.asked
        self._app.recording.put(*found.works)
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

    async def _pass(self, body: bytes | AsyncIterator[bytes]) -> None:
        """Send it, once more where that does no harm, and pass the response back."""
        try:
            response = await self._sent(body)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            await self._refused(error)
            return
        try:
            await self._respond(response)
        except httpx2.TransportError:
            await self._broken()
        finally:
            await response.aclose()

    async def _sent(self, body: bytes | AsyncIterator[bytes]) -> httpx2.Response:
        while True:
            headers = onward(self._headers, self._app.upstream)
            if not isinstance(body, bytes):  # how long it is only the client knows
                lengths = values(self._headers, b"content-length")
                headers += [(b"content-length", length.encode()) for length in lengths]
            request = httpx2.Request(
                self._method,
                self._target,
                headers=headers,
                content=body if self._method == "POST" else None,
                extensions={"timeout": {"connect": CONNECT_S}},
            )
            try:
                return await self._app.transport.handle_async_request(request)
            except httpx2.TransportError as error:
                if not await self._again(error):
                    raise

    async def _again(self, error: httpx2.TransportError) -> bool:
        """Whether all of it is calls that do no harm, and there are attempts left."""
        calls = [one.call for one in self._asked if one.call is not None]
        harmless = [
            call for call in calls if call.effect != "write" and call.attempt < ATTEMPTS_MAX
        ]
        if not calls or len(harmless) < len(self._asked):
            return False
        await asyncio.sleep(PAUSE_S * 2 ** (calls[0].attempt - 1))
        for call in calls:
            self._app.recording.again(call, _reason(error))
            await asyncio.wrap_future(call.done)
        return True

    # -- the response -----------------------------------------------------------------------------

    async def _respond(self, response: httpx2.Response) -> None:
        headers = back(response.headers.raw)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        session = response.headers.get("mcp-session-id", "")
        if session and not self._session:
            # the session begins with this response: what is asked in it later belongs to its book
            self._session = session
        reader = ServerSent() if kind == "text/event-stream" else None
        self._single = reader is None
        start = {"type": "http.response.start", "status": response.status_code, "headers": headers}
        await self._send(start)
        self._begun = True
        copy, long = bytearray(), Long()
        stated = response.headers.get("content-length", "")
        length = int(stated) if stated.isdecimal() else -1
        async for chunk in response.aiter_raw():
            if reader is not None:
                for data in reader.feed(chunk):
                    # a stream that is taken up again may repeat what was said
                    found = self._book.incoming(data, again=self._method == "GET")
                    self._app.recording.put(*(found.works if found is not None else ()))
                self._resumable = reader.resumable
            else:
                long.add(chunk)
                copy += chunk if long.size <= LINE_MAX else b""
                if long.size == length:
                    self._read(bytes(copy), long)
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        if reader is None and long.size != length:
            self._read(bytes(copy), long)
        self._closed(response.status_code, reader)
        await self._send({"type": "http.response.body", "body": b""})

    def _read(self, data: bytes, long: Long) -> None:
        """Look at a response that is one message."""
        if long.size > LINE_MAX:
            for asked in self._asked:
                if asked.call is not None and self._book.withdraw(asked):
                    self._app.recording.put(self._app.recording.unread(asked.call, long))
            return
        found = self._book.incoming(data) if data.strip() else None
        if found is not None:
            self._app.recording.put(*found.works)

    def _closed(self, status: int, reader: ServerSent | None) -> None:
        """The response is through: what it left unanswered stays so, unless its client may come back."""
        if status >= 400:
            for asked in self._asked:
                if asked.call is not None and self._book.withdraw(asked):
                    self._app.recording.put(self._rejected(asked, status))
        elif reader is None or not (reader.resumable and self._session):
            long = reader is not None and reader.unread
            ended = "an answer too long to be read" if long else "no answer in the response"
            self._conclude(ended, "error")

    def _rejected(self, asked: Asked, status: int) -> Any:
        assert asked.call is not None
        if status < 500:
            return self._app.recording.failed(asked.call, f"HTTP {status}")
        return self._app.recording.unanswered(asked.call, f"HTTP {status}", "error")

    # -- no response ------------------------------------------------------------------------------

    async def _left(self) -> None:
        """Returns when the client has gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _refused(self, error: Exception) -> None:
        """No response came: nothing was done if nobody was reached, else who knows."""
        unreached = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout))
        cause = _reason(error)
        for asked in self._asked:
            if asked.call is not None and self._book.withdraw(asked):
                work = (
                    self._app.recording.failed(asked.call, cause)
                    if unreached
                    else self._app.recording.unanswered(asked.call, cause, "error")
                )
                self._app.recording.put(work)
        self._app.say(cause)
        await self._answer(502, DIED, f"stator proxy: {cause}")

    async def _broken(self) -> None:
        """The response broke off. A stream that cannot be taken up again ends with an error."""
        waiting = [asked for asked in self._asked if self._book.waits(asked)]
        if self._resumable and self._session:
            await self._send({"type": "http.response.body", "body": b""})
            return
        self._conclude("the server broke off", "error")
        lines = [
            b"data: " + error_answer(asked.id, DIED, "stator proxy: the server broke off") + b"\n"
            for asked in waiting
        ]
        await self._send({"type": "http.response.body", "body": b"".join(lines)})

    async def _too_late(self, passing: asyncio.Future[None]) -> None:
        timeout = self._app.timeout
        cause = f"no answer within {timeout:g} s"
        waiting = [one for one in self._asked if one.call is not None and self._book.waits(one)]
        for asked in waiting:
            self._app.recording.put(*self._book.unanswered(asked, cause, "timeout"))
        if waiting and self._app.timeout_answer and not self._begun:
            passing.cancel()
            await asyncio.gather(passing, return_exceptions=True)
            await self._answer(504, TIMED_OUT, f"stator proxy: {cause}")

    async def _answer(self, status: int, code: int, text: str) -> None:
        """Answer in the server's stead: an error for each request that waits."""
        answers = [error_answer(asked.id, code, text).strip() for asked in self._asked]
        body = answers[0] if len(answers) == 1 else b"[" + b",".join(answers) + b"]"
        self._withdraw()
        if not answers:
            await _say(self._send, status, text)
            return
        await _whole(self._send, status, b"application/json", body)

    def _withdraw(self) -> None:
        for asked in self._asked:
            self._book.withdraw(asked)

    def _conclude(self, cause: str, otherwise: Unanswered) -> None:
        if self._session and self._resumable:
            return  # its client may come back for the answer
        waiting = [asked for asked in self._asked if self._book.withdraw(asked)]
        self._app.give_up(self._book, waiting, cause, otherwise)


def _reason(error: Exception) -> str:
    said = str(error) or type(error).__name__
    if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
        return f"the server could not be reached: {said:.200}"
    return f"the server went away: {said:.200}"


async def _say(send: Send, status: int, words: str) -> None:
    await _whole(send, status, b"text/plain; charset=utf-8", words.encode())


async def _whole(send: Send, status: int, kind: bytes, body: bytes) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
