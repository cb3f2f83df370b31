"""Over stdio: the server is a program started here, and each side's lines are the other's.

Two directions, each read by a loop of its own. A line from the client that holds a call waits for its
intent to be on disk, and with it, since order is kept, what the client says after it; nothing else
waits for the record.
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
from stator.surfaces.proxy.classify import Answer, classify, error_answer, shown
from stator.surfaces.proxy.framing import LINE_MAX, Line, Lines, Part
from stator.surfaces.proxy.pending_requests import Asked, Book, Outgoing
from stator.surfaces.proxy.recorder import Call, Recording, Unanswered

CHUNK = 65_536
LEAVE_S = 5.0
"""How long a server may take to finish when the client has left."""
HURRY_S = 1.0
"""The same when we were told to end, and between one signal to it and the next."""
LOOK_S = 0.5
"""How often it is asked whether a server that says nothing is still there."""
RESTARTS_MAX, RESTARTS_S = 5, 60.0
"""Restarts within so many seconds; a server that dies more often is let go."""
ATTEMPTS_MAX = 3
HANDSHAKE_S = 30.0
SLEEP_MAX_S = 3_600.0

DIED, TIMED_OUT, NOT_RECORDED = -32_000, -32_001, -32_002
"""Codes of the errors that are ours."""


@dataclass(frozen=True)
class Options:
    """What may be chosen."""

    timeout: float | None = None
    timeout_answer: bool = False
    restart: bool = False
    line_max: int = LINE_MAX


class Client:
    """Where lines for the client go; one after the other, whoever writes them."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._lock = threading.RLock()
        self._midline = False
        self.gone = False

    def pass_on(self, data: bytes, *, more: bool = False) -> None:
        """Pass bytes on as they are. Who has `more` of the same line has the client for itself until
        that is through."""
        held = self._midline
        if not held:
            self._lock.acquire()
        self._midline = more
        try:
            _write(self._out, data)
        except OSError:
            self.gone = True
        if not more:
            self._lock.release()

    def answer(self, data: bytes) -> None:
        """Say something of our own."""
        with self._lock:
            self.pass_on(data)


