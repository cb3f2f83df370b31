"""Runs the proxy over stdio: starts the server and passes lines between it and the client.

Each direction has its own loop. A line with a call waits until its intent is on disk, and so do the client's
later lines, since order is kept. Nothing else waits for the record.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue

from stator.errors import InvalidInput
from stator.model.log.shown_text import without_secrets
from stator.surfaces.proxy.classify import RpcResponse, classify, error_answer, excerpt
from stator.surfaces.proxy.frames import (
    LINE_MAX,
    LinePart,
    LineSplitter,
    WholeLine,
)
from stator.surfaces.proxy.pending_requests import Outgoing, PendingRequest, PendingRequests
from stator.surfaces.proxy.recorder import ProxiedCall, ProxyRecorder, UnansweredStatus

CHUNK = 65_536
FINISH_S = 5.0
"""How long a server may take to finish after the client has left."""
SIGNAL_S = 1.0
"""The same after the proxy received a signal; also the time between two signals to the server."""
POLL_S = 0.5
"""How often to check whether a silent server still runs."""
RESTARTS_MAX, RESTARTS_S = 5, 60.0
"""Maximum number of restarts within this many seconds; a server that dies more often is not restarted."""
ATTEMPTS_MAX = 3
HANDSHAKE_S = 30.0
SLEEP_MAX_S = 3_600.0

DIED, TIMED_OUT, NOT_RECORDED = -32_000, -32_001, -32_002
"""JSON-RPC codes of the proxy's own errors."""


@dataclass(frozen=True)
class StdioOptions:
    """The options of a proxy over stdio."""

    timeout: float | None = None
    timeout_answer: bool = False
    restart: bool = False
    line_max: int = LINE_MAX


class ClientOutput:
    """Writes to the client: one line at a time, from several threads."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._lock = threading.RLock()
        self._mid_line = False
        self.gone = False

    def pass_on(self, data: bytes, *, more: bool = False) -> None:
        """Pass bytes on unchanged. With `more`, the caller keeps the lock until it has written the rest of
        the line."""
        held = self._mid_line
        if not held:
            self._lock.acquire()
        self._mid_line = more
        try:
            _write(self._out, data)
        except OSError:
            self.gone = True
        if not more:
            self._lock.release()

    def answer(self, data: bytes) -> None:
        """Write an answer of the proxy's own."""
        with self._lock:
            self.pass_on(data)


