"""Small private files in the user's data folder: read and written so that no link and no other user gets between.

A file here counts only if it is a regular file of this user (or of root) that nobody else can write. It is made
complete before it has its name, and is readable by its user only.
"""

from __future__ import annotations

import os
import stat

from stator import locks
from stator.locations import users

# type checkers recognize the name; importing it from `typing` would take too long for the hook
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KEY_VARIABLE = "STATOR_OWNER_KEY"
"""The variable that holds the owner's key where there is no such folder."""
SIZE_MAX = 4 * 2**20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class UserFolder:
    """The user's data folder. It need not exist; it is made when the first file is written."""

    def __init__(self, path: str) -> None:
        self.path = path

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def read(self, name: str) -> bytes | None:
        """What a file holds; None if it is not there. `PermissionError` if another user could have written it."""
        path = self.file(name)
        try:
            descriptor = os.open(path, _READ)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if os.path.islink(path):
                raise PermissionError(error.errno, "it is a link", path) from None
            raise
        try:
            _check_private(path, os.fstat(descriptor))
            pieces = []
            while piece := os.read(descriptor, 1 << 16):
                pieces.append(piece)
                if sum(map(len, pieces)) > SIZE_MAX:
                    raise OSError(27, "the file is too large", path)
            return b"".join(pieces)
        finally:
            os.close(descriptor)

    def create(self, name: str, data: bytes) -> bool:
        """Make a file that is not there; False if it is. Complete before it has its name."""
        return self._place(name, data, replace=False)

    def replace(self, name: str, data: bytes) -> None:
        """Make a file, or replace the one that is there, in one step."""
        self._place(name, data, replace=True)

    def append(self, name: str, line: bytes) -> bool:
        """Add a line to a file, durably; lines of several processes never mix. False if another process is
        replacing the file: nothing was added.
        """
        self._make()
        path = self.file(name)
        descriptor = os.open(path, _APPEND, 0o600)
        try:
            found = os.fstat(descriptor)
            _check_private(path, found)
            if not locks.lock_whole(descriptor, shared=True) or not _is_at(path, found):
                return False
            if found.st_size and os.pread(descriptor, 1, found.st_size - 1) != b"\n":
                line = b"\n" + line  # the one before was not written to its end
            if os.write(descriptor, line) < len(line):
                raise OSError(28, "there is no space left for it", path)
            os.fsync(descriptor)
            return True
        finally:
            os.close(descriptor)

    def rewrite(self, name: str, change: Callable[[bytes], bytes]) -> bool:
        """Replace a file by what `change` makes of it; who appends waits. False if another process is at it."""
        path = self.file(name)
        descriptor = os.open(path, _READ)
        try:
            found = os.fstat(descriptor)
            if not locks.lock_whole(descriptor) or not _is_at(path, found):
                return False
            self.replace(name, change(self.read(name) or b""))
            return True
        finally:
            os.close(descriptor)

    def _make(self) -> None:
        os.makedirs(self.path, mode=0o700, exist_ok=True)

    def _place(self, name: str, data: bytes, *, replace: bool) -> bool:
        self._make()
        path, draft = self.file(name), self.file(f".{name}.{os.urandom(6).hex()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, data)
            os.fsync(descriptor)
            if replace:
                os.replace(draft, path)
                return True
            os.link(draft, path)  # fails if another process was faster
        except FileExistsError:
            return False
        finally:
            os.close(descriptor)
            if os.path.lexists(draft):
                os.unlink(draft)
        return True


def _is_at(path: str, found: os.stat_result) -> bool:
    """Whether a file that was opened still has its name."""
    try:
        return os.stat(path).st_ino == found.st_ino
    except FileNotFoundError:
        return False


def user_folder(environ: Mapping[str, str]) -> UserFolder | None:
    """The user's data folder; None where the environment names none."""
    path = users(environ)
    return None if path is None else UserFolder(path)


def _check_private(path: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise PermissionError(1, "not a regular file", path)
    if found.st_uid not in (os.geteuid(), 0):
        raise PermissionError(1, "belongs to another user", path)
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(1, "other users can write it", path)
