"""Describes one conversation in a file, as a format finds it before anything is imported."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stator.model.exchange.bookmark import TRANSCRIPT
from stator.model.exchange.items import Conversation

Progress = Callable[[int], None]
"""Called with the number of bytes read since the last call."""


class FoundConversation(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation in a file, before any of it is imported."""

    path: str
    conversation: Conversation
    part: str = ""
    """Which conversation of the file this is, where a file holds several."""
    changed: int = 0
    """When it last changed, in µs since 1970. Imports take the newest first."""
    size: int = 0
    is_fallback: bool = False
    """Whether a better source may hold the same conversation under other item ids. Such a file is
    imported only where the conversation is not recorded yet, or was recorded from this file."""
    stamp: str = ""
    """What differs as soon as the file changes, where nothing but the file says what the conversation holds: its
    size, the time of its last change and its inode. Empty: the file is read to find out."""

    @property
    def cursor_name(self) -> str:
        """The name of the note on how far this file was read. It leaves out the path: a file that was moved is
        recognized by its content."""
        return f"{TRANSCRIPT}{f'#{self.part}' if self.part else ''}"


def is_inside(folder: str, root: str) -> bool:
    """Whether a folder is `root` or lies below it."""
    return bool(folder) and (
        folder.rstrip("/") == root.rstrip("/") or folder.startswith(root.rstrip("/") + "/")
    )