class StdioProxy:
    """Passes messages between one client and one server."""

    def __init__(
        self,
        command: Sequence[str],
        recorder: ProxyRecorder,
        options: StdioOptions,
        *,
        say: Callable[[str], None],
        source: int = 0,
        out: int = 1,
    ) -> None:
        self._command = list(command)
        self._recorder = recorder
        self._options = options
        self._say = say
        self._source = source
        self._client = ClientOutput(out)
        self._pending = PendingRequests(recorder)
        self._handshake: list[tuple[str, bytes]] = []
        self._restarts: list[float] = []
        # held from the intent of a call until it is sent: a restart in between would send it twice
        self._sending = threading.RLock()
        self._leaving = False
        self._must_end = False
        self._deadlines: SimpleQueue[tuple[float, PendingRequest]] = SimpleQueue()
        self._wake, self._waker = os.pipe()  # ends the select that waits for the client
        self._server = self._start()

    def run(self) -> int:
        """Pass messages on until one side has ended; return the exit code."""
        reader = threading.Thread(target=self._forward_server, name="stator server", daemon=True)
        watcher = threading.Thread(
            target=self._wait_for_deadlines, name="stator timeouts", daemon=True
        )
        with self._signals():
            reader.start()
            if self._options.timeout is not None:
                watcher.start()
            ended = self._forward_client()
            self._leaving = True
            if ended:
                self._let_server_finish(reader)
            reader.join(SIGNAL_S * 3)
            self._stop_server(SIGNAL_S)
            reader.join(SIGNAL_S)
        if ended:
            self._abandon_all("the client left", "cancelled")
        else:
            self._abandon_all("the server ended", "error")
        if not reader.is_alive():
            # a reader that still runs could otherwise read from a file that reuses the descriptor
            self._close_pipes()
            os.close(self._wake)
            os.close(self._waker)
        code = self._server.wait()
        return 0 if ended else 128 - code if code < 0 else code

    # -- from the client --------------------------------------------------------------------------

    def _forward_client(self) -> bool:
        """Pass on the client's lines; return True if the client ended, False if the server did."""
        lines = LineSplitter(self._options.line_max)
        while not self._client.gone:
            ready, _, _ = select.select([self._source, self._wake], [], [])
            if self._wake in ready:
                return self._must_end
            try:
                chunk = os.read(self._source, CHUNK)
            except OSError:  # a terminal that was closed
                chunk = b""
            for piece in lines.feed(chunk) if chunk else lines.close():
                self._send(piece)
            if not chunk:
                break
        return True

    def _send(self, piece: WholeLine | LinePart) -> None:
        if isinstance(piece, LinePart):
            if piece.last is not None:
                # the server cannot act on it before it has the end: record it first
                write = self._recorder.raw("too long to be read, from the client", piece.last)
                write.done = Future()
                self._recorder.put(write)
                if (error := write.done.exception()) is not None:
                    self._say(f"a long message could not be recorded: {error}")
            self._to_server(piece.data)
            return
        with self._sending:
            found = self._pending.outgoing(piece.data, keep=self._options.restart)
            if not self._intents_recorded(found):
                return
            if found.handshake and self._options.restart:
                self._handshake.append((found.requests[0].id if found.requests else "", piece.data))
            self._to_server(piece.data)
        self._recorder.put(*found.writes)
        for request in found.requests:
            self._set_deadline(request)

    def _intents_recorded(self, found: Outgoing) -> bool:
        """Wait until the intents of its calls are on disk; if that fails, the calls are not made."""
        problem = _intent_error(found.calls)
        if problem is None:
            return True
        for request in found.requests:
            if self._pending.withdraw(request):
                text = f"stator proxy: the call could not be recorded and was not made: {problem}"
                self._client.answer(error_answer(request.id, NOT_RECORDED, text))
        self._say(f"a call was not made, since it could not be recorded: {problem}")
        return False

    def _to_server(self, data: bytes) -> None:
        # a server that has ended is noticed where its output is read
        with self._sending, contextlib.suppress(OSError, ValueError):
            assert self._server.stdin is not None
            out, view = self._server.stdin.fileno(), memoryview(data)
            while view:
                try:
                    view = view[os.write(out, view) :]
                except BlockingIOError:  # it does not read now, and may never read again
                    if self._must_end or self._server.poll() is not None:
                        return
                    select.select([], [out], [], POLL_S)

    def _set_deadline(self, request: PendingRequest) -> None:
        if self._options.timeout is not None and request.call is not None:
            self._deadlines.put((time.monotonic() + self._options.timeout, request))

    def _wait_for_deadlines(self) -> None:
        """Wait for one deadline after the other: all calls have the same timeout, so they expire in order."""
        while True:
            at, request = self._deadlines.get()
            while (left := at - time.monotonic()) > 0:
                time.sleep(min(left, SLEEP_MAX_S))
            self._timed_out(request)

    def _timed_out(self, request: PendingRequest) -> None:
        if not self._pending.is_waiting(request):
            return
        cause = f"no answer within {self._options.timeout:g} s"
        self._recorder.put(*self._pending.unanswered(request, cause, "timeout"))
        if self._options.timeout_answer and self._pending.answer_instead(request):
            self._client.answer(error_answer(request.id, TIMED_OUT, f"stator proxy: {cause}"))

    # -- from the server --------------------------------------------------------------------------

    def _forward_server(self) -> None:
        """Pass on the server's lines, also after a restart."""
        try:
            while True:
                for piece in self._server_pieces():
                    self._receive(piece)
                if self._leaving or not self._restart_server():
                    break
        finally:
            os.write(self._waker, b".")

    def _server_pieces(self) -> Iterator[WholeLine | LinePart]:
        lines = LineSplitter(self._options.line_max)
        assert self._server.stdout is not None
        source = self._server.stdout.fileno()
        while True:
            ready, _, _ = select.select([source], [], [], POLL_S)
            if not ready:
                if self._server.poll() is not None:  # a child of it still holds the pipe open
                    break
                continue
            chunk = os.read(source, CHUNK)
            if not chunk:
                break
            yield from lines.feed(chunk)
        yield from lines.close()

    def _receive(self, piece: WholeLine | LinePart) -> None:
        if isinstance(piece, LinePart):
            self._receive_long(piece)
            return
        if not piece.data.strip():
            return
        found = self._pending.incoming(piece.data)
        if found is None:
            self._say(f"the server wrote a line that is not a message: {excerpt(piece.data)}")
            self._recorder.put(self._recorder.raw("no message, from the server", piece.data))
            return
        # queued first: the client's next call may depend on it, for example on a tool's effect
        self._recorder.put(*found.writes)
        if found.forward:
            self._client.pass_on(_with_newline(piece.data))

    def _receive_long(self, piece: LinePart) -> None:
        if piece.last is None:
            self._client.pass_on(piece.data, more=True)
            return
        self._client.pass_on(_with_newline(piece.data))
        self._recorder.put(*self._pending.incoming_long(piece.last).writes)

    # -- starting and ending the server -----------------------------------------------------------

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            server = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"cannot run {self._command[0]!r:.200}: {error}", hint="the command comes after --"
            ) from None
        assert server.stdin is not None
        os.set_blocking(server.stdin.fileno(), False)
        return server

    def _restart_server(self) -> bool:
        """Restart a server that ended by itself, or give up all requests that wait."""
        self._server.poll()
        if not self._may_restart():
            self._abandon_all("the server ended", "error")
            return False
        with self._sending:
            waiting = self._pending.take_all()
            self._stop_server(SIGNAL_S)
            self._close_pipes()
            self._say("the server ended; starting it again")
            try:
                self._server = self._start()
                self._repeat_handshake()
            except (InvalidInput, OSError):
                waiting = [*waiting, *self._pending.take_all()]
                for request in waiting:
                    self._abandon(request, "the server ended", "error")
                return False
            for request in waiting:
                self._retry(request)
        return True

    def _may_restart(self) -> bool:
        if not self._options.restart or self._leaving or self._client.gone:
            return False
        now = time.monotonic()
        self._restarts = [at for at in self._restarts if now - at < RESTARTS_S] + [now]
        return len(self._restarts) <= RESTARTS_MAX

    def _repeat_handshake(self) -> None:
        """Repeat the client's handshake with the new server and drop the response: the client has one."""
        lines = LineSplitter(self._options.line_max)
        assert self._server.stdout is not None
        source = self._server.stdout.fileno()
        for id, data in self._handshake:
            self._to_server(data)
            deadline = time.monotonic() + HANDSHAKE_S
            while id:
                ready, _, _ = select.select([source], [], [], max(0, deadline - time.monotonic()))
                chunk = os.read(source, CHUNK) if ready else b""
                if not chunk:
                    raise OSError("the server did not begin again")
                for piece in lines.feed(chunk):
                    messages = classify(piece.data) or []
                    if any(isinstance(one, RpcResponse) and one.id == id for one in messages):
                        id = ""
                    else:
                        self._receive(piece)

    def _retry(self, request: PendingRequest) -> None:
        """Send a call again if that is safe; abandon every other request."""
        call = request.call
        harmless = call is not None and call.effect != "write" and call.attempt < ATTEMPTS_MAX
        if call is None or not harmless or request.answered_by_proxy or request.cancelled:
            self._abandon(request, "the server ended", "error")
            return
        self._recorder.retry(call, "the server ended")
        if _intent_error([call]) is not None:
            self._abandon(request, "the server ended", "error")
            return
        self._pending.add(request)
        self._to_server(request.data)

    def _abandon(
        self, request: PendingRequest, cause: str, status_if_read: UnansweredStatus
    ) -> None:
        self._recorder.put(*self._pending.unanswered(request, cause, status_if_read))
        if not (request.answered_by_proxy or request.cancelled or self._leaving):
            text = f"stator proxy: {cause} before it answered"
            self._client.answer(error_answer(request.id, DIED, text))

    def _abandon_all(self, cause: str, status_if_read: UnansweredStatus) -> None:
        for request in self._pending.take_all():
            self._abandon(request, cause, status_if_read)

    def _let_server_finish(self, reader: threading.Thread) -> None:
        """Close the server's input, let it finish its work, then end it."""
        with contextlib.suppress(OSError):
            assert self._server.stdin is not None
            self._server.stdin.close()
        if self._must_end:
            self._server.terminate()
        reader.join(SIGNAL_S if self._must_end else FINISH_S)
        if self._server.poll() is None:
            self._server.terminate()

    def _stop_server(self, seconds: float) -> None:
        """Wait for the server to end; then send SIGTERM, then SIGKILL."""
        for number in (0, signal.SIGTERM, signal.SIGKILL):
            self._server.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(seconds)
                break

    def _close_pipes(self) -> None:
        for pipe in (self._server.stdin, self._server.stdout):
            if pipe is not None:
                pipe.close()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """End on a signal as if the client had left."""

        def on_signal(number: int, frame: object) -> None:
            self._must_end = True
            os.write(self._waker, b".")

        wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, on_signal) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _intent_error(calls: Sequence[ProxiedCall]) -> str | None:
    """Wait for the intents of some calls; return why one could not be written, else None."""
    for call in calls:
        error = call.done.exception()
        if error is not None:
            return without_secrets(str(error))[:300]
    return None


def _with_newline(data: bytes) -> bytes:
    """Add the line break that the last line of a dead server may lack: a line of ours may follow."""
    return data if data.endswith(b"\n") else data + b"\n"


def _write(out: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(out, view) :]
