"""Finds the programs of the campaign and runs them, as an unprivileged user where the tests run as root.

PostgreSQL refuses to run as root. Everything here is of Debian; what is missing is named by its package.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 60.0
"""How long anything may take before the campaign gives up; no law depends on it."""
USER = "postgres"
BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name)
PACKAGES = {
    **dict.fromkeys(("initdb", "pg_ctl", "pg_basebackup", "pg_rewind", "postgres"), "postgresql"),
    "ip": "iproute2",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "pgbouncer": "pgbouncer",
    "patroni": "patroni",
    "etcd": "etcd-server",
}
CLONE_NEWNET = 0x40000000


class MissingProgram(Exception):
    """A program is not on this machine; the message names Debian's package."""


def program(name: str) -> str:
    """The path of a program."""
    places = [str(BINARIES[-1])] if BINARIES and PACKAGES[name] == "postgresql" else []
    found = shutil.which(name, path=os.pathsep.join([*places, os.environ["PATH"], "/usr/sbin"]))
    if found is None:
        raise MissingProgram(f"{name} is missing: apt-get install {PACKAGES[name]}")
    return found


def missing(*names: str) -> str:
    """Why programs cannot be run here; empty if all are there."""
    try:
        for name in names:
            program(name)
    except MissingProgram as error:
        return str(error)
    return ""


def command(name: str, *arguments: object, namespace: str = "") -> list[str]:
    """The command line of a program: in a network namespace if one is named, and never as root."""
    line = [program(name), *map(str, arguments)]
    if os.geteuid() == 0:
        switch = (f"--reuid={USER}", f"--regid={_user().pw_gid}", "--clear-groups")
        line = [program("setpriv"), *switch, *line]
    return [program("ip"), "netns", "exec", namespace, *line] if namespace else line


def run(name: str, *arguments: object, namespace: str = "") -> str:
    """Run a program to its end; its output, or an error with all it wrote."""
    done = subprocess.run(
        command(name, *arguments, namespace=namespace),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        cwd="/",
    )
    if done.returncode:
        raise RuntimeError(f"{name} {' '.join(map(str, arguments))}: {done.stdout[-2000:]}")
    return done.stdout


def start(
    name: str, *arguments: object, log: Path, namespace: str = "", **environment: str
) -> subprocess.Popen[bytes]:
    """Start a program that stays; what it writes goes to a file."""
    with open(log, "ab") as file:
        return subprocess.Popen(
            command(name, *arguments, namespace=namespace),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd="/",
            env={**os.environ, **environment},
        )


def _user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        raise MissingProgram(
            f"there is no user {USER}: apt-get install postgresql-common"
        ) from None


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder that the unprivileged user may write to, removed at the end."""
    path = Path(tempfile.mkdtemp(prefix="stator-failover-"))
    own(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def own(path: Path) -> None:
    """Give a path to the unprivileged user."""
    if os.geteuid() == 0:
        os.chown(path, _user().pw_uid, _user().pw_gid)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nothing listens on."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def eventually(true: Callable[[], bool], what: str, *, within_s: float = 20) -> None:
    """Wait until something holds."""
    end = time.monotonic() + within_s
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {within_s:.0f} s")
        time.sleep(0.02)


def inside(namespace: str, act: Callable[[], T]) -> T:
    """Do something in a network namespace, in a thread of its own; here if none is named."""
    if not namespace:
        return act()
    with ThreadPoolExecutor(1, initializer=enter_namespace, initargs=(namespace,)) as thread:
        return thread.submit(act).result()


# -- processes --------------------------------------------------------------------------------------


def below(pid: int) -> list[int]:
    """A process and everything it started, the process first."""
    found, at = [pid], 0
    while at < len(found):
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{found[at]}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        at += 1
    return found


def signal_all(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def stop_all(pid: int) -> list[int]:
    """Stop a process and everything below it, so that none of them notices; who they are."""
    os.kill(pid, signal.SIGSTOP)
    pids = below(pid)
    signal_all(pids, signal.SIGSTOP)
    return pids


def kill_all(pid: int) -> None:
    """Kill a process and everything below it at once, as a machine dies, and wait until all are gone."""
    with contextlib.suppress(ProcessLookupError):
        pids = stop_all(pid)
        signal_all(pids, signal.SIGKILL)
        eventually(lambda: not any(map(is_alive, pids)), "killed processes end")


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def enter_namespace(name: str) -> None:
    """Move this thread into a network namespace, and with it what it starts."""
    with open(f"/run/netns/{name}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {name}")
