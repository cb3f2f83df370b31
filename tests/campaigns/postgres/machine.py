"""A machine as far as a store can tell: a network, process ids, a host name and a home of its own."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from campaigns.postgres import programs
from campaigns.postgres.network import Network
from reliability.support import source

NEEDS = ("ip", "unshare")


class Machine:
    """Runs programs of its own. Needs root."""

    def __init__(self, network: Network, name: str, folder: Path) -> None:
        self._namespace = network.namespace(name)
        self._name = name
        self.home = folder / name
        self.home.mkdir()

    @contextlib.contextmanager
    def started(self, *words: object, **env: str) -> Iterator[subprocess.Popen[str]]:
        """A program that runs there; at the end it is gone, with everything it started."""
        program = shlex.join([sys.executable, *map(str, words)])
        # The first process of a machine cannot be killed from inside: that is the shell.
        inside = f"echo {self._name} > /proc/sys/kernel/hostname; {program}; exit $?"
        line = ("netns", "exec", self._namespace, programs.program("unshare"))
        apart = ("--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "sh", "-c", inside)
        own = {"HOME": str(self.home), "PATH": os.environ["PATH"], "PYTHONPATH": source()[0], **env}
        with subprocess.Popen(
            [programs.program("ip"), *line, *apart],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.home,
            env=own,
        ) as process:
            try:
                yield process
            finally:
                programs.kill_all(process.pid)

    def run(self, *words: object, **env: str) -> str:
        """Run a program to its end; what it wrote."""
        with self.started(*words, **env) as process:
            return process.communicate(timeout=programs.PATIENCE_S)[0]
