"""An outlet that writes commits as JSON Lines: to a file, durably, or to a pipe.

A file that was there before is continued only if an outlet wrote it: its first line is a commit. While this runs it
holds a lock on the file itself, so that no other outlet writes there, whatever its store, its name or the path it was
given. If the file is moved away or removed, the next commits go to a new one at the same path.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from errno import ESTALE
from typing import BinaryIO, Self

from stator.errors import Busy, OutletFailed
from stator.locks import LockFile
from stator.model.log.commit import Commit
from stator.surfaces.cli.render import wire

TAIL = 1 << 16
"""Bytes that are read at once to find the end of the last whole line."""
HEAD = 256
"""Bytes of the first line that are looked at: more than what every commit begins with."""
_BEGIN = b'{"id":"k_'
_COMMIT = re.compile(
    re.escape(_BEGIN)
    + rb'[0-9a-f]{32}","v":[0-9]{1,9},"session":"s_[0-9a-f]{32}","seq":[0-9]{1,20},'
)
"""How a line of this outlet begins (`wire.FIELDS`)."""
_BESIDE = ("-wal", "-shm", "-journal", "-lease", "-search", "-projects")
"""Endings of the files beside a database. Some of them are empty, so that no first line shows what they are."""
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_LOOK = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_BYTE = 0
"""The byte of the file that is locked."""


class JsonLines:
    """Writes each commit on a line of its own. What `send` returned from is with the other side."""

    def __init__(
        self, file: BinaryIO, name: str, *, is_own: bool = False, lock: LockFile | None = None
    ) -> None:
        """`is_own`: the file is closed with this. With a `lock` on it, the name is its path."""
        self._file = file
        self._name = name
        self._is_own = is_own
        self._lock = lock

    @classmethod
    def to_path(cls, path: str, *, continues: bool = False, store: str = "") -> JsonLines:
        """Continue a file of an outlet, or make one that only its user can read.

        `continues`: this outlet wrote there before. Then a last line that a kill cut off is removed: its commit
        comes again. `store` is the path of the store, which is never opened here: closing a database's file drops the
        locks of its other connections in this process.
        """
        _refuse_store(path, store)
        file, lock = _opened(path, continues=continues)
        return cls(file, path, is_own=True, lock=lock)

    def send(self, commits: Sequence[Commit]) -> None:
        lines = "".join(wire.dumps(wire.commit(commit)) + "\n" for commit in commits).encode()
        try:
            self._follow_path()
            view = memoryview(lines)
            while view:
                view = view[self._file.write(view) or 0 :]
            self._file.flush()
            if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                os.fsync(self._file.fileno())
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutletFailed(
                f"{self._name}: {error.strerror}; {commits[0].id} and what follows was not written",
                hint="run it again: it continues there",
                commit=commits[0].id,
                session=commits[0].session,
            ) from None

    def _follow_path(self) -> None:
        """Open the path again if the file that is written is no longer there: it was rotated."""
        if self._lock is None or _is_at(self._name, self._lock):
            return
        file, lock = _opened(self._name, continues=False)
        self._close()
        self._file, self._lock = file, lock

    def _close(self) -> None:
        self._file.close()
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._is_own:
            self._close()


# -- opening a file -------------------------------------------------------------------------------


def _opened(path: str, *, continues: bool) -> tuple[BinaryIO, LockFile | None]:
    """A file at its end, and the lock on it; a pipe or a device has none."""
    try:
        _look_first(path, continues=continues)
        file = _at_end(path)
        try:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file, None
            lock = _locked(path, file)
        except BaseException:
            file.close()
            raise
        try:
            # Once more: until it was locked, another outlet may have written there.
            _check_ours(path, file.fileno(), continues=continues)
            _end_at_last_line(path, file, continues=continues)
        except BaseException:
            lock.close()
            file.close()
            raise
    except OSError as error:
        raise OutletFailed(f"{path}: {error.strerror}", hint="give another file") from None
    return file, lock


def _at_end(path: str) -> BinaryIO:
    if os.path.exists(path) and stat.S_ISFIFO(os.stat(path).st_mode):
        # Not for reading too: it would never break, however long its reader is gone. Without a reader it fails at once.
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(descriptor, True)
    else:
        descriptor = os.open(path, _APPEND, 0o600)
    # What is appended is at the end, also after the file was emptied in its place (`copytruncate`).
    return os.fdopen(descriptor, "wb", buffering=0)


def _locked(path: str, file: BinaryIO) -> LockFile:
    lock = LockFile(path, create=False)
    try:
        if not lock.is_at(os.fstat(file.fileno())):
            raise OSError(ESTALE, "the file was replaced while it was being opened")
        if not lock.lock(_BYTE):
            raise Busy(
                f"{path}: another outlet is writing to this file",
                hint="stop it first, or give another file",
            )
    except BaseException:
        lock.close()
        raise
    return lock


def _is_at(path: str, lock: LockFile) -> bool:
    try:
        return lock.is_at(os.stat(path))
    except FileNotFoundError:
        return False


# -- whose file it is -----------------------------------------------------------------------------


def _refuse_store(path: str, store: str) -> None:
    """Refuse every file of a store by its name, without opening it. A mere copy is known by its first line."""
    real = os.path.realpath(path)
    for ending in _BESIDE:
        base = real.removesuffix(ending)
        if base != real and os.path.isfile(base):
            raise OutletFailed(f"{path}: this file belongs to {base}", hint="give another file")
        if os.path.isfile(real) and os.path.exists(real + ending):
            raise OutletFailed(f"{path}: this is a database", hint="give another file")
    if store and os.path.exists(path) and os.path.exists(store) and os.path.samefile(path, store):
        raise OutletFailed(f"{path}: this is the store itself", hint="give another file")


def _look_first(path: str, *, continues: bool) -> None:
    """Look at a file that is there before it is opened for writing."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return
        descriptor = os.open(path, _LOOK)
    except FileNotFoundError:
        return
    try:
        _check_ours(path, descriptor, continues=continues)
    finally:
        os.close(descriptor)


def _check_ours(path: str, descriptor: int, *, continues: bool) -> None:
    """Refuse a file that no outlet wrote. An empty one is anybody's."""
    head = os.pread(descriptor, HEAD, 0)
    if not head or _COMMIT.match(head):
        return
    # The first line may be the one that was cut off.
    is_cut = len(head) < HEAD and b"\n" not in head and head[: len(_BEGIN)] == _BEGIN[: len(head)]
    if not (continues and is_cut):
        raise OutletFailed(
            f"{path}: this file is not one of an outlet: its first line is no commit",
            hint="give another file",
        )


def _end_at_last_line(path: str, file: BinaryIO, *, continues: bool) -> None:
    """Remove a last line that was cut off, if it is this outlet's own."""
    end = os.fstat(file.fileno()).st_size
    place = end
    while place:
        start = max(0, place - TAIL)
        piece = os.pread(file.fileno(), place - start, start)
        if b"\n" in piece:
            place = start + piece.rindex(b"\n") + 1
            break
        place = start
    if place == end:
        return
    if not continues:
        raise OutletFailed(
            f"{path}: this file ends in the middle of a line, and this outlet did not write it",
            hint="give another file",
        )
    file.truncate(place)
