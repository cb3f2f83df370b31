"""The parent's end of a measuring process, and the CPU time of commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

ROOT = Path(__file__).resolve().parent.parent
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""Where it is set, each start compiles the program again."""
ANSWER_SECONDS_MAX = 3_600.0  # nothing measured here takes an hour; a hung peer is killed


class ChildError(RuntimeError):
    """The peer raised, died or hung; the message is its own."""


class NotInstalled(RuntimeError):
    """The peer's library is not there."""


class Child:
    """One peer in a process of its own. `with Child(...).greet() as child: child.call("open", ...)`."""

    def __init__(self, target: str, cache: Path) -> None:
        command = [sys.executable, "-m", "bench.child", target, str(cache)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.peer: dict[str, Any] = {}

    def greet(self) -> Self:
        """Wait for the peer to be imported and to describe itself."""
        self.peer = self.receive()
        if "missing" in self.peer:
            self.stop()
            raise NotInstalled(self.peer["missing"])
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()

    def call(self, command: str, **arguments: Any) -> dict[str, Any]:
        self.send(command, **arguments)
        return self.receive()

    def send(self, command: str, **arguments: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildError("process died") from None

    def receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        timer = threading.Timer(ANSWER_SECONDS_MAX, self._process.kill)
        timer.daemon = True
        timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        if not line:
            raise ChildError(f"process died (exit code {self._process.wait()})")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise ChildError(reply["error"])
        return reply

    def stop(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()


def environment(**more: str) -> dict[str, str]:
    """What programs are started with: as here, but they keep their bytecode as installed programs do."""
    return {name: value for name, value in os.environ.items() if name != NO_BYTECODE} | more


def cpu_ms(
    command: Sequence[str], env: Mapping[str, str], cwd: Path, stdin: IO[bytes] | None = None
) -> float:
    """User and system time of one run of a command."""
    process = subprocess.Popen(
        command, env=environment(**env), cwd=cwd, stdin=stdin, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise ChildError(f"{Path(command[0]).name}: exit code {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1e3
