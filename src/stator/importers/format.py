"""Defines what a transcript format must provide: recognize its files, list their conversations,
read them, and know where its agent stores them.

Each format lives in one module or folder and has one object of this kind, `FORMAT`. `read` yields
items (`model.exchange.items`) in the order in which they happened. Reading is a pure function of what
the file holds: the items of a file that is still growing are the first items of the whole file, each
with the same id and the same content. So the end of a file is no evidence of anything. What may still
get more (a message whose next block is not written yet) is held back until a line comes that cannot
precede its end.
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
    mapper: int
    """The version of the mapping from lines to items. It is recorded in the session, and is increased
    when the same file would give other items."""

    def recognizes(self, path: Path, begin: bytes) -> bool:
        """Whether a file is of this format, judging by its first bytes (decompressed, up to 64 KB)."""
        ...

    def conversations(self, path: Path) -> Iterable[FoundConversation]:
        """List the conversations in a file. Sub-agents come after their parents, and forks after
        the conversations they were forked from."""
        ...

    def read(
        self,
        found: FoundConversation,
        cursor: Cursor | None,
        progress: Progress | None,
        *,
        at_rest: bool = True,
    ) -> Iterator[Item]:
        """Read what happened in a conversation, from a cursor to the last whole line.

        A `Cursor` among the items marks a place at which a later read may begin: from there, it yields
        exactly the items that follow. The last item is a cursor for the end of what was read. With
        `at_rest`, nothing more is expected: then what was held back follows, and another cursor.
        """
        ...

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        """The files and folders in which the agent stores its transcripts by default."""
        ...

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        """Whether a conversation took place in a folder, or in a folder below it."""
        ...
