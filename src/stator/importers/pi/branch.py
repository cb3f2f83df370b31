"""Reads one branch of a pi session, line by line.

An entry belongs to the branch if it follows the branch's last entry. So a cursor only has to hold that entry, and
the last entry of the file. The lines before are read again only where an entry follows another one: it may begin a
new branch, or name a parent that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stator.importers.pi.entries import PiEntryReader
from stator.importers.pi.entry_tree import entry_name, read_tree
from stator.importers.reading.appended_lines import AppendedLines, RecentNames
from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.fields import record, text
from stator.importers.reading.found_conversation import FoundConversation, Progress
from stator.importers.reading.jsonl import JsonlLine, parse_line, read_lines
from stator.importers.reading.line_boundary import whole_line
from stator.model.exchange.items import Cursor, Item, Noise, Skipped, Unknown


class PiBranch:
    """One branch of a file, from a cursor."""

    def __init__(self, found: FoundConversation, cursor: Cursor | None) -> None:
        self._found = found
        self._lines = AppendedLines(found.path, cursor)
        state = record(cursor.state) if cursor is not None else {}
        self._has_header = state.get("header") is True
        self._leaf = text(state.get("leaf"))
        """The branch's last entry."""
        self._last = text(state.get("last"))
        """The last entry of the file."""
        self._names = RecentNames(state.get("lines"))
        self._known: set[str] | None = None if cursor is not None else set()
        """The ids of all entries before; None if they were not needed yet."""
        self._shared: set[str] = set()
        """The entries before the place at which the branch begins."""
        if found.part and cursor is None:
            tree = read_tree(found.path)
            self._shared = {entry.id for entry in tree.ancestors(tree.branches[found.part])}
        self.reader = PiEntryReader(
            record(state.get("reader")), None if cursor is None else self._entries_before
        )

    def read(self, progress: Progress | None, *, at_rest: bool) -> Iterator[Item]:
        for line in self._lines.read(progress, at_rest=at_rest):
            yield from whole_line(self._items(line), line.number)
        yield self._lines.cursor(
            {
                "header": self._has_header, "leaf": self._leaf, "last": self._last,
                "lines": self._names.state(), "reader": self.reader.state(),
            }
        )  # fmt: skip

    def _items(self, line: JsonlLine) -> Iterator[Item]:
        entry, why = parse_line(line)
        if entry is None:
            yield from [Skipped(line=line.number, why=why)] if why and not self._found.part else []
        elif not self._has_header and entry.get("type") == "session":
            self._has_header = True
            self.reader.place("")
        elif not isinstance(entry.get("type"), str):
            if not self._found.part:
                yield Unknown(id=f"line/{line.number}", raw=strip_attachments(entry))
        elif self._is_repeated(entry, line):
            if not self._found.part:
                yield Noise(kind="written twice")
        else:
            name = entry_name(entry, self._names.once)
            is_ours = self._is_ours(entry, name, line)
            self._last = name
            if self._known is not None:
                self._known.add(name)
            self.reader.place(name)
            if is_ours:
                self._leaf = name
                yield from self.reader.entry(name, entry)

    def _is_repeated(self, entry: dict[str, Any], line: JsonlLine) -> bool:
        own = text(entry.get("id"))
        if not own or own == self._leaf:
            return bool(own)
        # an entry that follows the last one is new
        follows = entry.get("parentId") == self._last
        return not follows and own in self._known_before(line)

    def _is_ours(self, entry: dict[str, Any], name: str, line: JsonlLine) -> bool:
        if self._found.part and not self._leaf:
            return name in self._shared or name == self._found.part
        if self._found.part and self._leaf in self._shared:
            return name in self._shared or name == self._found.part
        if not text(entry.get("id")):
            return self._last == self._leaf
        parent = entry.get("parentId")
        if parent is None or parent == self._leaf:
            return self._leaf == text(parent)
        # a parent that does not exist means the entry on the line before
        return self._last == self._leaf and text(parent) not in self._known_before(line)

    def _known_before(self, line: JsonlLine) -> set[str]:
        """The ids of all entries before a line."""
        if self._known is None:
            self._known = set()
            for earlier in read_lines(self._found.path):
                if earlier.number >= line.number:
                    break
                self._known.add(text(record(parse_line(earlier)[0]).get("id")))
        return self._known

    def _entries_before(self, name: str) -> PiEntryReader:
        """A reader that has read the file from its beginning up to an entry."""
        again = PiBranch(self._found, None)
        for line in read_lines(self._found.path):
            if again.pass_line(line) == name:
                break
        return again.reader

    def pass_line(self, line: JsonlLine) -> str:
        """Read a line without giving its items; return the last entry of the file so far."""
        for _ in whole_line(self._items(line), line.number):
            pass
        return self._last
