"""Other programs' SQLite databases, read while those programs may be writing to them.

Nothing is ever written. Where it can be avoided not even SQLite's own side files appear: a database
in WAL mode that nobody has open is read as it lies there, and if somebody opens it meanwhile that is
noticed. All access goes through SQLite: a file of this process that is opened and closed beside it
would take the locks along.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from stator.errors import InvalidInput

if TYPE_CHECKING:
    import apsw

MAGIC = b"SQLite format 3\0"
NAMED = (".db", ".sqlite", ".sqlite3", ".db-wal", ".db-shm", ".db-journal")
"""How files end that are opened through SQLite only."""
BUSY_MS = 2_000
WAL_MODE = 2


def is_named_like_one(path: str) -> bool:
    """Whether a file may be a database, told by its name."""
    return path.endswith(NAMED)


def begin(path: str, size: int) -> bytes:
    """The first bytes of a database file."""
    import apsw

    _must_be_file(path)
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
    try:
        file = apsw.VFSFile("", os.path.abspath(path), [flags, 0])
        try:
            return file.xRead(min(size, file.xFileSize()), 0)
        finally:
            file.xClose()
    except apsw.Error as error:
        raise InvalidInput(f"cannot read {path}: {error}", path=path) from None


@contextmanager
def opened(path: str) -> Iterator[apsw.Connection]:
    """A database, to be read; `InvalidInput` where that cannot be done."""
    import apsw

    lies_still = begin(path, 20)[18:19] == bytes([WAL_MODE]) and not os.path.exists(f"{path}-wal")
    before = _state(path)
    mode = "immutable=1" if lies_still else "mode=ro"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        db = apsw.Connection(f"file:{quote(os.path.abspath(path))}?{mode}", flags=flags)
        try:
            db.set_busy_timeout(BUSY_MS)
            yield db
        finally:
            db.close()
    except apsw.Error as error:
        raise InvalidInput(
            f"cannot read the database {path}: {error}", hint="is it whole?"
        ) from None
    if lies_still and _state(path) != before:
        raise InvalidInput(f"{path} changed while it was read", hint="try again")


def _state(path: str) -> tuple[int, int, bool]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, os.path.exists(f"{path}-wal")


def _must_be_file(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}", path=path) from None
    if not stat.S_ISREG(mode):
        raise InvalidInput(f"{path} is not a file", path=path, hint="name a file or a folder")
