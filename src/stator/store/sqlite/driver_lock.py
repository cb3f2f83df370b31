"""Liveness of drivers on one machine: a lock on byte `epoch` of `<store>-lease`.

Whether a driver lives is asked of the kernel, which releases the lock of a process that dies. What a lock
guarantees, and why no other code of the process can drop it, is in `stator.locks`.
"""

from __future__ import annotations

import os
import threading

import msgspec

from stator.errors import StoreFailed
from stator.locks import LockFile
from stator.model.log.query import Holder

SUFFIX = "-lease"


class DriverLocks:
    """The epochs that one store object holds, and a look at all others."""

    def __init__(self, store: str) -> None:
        self.path = store + SUFFIX
        self._file: LockFile | None = None
        self._held: set[int] = set()
        """What this object holds: a lock file does not see its own locks."""
        self._guard = threading.Lock()

    def hold(self, epoch: int) -> None:
        """This process drives under `epoch` until it lets go or dies."""
        try:
            file = self._opened(create=True)
        except OSError as error:
            raise StoreFailed(f"{self.path}: {error.strerror}") from None
        # It never waits: an epoch is given out once, and locked before any other process can read its number.
        if file is None or not file.lock(epoch):
            raise StoreFailed(
                f"{self.path}: epoch {epoch} is held already",
                hint="the store was put back from a copy while it was driven; end the programs that use it",
            )
        self._held.add(epoch)

    def let_go(self, epoch: int) -> None:
        """Release an epoch. Writes nothing, so that it works on a full disk."""
        self._held.discard(epoch)
        if self._file is not None:
            self._file.unlock(epoch)

    def is_live(self, epoch: int) -> bool:
        """Whether some process holds `epoch`. Asking never disturbs a holder."""
        if not epoch:
            return False
        if epoch in self._held:
            return True
        try:
            file = self._opened(create=False)
        except OSError:  # we may not look here, so nothing proves the holder dead
            return True
        return file is not None and file.is_locked(epoch)

    def _opened(self, *, create: bool) -> LockFile | None:
        """The lock file that others use now; None if there is none. One that was removed is made again,
        with what is held in it."""
        with self._guard:
            if self._file is not None and self._file.is_in_place():
                return self._file
            if not create and not os.path.exists(self.path):
                return None
            made = LockFile(self.path)
            for epoch in self._held:
                made.lock(epoch)
            old, self._file = self._file, made
            if old is not None:
                old.close()
            return made

    def holder(self, packed: bytes | None, epoch: int) -> Holder | None:
        """Who holds a session's lease as its row says, and whether that process still lives."""
        if packed is None:
            return None
        return msgspec.structs.replace(_unpack(packed), epoch=epoch, live=self.is_live(epoch))

    def close(self) -> None:
        """Let go of everything: the store is not used any more."""
        with self._guard:
            self._held.clear()
            if self._file is not None:
                self._file.close()
                self._file = None


_unpack = msgspec.msgpack.Decoder(Holder).decode
