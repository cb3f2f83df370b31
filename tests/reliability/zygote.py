"""A clean process that forks workers: a warm interpreter that never opened a store.

Run as `python -m reliability.zygote FD MODULE`. Over the socket FD it receives one JSON line per worker, `[task,
arguments]`, with a socket for that worker; it answers the pid. Tasks are the functions of the module.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


class Talk:
    """A worker's connection to its test: one JSON value per line."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._read = line.makefile("rb")

    def say(self, value: Any) -> None:
        self._line.sendall(json.dumps(value).encode() + b"\n")

    def hear(self) -> Any:
        """The next value, or None when the other side has ended."""
        line = self._read.readline()
        return json.loads(line) if line else None


def serve(control: socket.socket, tasks: ModuleType) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps; tests wait on pidfds
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 1)
        if not message:
            return
        task, arguments = json.loads(message)
        pid = os.fork()
        if pid == 0:
            control.close()
            work(getattr(tasks, task), Talk(socket.socket(fileno=descriptors[0])), arguments)
        os.close(descriptors[0])
        control.sendall(b"%d\n" % pid)


def work(task: Callable[..., Any], talk: Talk, arguments: list[Any]) -> None:
    """Run a task to its end, send its result and exit without cleanup."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        answer = {"done": task(talk, *arguments)}
    except BaseException as error:
        answer = {
            "error": getattr(error, "code", type(error).__name__),
            "what": str(error),
            "notes": getattr(error, "__notes__", []),
        }
    with contextlib.suppress(OSError):
        talk.say(answer)
    os._exit(0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), importlib.import_module(sys.argv[2]))
