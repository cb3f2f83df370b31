"""Which processes read or write a store now, from the kernel's list of locks.

For messages only: the list does not exist on every system, and nothing is decided by it but how long to wait for a
process that is suspended. The files themselves are only ever `stat`ed: closing a descriptor of one would drop the
locks this process holds on it.
"""

from __future__ import annotations

import contextlib
import os

import msgspec

READ_MARKS = range(123, 128)
"""The bytes of the `-shm` file on which SQLite's readers hold their locks."""
WRITING = range(120, 123)
"""Those of its writer, of a checkpoint and of a recovery."""
SUSPENDED = ("T", "t")
"""States of a process that a signal or a debugger has stopped."""
COMMAND_MAX = 200


class LockingProcess(msgspec.Struct, frozen=True):
    """A process that holds one of SQLite's locks."""

    pid: int
    program: str


def readers(path: str) -> list[LockingProcess]:
    """Which processes read the store; empty on systems without such a list."""
    return _holders(path, "READ", READ_MARKS)


def writers(path: str) -> list[LockingProcess]:
    """Which process is inside a write; empty where that is not known."""
    return _holders(path, "WRITE", WRITING)


def is_suspended(pid: int) -> bool:
    """Whether a process is stopped, so that nothing it holds is released by itself."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            # 1234 (any name) S …
            return file.read().rpartition(")")[2].split()[0] in SUSPENDED
    except (OSError, IndexError):
        return False


def _holders(path: str, kind: str, wanted: range) -> list[LockingProcess]:
    try:
        inode = os.stat(f"{path}-shm").st_ino
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    pids = {pid for line in lines if (pid := _holder(line, inode, kind, wanted)) > 0}
    return [LockingProcess(pid, _program(pid)) for pid in sorted(pids)]


def _holder(line: str, inode: int, kind: str, wanted: range) -> int:
    """The pid in a line of /proc/locks that is such a lock on that file, else 0."""
    # 1: POSIX  ADVISORY  READ 1234 fe:00:2647291 124 124
    words = line.split()
    if len(words) != 8 or words[1] != "POSIX" or not words[6].isdecimal():
        return 0
    if words[3] != kind or not words[5].endswith(f":{inode}") or int(words[6]) not in wanted:
        return 0
    return int(words[4]) if words[4].isdecimal() else 0


def _program(pid: int) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read(COMMAND_MAX).split(b"\0")
        return b" ".join(words).decode("utf-8", "replace").strip()
    return ""
