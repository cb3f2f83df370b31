"""Reads a file of unknown origin: only a regular one, so that a pipe keeps no program waiting."""

from __future__ import annotations

import os
import stat

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def read_regular(path: str | os.PathLike[str], limit: int) -> bytes:
    """The first bytes of a file. `OSError` if it cannot be read, or is a pipe, a device or a folder."""
    descriptor = os.open(path, _FLAGS)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(22, "not a regular file", os.fspath(path))
        return file.read(limit)
