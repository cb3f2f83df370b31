"""Reads, replaces and removes plain files under a root without following any link.

Every folder on the way is opened by the one before it, so that a path that was recorded elsewhere,
or a folder that has become a link since, leads nowhere else. A file is replaced by renaming: a reader sees
the old one or the new one, also after a kill.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from stator import locks
from stator.errors import Conflict, InvalidInput
from stator.model.values.digest import sha256

DIGITS = 16
DIGEST_MAX = 64 * 1024 * 1024
"""Bytes of a file that is digested; a larger one is known by its size alone."""
TEMPORARY = ".stator-restore-"
"""What a file is called until it is whole."""
BESIDE = ("-wal", "-shm", "-journal")
"""Endings of the files beside a database while it is in use."""
FORBIDDEN = frozenset({".git", ".hg", ".svn", ".stator"})
"""Folders whose files run or decide things by being there; nothing is ever written into them."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 1 << 20


class Look(NamedTuple):
    """A file as it was found."""

    digest: str = ""
    data: bytes | None = None
    mode: int = 0
    why: str = ""
    """Why the data is missing: size or unreadable."""
    stamp: tuple[int, ...] = ()

    @property
    def there(self) -> bool:
        """Whether there is anything at the path."""
        return bool(self.digest or self.why)


NOTHING = Look()
UNREADABLE = Look(why="unreadable")


def parts(path: str) -> list[str]:
    """The names a relative path goes through; `InvalidInput` if it could lead out of its root."""
    names = path.split("/")
    if "\0" in path or any(name in ("", ".", "..") for name in names):
        raise InvalidInput(f"{path!r:.80} is not a path under a root", path="$.path")
    return names


def look(root: str, path: str, limit: int = DIGEST_MAX) -> Look:
    """What is at a path below a folder; its content if that is at most `limit` bytes."""
    *folders, name = parts(path)
    try:
        with _folder(root, folders) as folder:
            return _look(folder, name, limit)
    except (FileNotFoundError, NotADirectoryError):
        return NOTHING if not _is_link(root, folders) else UNREADABLE
    except (OSError, ValueError):
        return UNREADABLE


def size(root: str, path: str) -> int | None:
    """How large a file below a folder is; None if there is nothing, 0 if it is no plain file."""
    *folders, name = parts(path)
    try:
        with _folder(root, folders) as folder:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None if not _is_link(root, folders) else 0
    except (OSError, ValueError):
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _look(folder: int, name: str, limit: int) -> Look:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    stamp = _stamp(found)
    if not stat.S_ISREG(found.st_mode):
        return Look(why="unreadable", stamp=stamp)
    mode = stat.S_IMODE(found.st_mode)
    sized = f"size:{found.st_size}"
    if _is_database(folder, name):
        return Look(sized, mode=mode, why="unreadable", stamp=stamp)
    if found.st_size > DIGEST_MAX:
        return Look(sized, mode=mode, why="size", stamp=stamp)
    file = os.open(name, _FILE, dir_fd=folder)
    try:
        data = _read(file)
    finally:
        os.close(file)
    digest = digest_of(data)
    if len(data) > limit:
        return Look(digest, mode=mode, why="size", stamp=stamp)
    return Look(digest, data, mode, stamp=stamp)


def digest_of(data: bytes) -> str:
    """The start of a content's SHA-256: what it is known by."""
    return sha256(data).hexdigest()[:DIGITS]


def _is_database(folder: int, name: str) -> bool:
    """A database in use is left alone: closing any descriptor of one drops every lock this process
    has on it, and what is written without them can be lost."""
    return name.endswith(BESIDE) or any(_exists(folder, name + end) for end in BESIDE)


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _read(file: int) -> bytes:
    pieces: list[bytes] = []
    left = DIGEST_MAX + 1
    while left > 0 and (piece := os.read(file, min(_CHUNK, left))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode


@contextlib.contextmanager
def _folder(root: str, names: list[str], *, create: bool = False) -> Iterator[int]:
    """The folder that some names lead to from a root, none of them a link."""
    here = os.open(root or ".", _FOLDER)
    try:
        for name in names:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
            below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _is_link(root: str, names: list[str]) -> bool:
    """Whether something on the way is there and is not a folder of its own."""
    place = root or "."
    for name in names:
        place = os.path.join(place, name)
        try:
            if not stat.S_ISDIR(os.lstat(place).st_mode):
                return True
        except OSError:
            return False
    return False


def write(root: str, path: str, data: bytes, mode: int, before: Look, tag: str) -> None:
    """Let a path hold exactly this, from one moment to the next; `Conflict` if it is not as it was."""
    *folders, name = parts(path)
    with _reached(path), _folder(root, folders, create=True) as folder:
        _sweep(folder)
        temporary = TEMPORARY + tag
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(temporary, flags, 0o600, dir_fd=folder)
        try:
            locks.lock_whole(file, wait=True)  # while it is held, nobody takes this for a leftover
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
            os.fchmod(file, mode & 0o777)
            os.fsync(file)
            _check_same(folder, name, before, path)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        finally:
            os.close(file)
        os.fsync(folder)


def remove(root: str, path: str, before: Look) -> None:
    """Remove what is at a path; `Conflict` if it is not as it was."""
    *folders, name = parts(path)
    with _reached(path), _folder(root, folders) as folder:
        _check_same(folder, name, before, path)
        os.unlink(name, dir_fd=folder)
        os.fsync(folder)


@contextlib.contextmanager
def _reached(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Conflict(
                f"{path!r:.80} cannot be reached without following a link",
                hint="it was left as it is",
            ) from None
        raise Conflict(f"{path!r:.80} cannot be written: {error.strerror}") from None


def _check_same(folder: int, name: str, before: Look, path: str) -> None:
    try:
        stamp = _stamp(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        stamp = ()
    if stamp != before.stamp:
        raise Conflict(
            f"{path!r:.80} changed while it was being restored", hint="look again, then apply again"
        )


def _sweep(folder: int) -> None:
    """Remove what a killed restore left here; what belongs to one at work is locked."""
    for name in os.listdir(folder):
        if not name.startswith(TEMPORARY):
            continue
        with contextlib.suppress(OSError):
            file = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                if locks.lock_whole(file):
                    os.unlink(name, dir_fd=folder)
            finally:
                os.close(file)
