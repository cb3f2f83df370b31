"""Supervises the program of a run: starts it, keeps its output, and records how it ended.

A detached run starts it as `python -m stator.surfaces.supervisor FOLDER LOCK READY`: LOCK is an inherited
descriptor that holds the run's lock, READY a pipe for one JSON value (null once the program has started, else
the reason why it could not). `stator run` without `--detach` supervises in its own process.

The supervisor neither opens the store nor holds a lease. Unless it is killed, it always records how the run
ended. If it is killed, the program keeps running; when the program prints, it gets a broken pipe, as when a
terminal is closed.
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
from stator.model.sessions.detached_run import RunInfo, StopRequest
from stator.runtime.runs.folder import OutputWriter, RunFiles
from stator.runtime.runs.processes import start_ticks

READ_BYTES = 64 * 1024
HANDLED_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that are read from a socket, so that they never interrupt a system call."""
ENDING_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}

Echo = Callable[[bytes], None]


class Supervisor:
    """Supervises one run, from its first start to its end."""

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
        self._stop: StopRequest | None = None
        self._ended_by = 0
        self._kill_at: float | None = None

    def run(self, ready: Callable[[str | None], None]) -> RunInfo:
        """Run the program to its end; restart it if the run's policy allows that.

        `ready` is called with None once the program has started, or with the reason why it has not;
        in that case nothing is recorded.
        """
        with self._handling_events():
            problem = self._start_program()
            ready(problem)
            if problem is not None:
                return self._info
            code, again = self._wait_for_exit(), 0
            while decide.starts_again(self._info, code, again, told=self._is_ending):
                self._pause(decide.restart_wait_s(again))
                if self._is_ending:
                    break
                again += 1
                self._update_info(restarts=self._info.restarts + 1)
                problem = self._start_program()
                if problem is not None:
                    self._write_notice(f"stator: cannot restart the program: {problem}\n")
                    break
                code = self._wait_for_exit()
            at = time.time_ns() // 1000
            self._info = decide.ended(self._info, code, at=at, stop=self._stop, told=self._ended_by)
            self._files.write(self._info)
        return self._info

    @property
    def _is_ending(self) -> bool:
        return self._stop is not None or bool(self._ended_by)

    def _update_info(self, **fields: Any) -> None:
        self._info = msgspec.structs.replace(self._info, **fields)
        self._files.write(self._info)

    # -- the program ------------------------------------------------------------------------------

    def _start_program(self) -> str | None:
        """Start the program; return the reason if that fails, else None."""
        info = self._info
        environ = {
            **os.environ,
            "STATOR_STORE": info.store,
            "STATOR_SESSION": info.session,
            "STATOR_RUN": info.id,
            "STATOR_RUN_START": f"{info.finished}.{info.restarts}",
        }
        try:
            child = subprocess.Popen(  # the user's own command, without a shell
                info.command,
                cwd=info.cwd,
                env=environ,
                stdin=self._stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # A group of its own: a stop reaches what the program has started, and Ctrl-C comes to us alone.
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return getattr(error, "strerror", None) or str(error)
        assert child.stdout is not None
        try:
            self._update_info(
                child=child.pid, child_start=start_ticks(child.pid), supervisor=os.getpid()
            )
        except OSError as error:  # no later process could find the program
            _signal_group(child.pid, signal.SIGKILL)
            child.stdout.close()
            child.wait()
            return f"the run could not be recorded: {error.strerror}"
        os.set_blocking(child.stdout.fileno(), False)
        self._selector.register(child.stdout, selectors.EVENT_READ, self._read_output)
        self._child = child
        return None

    def _wait_for_exit(self) -> int:
        """Wait until the program has ended; return the exit code of the operating system."""
        child = self._child
        assert child is not None
        while not _has_ended(child.pid):
            self._dispatch_events(self._signal_ending(child.pid))
        if self._stop is not None:
            # Until it is reaped, no other process can have its pid or its group's id.
            _signal_group(child.pid, signal.SIGKILL)
        # What it printed last. The end of the pipe is not awaited: a program it left behind may hold it open.
        self._read_output()
        self._close_pipe()
        self._child = None
        return child.wait()

    def _signal_ending(self, pid: int) -> float | None:
        """Ask the program to end, or kill it after its grace period; return how long to wait."""
        if not self._is_ending:
            return None
        now = time.monotonic()
        if self._kill_at is None:
            _signal_group(pid, signal.SIGTERM if self._stop is not None else self._ended_by)
            self._kill_at = now + (self._stop.grace_s if self._stop else decide.GRACE_S)
        if now >= self._kill_at:
            _signal_group(pid, signal.SIGKILL)
            return 1.0
        return self._kill_at - now

    def _read_output(self) -> None:
        """Read what the program has printed so far."""
        pipe = self._child.stdout if self._child is not None else None
        if pipe is None or pipe.closed:
            return
        while True:
            try:
                data = os.read(pipe.fileno(), READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._close_pipe()
                return
            self._keep_output(data)

    def _write_notice(self, text: str) -> None:
        self._keep_output(text.encode())

    def _keep_output(self, data: bytes) -> None:
        self._output.write(data)
        if self._echo is not None:
            try:
                self._echo(data)
            except OSError:  # the reader has left; the run continues
                self._echo = None

    def _close_pipe(self) -> None:
        pipe = self._child.stdout if self._child is not None else None
        if pipe is not None and not pipe.closed:
            self._selector.unregister(pipe)
            pipe.close()

    # -- listening --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _handling_events(self) -> Iterator[None]:
        """Turn signals and requests into events; restore all handlers at the end."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        # our own write end keeps the pipe from reaching end of file when a requester closes it
        control, kept_open = self._files.listen()
        old = {number: signal.signal(number, lambda *_: None) for number in HANDLED_SIGNALS}
        wakeup = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._read_signals(ours))
        self._selector.register(control, selectors.EVENT_READ, lambda: self._read_requests(control))
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

    def _dispatch_events(self, timeout: float | None) -> None:
        for key, _ in self._selector.select(timeout):
            key.data()

    def _pause(self, seconds: float) -> None:
        """Wait before a restart; return early if the run is asked to end."""
        until = time.monotonic() + seconds
        while not self._is_ending and (left := until - time.monotonic()) > 0:
            self._dispatch_events(left)

    def _read_signals(self, line: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            numbers = line.recv(4096)
            for number in numbers:
                if number in ENDING_SIGNALS:
                    self._on_signal(number)

    def _on_signal(self, number: int) -> None:
        """Record a terminal interrupt as a person's stop request, any other signal as the cause of the end."""
        if number == signal.SIGINT and self._echo is not None:
            patience_s = 0.0 if self._stop is not None else decide.GRACE_S
            self._stop = StopRequest(by=self._info.by)
            self._kill_at = time.monotonic() + patience_s
            if self._child is not None:
                _signal_group(self._child.pid, signal.SIGINT)
        elif not self._ended_by:
            self._ended_by = number

    def _read_requests(self, control: int) -> None:
        """Read stop requests; the last one counts, so a shorter grace period can follow a longer one."""
        with contextlib.suppress(BlockingIOError):
            for line in os.read(control, READ_BYTES).splitlines():
                with contextlib.suppress(msgspec.DecodeError):
                    self._stop = msgspec.json.decode(line, type=StopRequest)
                    self._kill_at = None


def _has_ended(pid: int) -> bool:
    """Whether a child has ended; it is not reaped here."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal_group(pid: int, number: int) -> None:
    """Signal the process group of a child that is not reaped, so that its pid cannot be another process's."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def main() -> None:
    """Detach from the caller, take over the lock, and supervise the run."""
    folder, lock, ready = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    # The caller's own child ends here: it has nothing to reap, and we are no longer its child.
    if os.fork():
        os._exit(0)
    # A program that inherited the lock would hold it when we are killed: a lost run would look alive.
    os.set_inheritable(lock, False)
    os.set_inheritable(ready, False)

    def answer(problem: str | None) -> None:
        with contextlib.suppress(OSError):
            os.write(ready, msgspec.json.encode(problem))
        os.close(ready)
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), 2
        )  # stderr was the caller's pipe, which it may close now

    Supervisor(RunFiles(folder)).run(answer)


if __name__ == "__main__":
    main()
