"""Tells whether a file is as it was when all of it had been recorded, without reading it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


def stamp_of(state: os.stat_result) -> str:
    """What differs as soon as a file changes: its size, the time of its last change and its inode."""
    return f"{state.st_size} {state.st_mtime_ns} {state.st_ino}"


def is_unchanged(note: Mapping[str, Any]) -> bool:
    """Whether nothing of the file that a note is about was left to record, and it is as it was then."""
    path, stamp = note.get("path"), note.get("stamp")
    if not note.get("rested") or not stamp or not isinstance(path, str):
        return False
    try:
        return stamp_of(os.stat(path)) == str(stamp)
    except (OSError, ValueError):
        return False
