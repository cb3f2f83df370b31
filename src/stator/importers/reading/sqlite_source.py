"""Reads SQLite databases of other programs, which may be writing to them at the same time.

Nothing is written. If possible, not even SQLite's side files (-wal, -shm) are created: a database
in WAL mode that no program has open is read as immutable, and if a program opens it during that
time, the result is discarded. All access goes through SQLite, because POSIX releases a process's
locks on a file when the process closes any handle of that file.
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
DATABASE_EXTENSIONS = (".db", ".sqlite", ".sqlite3", ".db-wal", ".db-shm", ".db-journal")
"""Extensions of files that must only be opened through SQLite."""
BUSY_MS = 2_000
WAL_MODE = 2


def has_database_name(path: str) -> bool:
    """Whether a file may be a database, judging by its name."""
    return path.endswith(DATABASE_EXTENSIONS)


def first_bytes(path: str, size: int) -> bytes:
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
def open_read_only(path: str) -> Iterator[apsw.Connection]:
    """Open a database for reading; raise `InvalidInput` if that fails."""
    import apsw

    is_idle = first_bytes(path, 20)[18:19] == bytes([WAL_MODE]) and not os.path.exists(
        f"{path}-wal"
    )
    before = _state(path)
    mode = "immutable=1" if is_idle else "mode=ro"
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
            f"cannot read the database {path}: {error}", hint="check that the file is complete"
        ) from None
    if is_idle and _state(path) != before:
        raise InvalidInput(f"{path} changed during the import", hint="import it again")


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
