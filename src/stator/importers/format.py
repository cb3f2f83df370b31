"""What a format must be able to say: whether a file is one of its own, what is in it, and where its
agent keeps such files.

One module per format has one object that does this. `read` gives items (`model.exchange.items`) in the order
in which they happened; ids must be the same whenever the same file is read, also after it grew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from stator.model.exchange.items import Conversation, Cursor, Item

Progress = Callable[[int], None]
"""Told how many bytes were read since the last time."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation in a file."""

    path: str
    conversation: Conversation
    part: str = ""
    """Which, where a file holds several."""
    changed: int = 0
    """When it was last changed, in µs: newest first is by this."""
    size: int = 0
    is_second_hand: bool = False
    """Whether it tells under other names what a better source tells too: taken only where the
    conversation is unknown, or known from here."""

    @property
    def place(self) -> str:
        """Its name for a cursor: the file's own, without the folder, so that a moved one is known."""
        return f"{Path(self.path).name}{f'#{self.part}' if self.part else ''}"


class Format(Protocol):
    """A kind of transcript."""

    name: str
    """What it is called: claude-code, codex, …; also the source of what is recorded."""

    def is_one(self, path: Path, begin: bytes) -> bool:
        """Whether a file is of this kind, told by its first bytes (unpacked, up to 64 KB)."""
        ...

    def conversations(self, path: Path) -> Iterable[Found]:
        """The conversations in a file; sub-agents' after their parents', forks after what they fork."""
        ...

    def read(
        self, found: Found, cursor: Cursor | None, progress: Progress | None
    ) -> Iterator[Item]:
        """What happened in a conversation, from a cursor on.

        A `Cursor` among the items says that reading may begin there next time: at the start of a turn.
        Items after the last one come again then.
        """
        ...

    def places(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        """Files and folders in which the agent keeps its transcripts."""
        ...

    def is_about(self, found: Found, root: str) -> bool:
        """Whether a conversation took place in a folder, or below it."""
        ...


def below(cwd: str, root: str) -> bool:
    """Whether a folder is another, or is in it."""
    return bool(cwd) and (
        cwd.rstrip("/") == root.rstrip("/") or cwd.startswith(root.rstrip("/") + "/")
    )
