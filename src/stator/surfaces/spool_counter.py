"""Counts how often something happened, in a small file beside the spool whose size is the number.

Hooks load this module, so it imports almost nothing.
"""

from __future__ import annotations

import os

from stator.touched_files import FOLDER, OPENING, digest_of, is_made

COUNT = "count-"
"""Prefix of a file whose size is a number."""


class SpoolCounter:
    """A number beside the spool, by the name of what it counts; nothing that is lost with it matters."""

    def __init__(self, spool: str, name: str) -> None:
        self._folder = os.path.join(spool, FOLDER)
        self._path = os.path.join(self._folder, COUNT + digest_of(name))

    def next(self) -> int:
        """How often this was asked before."""
        if not is_made(self._folder):
            return 1
        handle = os.open(self._path, OPENING, 0o600)
        try:
            before = os.fstat(handle).st_size
            os.write(handle, b".")
        finally:
            os.close(handle)
        return before

    def reset(self) -> None:
        """Begin to count again."""
        if os.path.lexists(self._path):
            os.unlink(self._path)
