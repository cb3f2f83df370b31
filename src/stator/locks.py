"""Locks between processes: bytes of a file, and whole files. Nothing else in Stator imports `fcntl`.

What a lock of a byte (`LockFile`) guarantees, on every system:

- The death of a process releases it, however the process dies. No pid and no heartbeat is trusted.
- Only its own `LockFile` releases it. Other code of the process may open, read and close the same file as
  it likes; a lock that belongs to the whole process (POSIX `lockf`) would be dropped by that.
- Two `LockFile`s exclude each other, also inside one process. One `LockFile` does not exclude itself.
- A forked child does not hold it: its copies are closed before any of its code runs. A child that kept one
  would keep the lock after its parent's death. A program that is started (`exec`) does not inherit it.
- It is a range of bytes: bytes are independent, need not exist in the file, and are exclusive or shared.
- Taking it never waits; who wants to wait tries again. Looking (`is_locked`) never takes it, so that a look
  can neither disturb a holder nor be mistaken for one.
- Releasing it writes nothing, so that it works on a full disk.

On Linux these are open-file-description locks (`F_OFD_SETLK`). They and POSIX record locks exclude each other,
so that a process of 0.5, which uses those, is seen.

Windows would use `LockFileEx` with an offset: it belongs to the handle, and death releases it. A look has to try
a shared lock and release it. Windows does not fork. macOS documents no open-file-description locks: `flock` on
one file for each byte has the same properties, and the file of a lease would be named by its epoch.

A lock of a whole file (`lock_whole`) is `flock` on a descriptor that the caller owns. A child that inherits the
descriptor shares the lock: the supervisor of a run relies on that.
"""

from __future__ import annotations

import fcntl
import os
import sys
from _thread import RLock
from errno import EACCES, EBADF, EROFS

# type checkers recognize the name; importing it from `typing` would take too long for the hook
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

GET: Final = getattr(fcntl, "F_OFD_GETLK", 36)
SET: Final = getattr(fcntl, "F_OFD_SETLK", 37)

_descriptors: set[int] = set()
"""Descriptors of lock files that are open in this process."""
_guard = RLock()
"""Held while a descriptor is opened or closed, and while the process forks: no child misses one."""
_generation = 0
"""How many forks lie between this process and the one that imported this module."""


class LockFile:
    """A file whose bytes are locked. See the module for what a lock guarantees."""

    def __init__(self, path: str, *, create: bool = True, mode: int | None = None) -> None:
        """`OSError` if the file is not there and cannot be made. Without the right to write it, a
        descriptor for reading is opened: it can look, and hold shared locks. `mode` is given to a file
        that is ours; without it, only we can open one that is made here.
        """
        self.path = path
        self._descriptor = -1
        self._requests: dict[tuple[int, int], bytes] = {}
        with _guard:
            self._descriptor = _opened(path, create, mode)
            _descriptors.add(self._descriptor)
            self._generation = _generation

    @property
    def is_open(self) -> bool:
        """False once it is closed, and in every forked child."""
        return self._descriptor >= 0 and self._generation == _generation

    def lock(self, byte: int, *, shared: bool = False) -> bool:
        """Lock a byte, or False if another holds it. A lock of ours on it changes to the kind asked for."""
        return self._set(fcntl.F_RDLCK if shared else fcntl.F_WRLCK, byte)

    def unlock(self, byte: int) -> None:
        """Release a byte; one that is not held stays so."""
        if self.is_open:
            self._set(fcntl.F_UNLCK, byte)

    def _set(self, kind: int, byte: int) -> bool:
        request = self._requests.get((kind, byte))
        if request is None:
            request = self._requests[kind, byte] = _request(kind, byte)
        try:
            fcntl.fcntl(self._descriptor, SET, request)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def is_locked(self, byte: int) -> bool:
        """Whether another than this `LockFile` holds a byte, exclusively or shared."""
        answer = fcntl.fcntl(self._descriptor, GET, _request(fcntl.F_WRLCK, byte))
        return int.from_bytes(answer[:2], sys.byteorder) != fcntl.F_UNLCK

    def is_in_place(self) -> bool:
        """False once the file was removed or replaced: what is locked in it excludes nobody who comes later."""
        return os.fstat(self._descriptor).st_nlink > 0

    def is_at(self, found: os.stat_result) -> bool:
        """Whether that is this file."""
        here = os.fstat(self._descriptor)
        return (here.st_ino, here.st_dev) == (found.st_ino, found.st_dev)

    def close(self) -> None:
        """Release everything; in a forked child, where it is closed already, nothing."""
        with _guard:
            if self.is_open:
                _descriptors.discard(self._descriptor)
                _close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        if self._descriptor >= 0:
            self.close()


def _opened(path: str, create: bool, mode: int | None) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    try:
        descriptor = os.open(path, flags, 0o600)
        found = os.fstat(descriptor)
        if mode is not None and found.st_mode & 0o777 != mode and found.st_uid == os.geteuid():
            os.fchmod(descriptor, mode)
        return descriptor
    except OSError as refused:
        # A file that may not be written can still be looked at; one that cannot be made is not there.
        if refused.errno not in (EACCES, EROFS) or not os.path.exists(path):
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _request(kind: int, byte: int) -> bytes:
    from struct import pack  # not above: `stator-hook` locks whole files only, and must start fast

    return pack("hhqqi", kind, os.SEEK_SET, byte, 1, 0)


def lock_whole(descriptor: int, *, shared: bool = False, wait: bool = False) -> bool:
    """Lock a whole file until its descriptor and all copies of it are closed; False if another holds it."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError as error:
        if error.errno != EBADF:  # a program that becomes a daemon may have closed every descriptor
            raise


def _close_copies() -> None:
    """In a forked child: give up what only the parent may hold."""
    global _generation
    for descriptor in _descriptors:
        _close(descriptor)
    _descriptors.clear()
    _generation += 1
    _guard.release()


os.register_at_fork(
    before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_close_copies
)
