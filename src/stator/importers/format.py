"""Defines what a transcript format must provide: recognize its files, list their conversations,
read them, and know where its agent stores them.

Each format lives in one module or folder and has one object of this kind, `FORMAT`. `read` yields
items (`model.exchange.items`) in the order in which they happened. Every item's id must be the same
each time the same file is read, also after the file has grown: recording an id twice adds nothing,
so stable ids are what makes a repeated import safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from stator.importers.reading.found_conversation import FoundConversation, Progress
from stator.model.exchange.items import Cursor, Item


class Format(Protocol):
    """One kind of transcript."""

    name: str
    """The format's name, such as claude-code or codex; it is recorded as the source of the session.
    """

    def recognizes(self, path: Path, begin: bytes) -> bool:
        """Whether a file is of this format, judging by its first bytes (decompressed, up to 64 KB)."""
        ...

    def conversations(self, path: Path) -> Iterable[FoundConversation]:
        """List the conversations in a file. Sub-agents come after their parents, and forks after
        the conversations they were forked from."""
        ...

    def read(
        self, found: FoundConversation, cursor: Cursor | None, progress: Progress | None
    ) -> Iterator[Item]:
        """Read what happened in a conversation, starting at a cursor.

        A `Cursor` among the items marks a place, always the start of a turn, at which the next
        import may begin to read. Items after the last cursor are read again then.
        """
        ...

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        """The files and folders in which the agent stores its transcripts by default."""
        ...

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        """Whether a conversation took place in a folder, or in a folder below it."""
        ...
