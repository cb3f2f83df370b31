"""Compares files on disk with what was recorded of them, by their digests."""

from __future__ import annotations

import os
import re
from stat import S_ISREG
from typing import NamedTuple

from stator.errors import InvalidInput
from stator.model.values.digest import sha256
from stator.runtime.files import safe_io
from stator.runtime.files.safe_io import BESIDE, DIGEST_MAX, DIGITS

_DIGEST = re.compile(rf"[0-9a-f]{{{DIGITS}}}|size:\d+")
"""A digest as it is made here; callers may record digests of other kinds."""


class Compared(NamedTuple):
    """How a file compares with what was recorded of it, and how many bytes were read to see that."""

    said: str
    read: int = 0


def compare(root: str, path: str, recorded: str, bytes_max: int) -> Compared:
    """Compare a file of the root with its recorded digest; says nothing where that is not to be known.

    Recorded paths are anybody's: one that leads out of the root, or to what is no plain file, is not
    opened.
    """
    try:
        size = safe_io.size(root, path)
    except InvalidInput:
        return Compared("")
    if size is None:
        return Compared("gone from disk")
    if not _DIGEST.fullmatch(recorded):
        return Compared("")
    if size > bytes_max:
        return Compared("not compared with the disk: too large")
    found = safe_io.look(root, path)
    if not found.digest:
        return Compared("")
    same = found.digest == recorded
    return Compared("unchanged on disk" if same else "changed on disk since", size)


def digest_at(path: str) -> str:
    """The start of a file's SHA-256; empty if the file does not exist."""
    try:
        found = os.stat(path)
        if not S_ISREG(found.st_mode) or found.st_size > DIGEST_MAX or is_database(path):
            return f"size:{found.st_size}"
        with open(path, "rb") as file:
            return sha256(file.read()).hexdigest()[:DIGITS]
    except OSError:
        return ""


def is_database(path: str) -> bool:
    """A database in use is never opened: that would drop the locks this process has on it."""
    if path.endswith(BESIDE):
        return True
    # Not `lstat`: of most files nothing is beside, and an exception takes longer than the look.
    return "\0" not in path and any(
        os.access(path + end, os.F_OK, follow_symlinks=False) for end in BESIDE
    )
