"""Compares files on disk with what was recorded of them."""

from __future__ import annotations

import re
from typing import NamedTuple

from stator.errors import InvalidInput
from stator.runtime.files import safe_io
from stator.runtime.files.safe_io import DIGITS

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
