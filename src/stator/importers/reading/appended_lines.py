"""Reads the lines that were appended to a file since a cursor, for formats in which every line is final.

The end of a file is no evidence: a last line without its newline is left for the next reading. At rest it is read
if it is whole, and reported if it is cut off.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from stator.importers.reading.found_conversation import Progress
from stator.importers.reading.jsonl import JsonlLine, read_lines
from stator.model.exchange.items import Cursor

NAMES_MAX = 64
"""The most names that a reader remembers in order to notice that one is repeated."""


class AppendedLines:
    """The lines of a file after a cursor."""

    def __init__(self, path: str, cursor: Cursor | None) -> None:
        self._path = path
        self._offset = cursor.offset if cursor is not None else 0
        self._number = cursor.line if cursor is not None else 0

    def read(self, progress: Progress | None, *, at_rest: bool) -> Iterator[JsonlLine]:
        lines = read_lines(self._path, offset=self._offset, number=self._number, progress=progress)
        for line in lines:
            if line.is_unended and not at_rest:
                return
            if not line.is_cut:
                # a newline that is written later belongs to a line that was read already
                self._offset, self._number = line.end, line.number - line.is_unended
            yield line

    def cursor(self, state: dict[str, Any]) -> Cursor:
        """A cursor after the last line that was read."""
        return Cursor(offset=self._offset, line=self._number, state=state)


class RecentNames:
    """Makes names unique among the most recent ones. Agents that repeat ids repeat them soon."""

    def __init__(self, known: Any) -> None:
        pairs = known.items() if isinstance(known, dict) else ()
        self._seen = OrderedDict((name, count) for name, count in pairs if type(count) is int)

    def once(self, name: str) -> str:
        """The name itself the first time, then `name~2`, `name~3`, …"""
        self._seen[name] = self._seen.get(name, 0) + 1
        self._seen.move_to_end(name)
        if len(self._seen) > NAMES_MAX:
            self._seen.popitem(last=False)
        return self.latest(name)

    def latest(self, name: str) -> str:
        """The unique name that a name was given last; "" if it is not known."""
        count = self._seen.get(name, 0)
        return f"{name}~{count}" if count > 1 else name if count else ""

    def state(self) -> dict[str, int]:
        return dict(self._seen)
