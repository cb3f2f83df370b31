"""The supervisor of a detached run: starts the program, keeps its output, and puts its end on record.

Run as `python -m stator.surfaces.supervisor FOLDER LOCK READY`, where LOCK is an inherited descriptor
that holds the run's lock and READY a pipe for one JSON value: null when the program has started, else
why it could not. `stator run` without `--detach` is the same in its own process.

It knows nothing of the session: it neither opens the store nor holds a lease. Whatever happens to it
short of being killed, it writes down how the run ended. If it is killed, the program is left alone; one
that prints then gets a broken pipe, as when a terminal is closed.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from stator.model.sessions import detached_run as decide
from stator.model.sessions.detached_run import RunInfo, Stop
from stator.runtime.runs.folder import OutputWriter, RunFiles
from stator.runtime.runs.processes import start_ticks

READ = 64 * 1024
HEARD = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that are read from a socket instead of interrupting."""
ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}

Echo = Callable[[bytes], None]


class Supervisor:
    """Watches over one run, from its first start to its end."""

    def __init__(
        self, files: RunFiles, *, echo: Echo | None = None, stdin: int | None = subprocess.DEVNULL
    ) -> None:
        self._files = files
        self._info = files.read()
        self._echo = echo
        self._stdin = stdin
        self._output = OutputWriter(files)
        self._selector = selectors.DefaultSelector()
        self._child: subprocess.Popen[bytes] | None = None
        self._stop: Stop | None = None
        self._told = 0
        self._kill_at: float | None = None

    def run(self, ready: Callable[[str | None], None]) -> RunInfo:
        """Run the program to its end, starting it again where its policy says so.

        `ready` is told None when it has started, or why it has not; then nothing is on record.
        """
        with self._listening():
            problem = self._begin()
            ready(problem)
            if problem is not None:
                return self._info
            code, again = self._watch(), 0
            while decide.starts_again(self._info, code, again, told=self._is_ending):
                self._pause(decide.restart_wait_s(again))
                if self._is_ending:
                    break
                again += 1
                self._put(restarts=self._info.restarts + 1)
                problem = self._begin()
                if problem is not None:
                    self._say(f"stator: cannot run it again: {problem}\n")
                    break
                code = self._watch()
            at = time.time_ns() // 1000
            self._info = decide.ended(self._info, code, at=at, stop=self._stop, told=self._told)
            self._files.write(self._info)
        return self._info

    @property
    def _is_ending(self) -> bool:
        return self._stop is not None or bool(self._told)

    def _put(self, **fields: Any) -> None:
        self._info = msgspec.structs.replace(self._info, **fields)
        self._files.write(self._info)

    # -- the program ------------------------------------------------------------------------------

    def _begin(self) -> str | None:
        """Start the program; why it could not be, if so."""
        info = self._info
        environ = {
            **os.environ,
            "STATOR_STORE": info.store,
            "STATOR_SESSION": info.session,
            "STATOR_RUN": info.id,
        }
        try:
            child = subprocess.Popen(  # the user's own command, without a shell
                info.command,
                cwd=info.cwd,
                env=environ,
                stdin=self._stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return getattr(error, "strerror", None) or str(error)
        assert child.stdout is not None
        try:
            self._put(child=child.pid, child_start=start_ticks(child.pid), supervisor=os.getpid())
        except OSError as error:  # nobody could find it again
            _signal_group(child.pid, signal.SIGKILL)
            child.stdout.close()
            child.wait()
            return f"nothing could be put on record: {error.strerror}"
        os.set_blocking(child.stdout.fileno(), False)
        self._selector.register(child.stdout, selectors.EVENT_READ, self._pump)
        self._child = child
        return None

    def _watch(self) -> int:
        """Until the program has ended: its exit code, as the operating system gave it."""
        child = self._child
        assert child is not None
        while not _has_ended(child.pid):
            self._turn(self._signal_ending(child.pid))
        if self._stop is not None:
            # While it is not reaped, no other process can have its number, or its group's.
            _signal_group(child.pid, signal.SIGKILL)
        self._pump()
        self._close_pipe()
        self._child = None
        return child.wait()

    def _signal_ending(self, pid: int) -> float | None:
        """Ask the program to end, or kill it when the grace is over; how long to wait now."""
        if not self._is_ending:
            return None
        now = time.monotonic()
        if self._kill_at is None:
            _signal_group(pid, signal.SIGTERM if self._stop is not None else self._told)
            self._kill_at = now + (self._stop.grace_s if self._stop else decide.GRACE_S)
        if now >= self._kill_at:
            _signal_group(pid, signal.SIGKILL)
            return 1.0
        return self._kill_at - now

    def _pump(self) -> None:
        """Take what the program has printed so far."""
        pipe = self._child.stdout if self._child is not None else None
        if pipe is None or pipe.closed:
            return
        while True:
            try:
                data = os.read(pipe.fileno(), READ)
            except BlockingIOError:
                return
            if not data:
                self._close_pipe()
                return
            self._keep(data)

    def _say(self, text: str) -> None:
        self._keep(text.encode())

    def _keep(self, data: bytes) -> None:
        self._output.write(data)
        if self._echo is not None:
            try:
                self._echo(data)
            except OSError:  # whoever read it has gone; the run has not
                self._echo = None

    def _close_pipe(self) -> None:
        pipe = self._child.stdout if self._child is not None else None
        if pipe is not None and not pipe.closed:
            self._selector.unregister(pipe)
            pipe.close()

    # -- listening --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Hear signals and requests as data, and leave everything as it was."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        control, kept_open = self._files.listen()
        old = {number: signal.signal(number, lambda *_: None) for number in HEARD}
        wakeup = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._heard(ours))
        self._selector.register(control, selectors.EVENT_READ, lambda: self._asked(control))
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in old.items():
                signal.signal(number, handler)
            self._selector.close()
            self._output.close()
            os.close(control)
            os.close(kept_open)
            ours.close()
            theirs.close()

    def _turn(self, timeout: float | None) -> None:
        for key, _ in self._selector.select(timeout):
            key.data()

    def _pause(self, seconds: float) -> None:
        """Wait before a restart, unless somebody ends it."""
        until = time.monotonic() + seconds
        while not self._is_ending and (left := until - time.monotonic()) > 0:
            self._turn(left)

    def _heard(self, line: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            numbers = line.recv(4096)
            for number in numbers:
                if number in ENDING:
                    self._on_signal(number)

    def _on_signal(self, number: int) -> None:
        """An interrupt on a terminal is a person's; anything else that ends us is just a fact."""
        if number == signal.SIGINT and self._echo is not None:
            patience_s = 0.0 if self._stop is not None else decide.GRACE_S
            self._stop = Stop(by=self._info.by)
            self._kill_at = time.monotonic() + patience_s
            if self._child is not None:
                _signal_group(self._child.pid, signal.SIGINT)
        elif not self._told:
            self._told = number

    def _asked(self, control: int) -> None:
        """The last request counts: a shorter grace can follow a longer one."""
        with contextlib.suppress(BlockingIOError):
            for line in os.read(control, READ).splitlines():
                with contextlib.suppress(msgspec.DecodeError):
                    self._stop = msgspec.json.decode(line, type=Stop)
                    self._kill_at = None


def _has_ended(pid: int) -> bool:
    """Whether a child has ended, leaving it to be reaped later."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal_group(pid: int, number: int) -> None:
    """To the group our child leads; it is our child, and not reaped, so the number is its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def main() -> None:
    """Leave whoever called, take the lock over, and watch."""
    folder, lock, ready = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if os.fork():
        os._exit(0)
    os.set_inheritable(lock, False)
    os.set_inheritable(ready, False)

    def answer(problem: str | None) -> None:
        with contextlib.suppress(OSError):
            os.write(ready, msgspec.json.encode(problem))
        os.close(ready)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the other end of what was our stderr

    Supervisor(RunFiles(folder)).run(answer)


if __name__ == "__main__":
    main()
