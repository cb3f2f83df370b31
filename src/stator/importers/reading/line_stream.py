"""Reads the lines of a growing transcript so that reading can continue after any item.

A format's reader holds back what may still grow: an answer whose next part is not written yet, a call
without a result. What it holds is not part of the cursor. The cursor names the first line that is still
needed, the reader's state before that line, and how many items were given since. Reading from a cursor
goes through those few lines again and leaves out the items that were given. So a cursor stays small,
holds no text of the conversation, and may come after any item.

The end of a file is no evidence, so a last line without a newline is left for the next reading. When the
conversation is at rest, the line is read if it is whole, and the reader releases what can be released.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from stator.importers.reading.fields import record, whole_number
from stator.importers.reading.found_conversation import Progress
from stator.importers.reading.jsonl import JsonlLine, parse_line, read_lines
from stator.importers.reading.line_boundary import whole_line
from stator.model.exchange.items import Cursor, Item, Prompted, Skipped

HELD_LINES = 400
HELD_BYTES = 2**20
"""The most lines and bytes for which a reader may hold something back. Beyond that it must let go, so that
reading ten more lines stays fast."""
RESTS_MAX = 64
"""The most rests that are remembered within the lines that are still needed."""


class LineReader(Protocol):
    """Turns lines into items, one line after the other."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take over the state of a reader that has read the lines before."""
        ...

    def state(self) -> dict[str, Any]:
        """All that must be known after the lines read so far, provided that nothing is held back."""
        ...

    @property
    def holds(self) -> bool:
        """Whether something is held back for which lines already read are needed."""
        ...

    def items(self, value: dict[str, Any], line: JsonlLine) -> Iterator[Item]:
        """The items that a line adds."""
        ...

    def rest(self) -> Iterator[Item]:
        """What was held back and can be given because nothing more is expected. A later line may
        continue it all the same."""
        ...

    def let_go(self) -> Iterator[Item]:
        """Give or forget everything that is held back."""
        ...


class LineStream:
    """Reads one file with a reader, from a cursor."""

    def __init__(self, reader: LineReader, path: str, cursor: Cursor | None, mapper: int) -> None:
        self._reader = reader
        self._path = path
        self._mapper = mapper
        state = record(cursor.state) if cursor is not None else {}
        if cursor is None or state.get("mapper") != mapper:
            # the cursor of another mapping says nothing about this one: known items are not recorded twice
            cursor, state = Cursor(offset=0), {}
        self._offset, self._line = cursor.offset, cursor.line
        self._end = cursor.offset, cursor.line
        self._state = record(state.get("reader"))
        self._given = 0
        self._skip = whole_number(state.get("given"))
        self._rests = [n for n in state.get("rests") or () if type(n) is int][:RESTS_MAX]
        if self._state:
            reader.restore(self._state)
        else:
            self._state = reader.state()

    def read(self, progress: Progress | None, *, at_rest: bool) -> Iterator[Item]:
        """Yield the items that follow the cursor, then a cursor; at rest also what was held back."""
        last = self._line
        rows = read_lines(self._path, offset=self._offset, number=self._line, progress=progress)
        for line in rows:
            if line.is_unended and not at_rest:
                break
            if line.is_cut:
                yield Skipped(line=line.number, why=line.problem)
                break
            yield from self._read_line(line)
            last = line.number
        yield self._cursor()
        if at_rest:
            yield from self._rest(last)

    def _read_line(self, line: JsonlLine) -> Iterator[Item]:
        yield from self._new(whole_line(self._items(line), line.number))
        if line.number in self._rests:
            yield from self._new(whole_line(self._reader.rest(), line.number))
        too_far = line.end - self._offset > HELD_BYTES or line.number - self._line > HELD_LINES
        if self._reader.holds and too_far:
            yield from self._new(whole_line(self._reader.let_go(), line.number))
        # a newline that is written later belongs to a line that was read already
        self._end = line.end, line.number - line.is_unended
        if not self._reader.holds:
            self._move_to_end()

    def _items(self, line: JsonlLine) -> Iterator[Item]:
        value, problem = parse_line(line)
        if value is not None:
            yield from self._reader.items(value, line)
        elif problem:
            yield Skipped(line=line.number, why=problem)

    def _new(self, items: Iterator[Item]) -> Iterator[Item]:
        """The items that were not given before; a cursor precedes each prompt."""
        for item in items:
            if self._given >= self._skip and isinstance(item, Prompted):
                yield self._cursor()
            self._given += 1
            if self._given > self._skip:
                yield item

    def _rest(self, last: int) -> Iterator[Item]:
        released = list(self._new(whole_line(self._reader.rest(), last)))
        if not released:
            return
        yield from released
        self._rests = [*self._rests, last][-RESTS_MAX:]
        if not self._reader.holds:
            self._move_to_end()
        yield self._cursor()

    def _move_to_end(self) -> None:
        """From here on, the lines read so far are not needed any more."""
        self._offset, self._line = self._end
        self._state = self._reader.state()
        self._given = self._skip = 0
        self._rests = []

    def _cursor(self) -> Cursor:
        given = max(self._given, self._skip)
        state: dict[str, Any] = {"mapper": self._mapper, "reader": self._state, "given": given}
        if self._rests:
            state["rests"] = self._rests
        return Cursor(offset=self._offset, line=self._line, state=state)
