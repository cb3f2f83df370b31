"""Liveness of drivers on one machine: a POSIX record lock on byte `epoch` of `<store>-lease`.

The kernel releases the lock when the process dies for any reason, and a fork does not inherit it; no pid is
trusted and no heartbeat is needed. POSIX drops a process's locks on a file when *any* of its
descriptors on it is closed, so the file is opened once per process, and closed only when no store of
the process uses it any more and no epoch of it is held.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections import Counter

import msgspec

from stator.model.log.query import Holder

# Keys hold the pid: a fork inherits these tables and none of the locks, so its entries must be its own.
_files: dict[tuple[int, str], int] = {}
_users: Counter[tuple[int, str]] = Counter()
_held: set[tuple[int, str, int]] = set()
_guard = threading.Lock()


def _descriptor(path: str) -> int:
    key = (os.getpid(), path)
    with _guard:
        if key not in _files:
            _files[key] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return _files[key]


def use(path: str) -> None:
    """One more store of this process may ask about, or hold, epochs of this file."""
    with _guard:
        _users[os.getpid(), path] += 1


def leave(path: str) -> None:
    """One store less; the last one closes the file, unless something is still held in it."""
    key = (os.getpid(), path)
    with _guard:
        _users[key] -= 1
        if _users[key] > 0:
            return
        del _users[key]
        if not any(held[:2] == key for held in _held) and key in _files:
            os.close(_files.pop(key))


def hold(path: str, epoch: int) -> None:
    """This process drives under `epoch` until it lets go or dies."""
    # It never waits: an epoch is given out once, and locked before any other process can read its number.
    fcntl.lockf(_descriptor(path), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, epoch)
    _held.add((os.getpid(), path, epoch))


def let_go(path: str, epoch: int) -> None:
    _held.discard((os.getpid(), path, epoch))
    fcntl.lockf(_descriptor(path), fcntl.LOCK_UN, 1, epoch)


def is_live(path: str, epoch: int) -> bool:
    """Whether some process holds `epoch`. Asking never disturbs a holder.

    Our own holds are known from the table: asking the kernel for a shared lock would weaken them. A
    shared test lock cannot be mistaken for a holder by another tester, and no driver ever waits for
    an old epoch.
    """
    if not epoch:
        return False
    if (os.getpid(), path, epoch) in _held:
        return True
    if not os.path.exists(path):
        return False
    try:
        descriptor = _descriptor(path)
    except OSError:  # we may not lock here, so nothing proves the holder dead
        return True
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, epoch)
    except OSError:
        return True
    fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, epoch)
    return False


def holder(path: str, packed: bytes | None, epoch: int) -> Holder | None:
    """Who holds a session's lease as its row says, and whether that process still lives."""
    if packed is None:
        return None
    return msgspec.structs.replace(_unpack(packed), epoch=epoch, live=is_live(path, epoch))


_unpack = msgspec.msgpack.Decoder(Holder).decode
