"""Keeps SQLite's `-shm` file as it is while this process uses it, and says whether it is still in place.

Each connection holds a POSIX lock on byte 128 of that file. The process that opens the file and finds no such lock
takes itself for the first and empties it. Any code of our process that opens and closes the file drops the lock, and
the next process to open the store would empty the file under our readers and writers. So we hold the same byte a
second time, in a way that nothing else can drop; SQLite sees that as a connection like any other.

Our descriptor of the file must not drop SQLite's locks when it is closed either: a process has one for each
store file, and closes it when no connection of the process uses the file any more.
"""

from __future__ import annotations

import contextlib
import os
import threading

from stator.locks import LockFile

IN_USE = 128
"""The byte on which SQLite says that the file is in use."""

Identity = tuple[int, int]


class SharedMemory:
    """One `-shm` file, for as long as connections of this process use it."""

    def __init__(self, path: str, store: Identity) -> None:
        self.path = path + "-shm"
        self._store = store
        self._users = 0
        self._is_left = False
        self._file: LockFile | None = None
        # None is there to be held where a store is read as it is, in a folder that cannot be written.
        with contextlib.suppress(OSError):
            self._file = LockFile(self.path, create=False)
            self._file.lock(IN_USE, shared=True)
        self._identity = identity(self.path)

    @property
    def is_ours(self) -> bool:
        """False in a forked child, which has no connections of its own yet, and once the last user has left."""
        return not self._is_left and (self._file is None or self._file.is_open)

    def is_lost(self) -> bool:
        """The file was removed or replaced: what others write from now on, we would not see, and overwrite."""
        return identity(self.path) != self._identity

    def join(self) -> SharedMemory:
        self._users += 1
        return self

    def permit_removal(self) -> None:
        """Before the last connection of this process is closed: SQLite keeps a file that is in use."""
        with _guard:
            if self._users == 1 and self._file is not None:
                self._file.unlock(IN_USE)

    def leave(self) -> None:
        """One connection less uses it. To be called after the connection was closed."""
        with _guard:
            self._users -= 1
            if self._users <= 0:
                self._is_left = True
                if _open.get(self._store) is self:
                    del _open[self._store]
                if self._file is not None:
                    self._file.close()


_open: dict[Identity, SharedMemory] = {}
"""By the identity of the store's file: SQLite shares one mapping among all connections of a process."""
_guard = threading.RLock()
"""Can be taken twice: a store that is garbage leaves its files at any moment, also while this thread is in `use`."""
os.register_at_fork(
    before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_guard.release
)


def use(path: str) -> SharedMemory:
    """One more connection of this process uses the `-shm` file of a store. To be called once it has read."""
    store = identity(path)
    with _guard:
        if store is None:
            return SharedMemory(path, (0, 0)).join()
        while True:
            found = _open.get(store)
            if found is None or not found.is_ours:
                found = _open[store] = SharedMemory(path, store)
            if found.join().is_ours:  # else its last user was garbage, and has just left it
                return found


def identity(path: str) -> Identity | None:
    """Which file is at a path; None if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_dev