class Proxy:
    """One client, one server."""

    def __init__(
        self,
        command: Sequence[str],
        recording: Recording,
        options: Options,
        *,
        say: Callable[[str], None],
        source: int = 0,
        out: int = 1,
    ) -> None:
        self._command = list(command)
        self._recording = recording
        self._options = options
        self._say = say
        self._source = source
        self._client = Client(out)
        self._book = Book(recording)
        self._handshake: list[tuple[str, bytes]] = []
        self._restarts: list[float] = []
        self._sending = threading.RLock()
        self._leaving = False
        self._told = False
        self._due: SimpleQueue[tuple[float, Asked]] = SimpleQueue()
        self._wake, self._waker = os.pipe()
        self._server = self._start()

    def run(self) -> int:
        """Pass messages on until one side has ended; the exit code."""
        reader = threading.Thread(target=self._from_server, name="stator server", daemon=True)
        watcher = threading.Thread(target=self._watching, name="stator timeouts", daemon=True)
        with self._signals():
            reader.start()
            if self._options.timeout is not None:
                watcher.start()
            ended = self._from_client()
            self._leaving = True
            if ended:
                self._end_server(reader)
            reader.join(HURRY_S * 3)
            self._stop_server(HURRY_S)
            reader.join(HURRY_S)
        if ended:
            self._give_up("the client left", "cancelled")
        else:
            self._give_up("the server ended", "error")
        if not reader.is_alive():  # else its numbers must not become those of other files
            self._close_pipes()
            os.close(self._wake)
            os.close(self._waker)
        code = self._server.wait()
        return 0 if ended else 128 - code if code < 0 else code

    # -- from the client --------------------------------------------------------------------------

    def _from_client(self) -> bool:
        """Pass on what the client says; True if it was the client who ended it."""
        lines = Lines(self._options.line_max)
        while not self._client.gone:
            ready, _, _ = select.select([self._source, self._wake], [], [])
            if self._wake in ready:
                return self._told
            try:
                chunk = os.read(self._source, CHUNK)
            except OSError:  # a terminal that is gone
                chunk = b""
            for piece in lines.feed(chunk) if chunk else lines.close():
                self._send(piece)
            if not chunk:
                break
        return True

    def _send(self, piece: Line | Part) -> None:
        if isinstance(piece, Part):
            if piece.last is not None:
                # the server can do nothing with it before its end is there: on record first
                work = self._recording.raw("too long to be read, from the client", piece.last)
                work.done = Future()
                self._recording.put(work)
                if (error := work.done.exception()) is not None:
                    self._say(f"a long message could not be recorded: {error}")
            self._to_server(piece.data)
            return
        with self._sending:
            found = self._book.outgoing(piece.data, keep=self._options.restart)
            if not self._intended(found):
                return
            if found.handshake and self._options.restart:
                self._handshake.append((found.asked[0].id if found.asked else "", piece.data))
            self._to_server(piece.data)
        self._recording.put(*found.works)
        for asked in found.asked:
            self._watch(asked)

    def _intended(self, found: Outgoing) -> bool:
        """Wait until the calls in it are on disk; where they cannot be, they are not made."""
        problem = _problem(found.calls)
        if problem is None:
            return True
        for asked in found.asked:
            if self._book.withdraw(asked):
                text = f"stator proxy: the call could not be recorded and was not made: {problem}"
                self._client.answer(error_answer(asked.id, NOT_RECORDED, text))
        self._say(f"a call was not made, since it could not be recorded: {problem}")
        return False

    def _to_server(self, data: bytes) -> None:
        # a server that is gone is noticed where its answers are read
        with self._sending, contextlib.suppress(OSError, ValueError):
            assert self._server.stdin is not None
            out, view = self._server.stdin.fileno(), memoryview(data)
            while view:
                try:
                    view = view[os.write(out, view) :]
                except BlockingIOError:  # it does not read now; it may never do so
                    if self._told or self._server.poll() is not None:
                        return
                    select.select([], [out], [], LOOK_S)

    def _watch(self, asked: Asked) -> None:
        if self._options.timeout is not None and asked.call is not None:
            self._due.put((time.monotonic() + self._options.timeout, asked))

    def _watching(self) -> None:
        """Wait for one after the other: all have the same time, so they are due as they came."""
        while True:
            at, asked = self._due.get()
            while (left := at - time.monotonic()) > 0:
                time.sleep(min(left, SLEEP_MAX_S))
            self._late(asked)

    def _late(self, asked: Asked) -> None:
        if not self._book.waits(asked):
            return
        cause = f"no answer within {self._options.timeout:g} s"
        self._recording.put(*self._book.unanswered(asked, cause, "timeout"))
        if self._options.timeout_answer and self._book.tell(asked):
            self._client.answer(error_answer(asked.id, TIMED_OUT, f"stator proxy: {cause}"))

    # -- from the server --------------------------------------------------------------------------

    def _from_server(self) -> None:
        """Pass on what the server says, also after it was started again."""
        try:
            while True:
                for piece in self._pieces():
                    self._receive(piece)
                if self._leaving or not self._go_on():
                    break
        finally:
            os.write(self._waker, b".")

    def _pieces(self) -> Iterator[Line | Part]:
        lines = Lines(self._options.line_max)
        assert self._server.stdout is not None
        source = self._server.stdout.fileno()
        while True:
            ready, _, _ = select.select([source], [], [], LOOK_S)
            if not ready:
                if self._server.poll() is not None:  # what it started still holds the pipe
                    break
                continue
            chunk = os.read(source, CHUNK)
            if not chunk:
                break
            yield from lines.feed(chunk)
        yield from lines.close()

    def _receive(self, piece: Line | Part) -> None:
        if isinstance(piece, Part):
            self._receive_long(piece)
            return
        if not piece.data.strip():
            return
        found = self._book.incoming(piece.data)
        if found is None:
            self._say(f"the server wrote what is no message: {shown(piece.data)}")
            self._recording.put(self._recording.raw("no message, from the server", piece.data))
            return
        # handed over first: what the client asks next may depend on it, such as what a tool may do
        self._recording.put(*found.works)
        if found.forward:
            self._client.pass_on(_terminated(piece.data))

    def _receive_long(self, piece: Part) -> None:
        if piece.last is None:
            self._client.pass_on(piece.data, more=True)
            return
        self._client.pass_on(_terminated(piece.data))
        self._recording.put(*self._book.incoming_long(piece.last).works)

    # -- the server's life ------------------------------------------------------------------------

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

    def _go_on(self) -> bool:
        """The server has ended by itself: say so to whoever waits, or start it again."""
        self._server.poll()
        if not self._may_restart():
            self._give_up("the server ended", "error")
            return False
        with self._sending:
            waiting = self._book.leave()
            self._stop_server(HURRY_S)
            self._close_pipes()
            self._say("the server ended; starting it again")
            try:
                self._server = self._start()
                self._greet()
            except (InvalidInput, OSError):
                waiting = [*waiting, *self._book.leave()]
                for asked in waiting:
                    self._abandon(asked, "the server ended", "error")
                return False
            for asked in waiting:
                self._retry(asked)
        return True

    def _may_restart(self) -> bool:
        if not self._options.restart or self._leaving or self._client.gone:
            return False
        now = time.monotonic()
        self._restarts = [at for at in self._restarts if now - at < RESTARTS_S] + [now]
        return len(self._restarts) <= RESTARTS_MAX

    def _greet(self) -> None:
        """Begin with the new server as the client began with the old one; its answer is not news."""
        lines = Lines(self._options.line_max)
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
                    if any(isinstance(one, Answer) and one.id == id for one in messages):
                        id = ""
                    else:
                        self._receive(piece)

    def _retry(self, asked: Asked) -> None:
        """Send a call again that does no harm; of anything else, say that it is lost."""
        call = asked.call
        harmless = call is not None and call.effect != "write" and call.attempt < ATTEMPTS_MAX
        if call is None or not harmless or asked.told or asked.cancelled:
            self._abandon(asked, "the server ended", "error")
            return
        self._recording.again(call, "the server ended")
        if _problem([call]) is not None:
            self._abandon(asked, "the server ended", "error")
            return
        self._book.enter(asked)
        self._to_server(asked.data)

    def _abandon(self, asked: Asked, cause: str, otherwise: Unanswered) -> None:
        self._recording.put(*self._book.unanswered(asked, cause, otherwise))
        if not (asked.told or asked.cancelled or self._leaving):
            text = f"stator proxy: {cause} before it answered"
            self._client.answer(error_answer(asked.id, DIED, text))

    def _give_up(self, cause: str, otherwise: Unanswered) -> None:
        for asked in self._book.leave():
            self._abandon(asked, cause, otherwise)

    def _end_server(self, reader: threading.Thread) -> None:
        """The client has left: let the server finish what it is at, then end it."""
        with contextlib.suppress(OSError):
            assert self._server.stdin is not None
            self._server.stdin.close()
        if self._told:
            self._server.terminate()
        reader.join(HURRY_S if self._told else LEAVE_S)
        if self._server.poll() is None:
            self._server.terminate()

    def _stop_server(self, seconds: float) -> None:
        """Wait for it to end; then say so; then make it."""
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
        """Asked to end, we end as if the client had left."""

        def asked(number: int, frame: object) -> None:
            self._told = True
            os.write(self._waker, b".")

        wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, asked) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _problem(calls: Sequence[Call]) -> str | None:
    """Why the intents of some calls are not on disk; None once they are."""
    for call in calls:
        error = call.done.exception()
        if error is not None:
            return str(error)[:300]
    return None


def _terminated(data: bytes) -> bytes:
    """A line with its end: the last one of a server that died may have none, and ours may follow."""
    return data if data.endswith(b"\n") else data + b"\n"


def _write(out: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(out, view) :]
