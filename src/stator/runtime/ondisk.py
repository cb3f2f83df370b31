"""How files on disk stand to what was recorded of them."""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from stator.errors import InvalidInput
from stator.runtime import paths
from stator.runtime.observe import digest
from stator.runtime.plainfiles import DIGITS

_DIGEST = re.compile(rf"[0-9a-f]{{{DIGITS}}}|size:\d+")
"""A digest as it is made here; callers may record digests of other kinds."""


class Compared(NamedTuple):
    """How a file stands to what was recorded of it, and how many bytes were read to see that."""

    said: str
    read: int = 0


def compare(root: str, path: str, recorded: str, bytes_max: int) -> Compared:
    """Compare a file of the root with its recorded digest; says nothing where that is not to be known.

    Recorded paths are anybody's: one that leads out of the root, or to what is no plain file, is not
    opened.
    """
    try:
        where, relative = paths.split(path, "")
        if where != ".":
            return Compared("")
        full = os.path.join(root, relative)
        found = os.stat(full)
    except InvalidInput:
        return Compared("")
    except OSError:
        return Compared("gone from disk")
    if not stat.S_ISREG(found.st_mode) or not _DIGEST.fullmatch(recorded):
        return Compared("")
    if found.st_size > bytes_max:
        return Compared("not compared with the disk: too large")
    same = digest(full) == recorded
    return Compared("unchanged on disk" if same else "changed on disk since", found.st_size)
