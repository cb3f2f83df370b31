"""Works out which write each line of a file comes from. Pure.

Writes are taken in the order in which they happened. A line that a write found and left keeps its author; a line that
came with it is the write's. Between two writes the file may have changed without a record, and of some writes only the
changed places are known, or nothing: lines that could come from these are named so, and never given to a write that may
not have made them. One turn has all lines of a file that it created and wrote alone, if the digests of its records say
so and the file is as it left it. Where a text has equal lines, more than one answer can be right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from stator.model.exchange.hunks import Hunk, Place, Swap, applied, lines_of, split_lines
from stator.model.exchange.items import digest_of
from stator.model.views.patch import matching

BEFORE, BETWEEN, SINCE, UNKNOWN = -1, -2, -3, -4
"""Authors that are no write: the line was there before any of them; it came between two of them; it came after the last
one; a write whose content is not known may have made it."""
KEPT_MAX = 64
"""Contents whose authors are remembered, for a write that puts one of them back."""


class FileEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a file, as far as it is known."""

    by: int
    """The write's number, 0 or more."""
    before: str | None = None
    after: str | None = None
    places: tuple[Place, ...] = ()
    is_new: bool = False
    """Whether there was no file before it."""
    is_gone: bool = False
    """Whether there was none after it."""
    is_look: bool = False
    """Whether it only noted what was there."""
    puts_back: bool = False
    """Whether it put an earlier content back."""
    turn: tuple[str, int] = ("", 0)
    """The session and the turn that it belongs to."""
    found: str = ""
    """The digest of the file before it, where that is recorded."""
    left: str = ""
    """The digest of the file after it, where that is recorded."""


class BlamedText(msgspec.Struct, frozen=True):
    """The lines of a file, each with its author."""

    lines: tuple[str, ...]
    by: tuple[int, ...]


def blame(events: Iterable[FileEvent], now: str | None) -> BlamedText | None:
    """The authors of a file's lines: as it is `now`, or as the last write left it; None if nobody knows its lines."""
    fold, alone = _Fold(), _OneTurn()
    for event in events:
        fold.take(event)
        alone.take(event)
    if now is not None:
        fold.found(now, SINCE)
    if fold.lines is None:
        return None
    author = alone.made(now) if now is not None and UNKNOWN in fold.by else UNKNOWN
    return BlamedText(tuple(fold.lines), tuple(author if by == UNKNOWN else by for by in fold.by))


class _OneTurn:
    """Follows by digests whether one turn created a file and made every write since, with nothing in between."""

    def __init__(self) -> None:
        self._last: FileEvent | None = None
        """The last of these writes; None before the first, and after a change by something else."""

    def take(self, event: FileEvent) -> None:
        last = self._last
        if event.is_look:
            if last is not None and event.left not in ("", last.left):
                self._last = None
            return
        goes_on = last is not None and event.turn == last.turn and event.found == last.left
        begins = event.is_new and not event.found and event.turn[1] > 0
        is_own = (begins or goes_on) and not event.is_gone and not event.puts_back
        self._last = event if is_own and event.left else None

    def made(self, now: str) -> int:
        """The last write, if the file is as it left it."""
        last = self._last
        return last.by if last is not None and digest_of(now) == last.left else UNKNOWN


class _Fold:
    def __init__(self) -> None:
        self.lines: list[str] | None = None
        self.by: list[int] = []
        self._blind = False
        """Whether a write happened whose content is not known, since the lines were last known."""
        self._loose: list[tuple[int, Place]] = []
        """Changed places of these writes."""
        self._earlier: dict[str, list[int]] = {}

    def take(self, event: FileEvent) -> None:
        if event.is_look:
            if event.after is not None:
                self.found(event.after, BETWEEN)
            return
        if event.is_gone or event.is_new:
            self.lines, self.by, self._blind, self._loose = [], [], False, []
        if event.is_gone:
            return
        if event.before is not None:
            self.found(event.before, BETWEEN)
        after = event.after
        if after is None and event.places and self.lines is not None and not self._blind:
            after = applied(event.places, "".join(self.lines))
        if after is None:
            self._blind = True
            self._loose += [(event.by, place) for place in event.places]
        elif event.puts_back and after in self._earlier:
            self._set(split_lines(after), self._earlier[after])
        else:
            self._become(after, event.by)

    def found(self, text: str, changed: int) -> None:
        """The file is seen to hold a text; `changed` is the author of lines that no record explains."""
        if self.lines is None:
            lines = split_lines(text)
            self._set(lines, [UNKNOWN if self._blind else BEFORE] * len(lines))
        else:
            self._carry(split_lines(text), UNKNOWN if self._blind else changed)
        for by, place in reversed(self._loose):
            self._claim(by, place)
        self._blind, self._loose = False, []
        self._remember(text)

    def _become(self, text: str, by: int) -> None:
        if self.lines is None or self._blind:
            # What was there is not known: all that is there now was written by this one.
            lines = split_lines(text)
            self._set(lines, [by] * len(lines))
            self._blind, self._loose = False, []
        else:
            self._carry(split_lines(text), by)
        self._remember(text)

    def _carry(self, new: list[str], by: int) -> None:
        """Lines that are still there keep their authors; the others get one."""
        authors = [by] * len(new)
        for old_at, new_at, size in matching(self.lines or [], new):
            authors[new_at : new_at + size] = self.by[old_at : old_at + size]
        self._set(new, authors)

    def _set(self, lines: list[str], by: list[int]) -> None:
        self.lines, self.by = lines, list(by)

    def _remember(self, text: str) -> None:
        self._earlier.pop(text, None)
        self._earlier[text] = list(self.by)
        if len(self._earlier) > KEPT_MAX:
            del self._earlier[next(iter(self._earlier))]

    def _claim(self, by: int, place: Place) -> None:
        """Give a write the lines that its changed place shows, if they are there once and nobody else's."""
        for start, came in _shown(place, self.lines or []):
            for at, is_new in enumerate(came, start):
                if is_new and self.by[at] == UNKNOWN:
                    self.by[at] = by


def _shown(place: Place, lines: list[str]) -> list[tuple[int, list[bool]]]:
    """Where the lines of a changed place are in a text, and which of them came with it."""
    if isinstance(place, Hunk):
        parts = lines_of(place)
        if parts is None:
            return []
        signs = [(sign == "+", line) for sign, line in parts.parts if sign != "-"]
    else:
        signs = _swapped(place)
    wanted = [line for _, line in signs]
    fits = _equals if isinstance(place, Hunk) else _fits
    at = _only(lines, wanted, fits) if any(line.strip() for line in wanted) else None
    return [(at, [is_new for is_new, _ in signs])] if at is not None else []


def _swapped(swap: Swap) -> list[tuple[bool, str]]:
    """The whole lines of a text that came for another one; what the two have in common did not come."""
    old, new = split_lines(swap.old), split_lines(swap.new)
    authors = [True] * len(new)
    for _, at, size in matching(old, new):
        authors[at : at + size] = [False] * size
    return list(zip(authors, new, strict=True))


def _only(
    lines: Sequence[str],
    wanted: Sequence[str],
    fits: Callable[[Sequence[str], Sequence[str]], bool],
) -> int | None:
    """The one place of some lines in others."""
    found = [
        at
        for at in range(len(lines) - len(wanted) + 1)
        if fits(lines[at : at + len(wanted)], wanted)
    ]
    return found[0] if len(found) == 1 else None


def _equals(lines: Sequence[str], wanted: Sequence[str]) -> bool:
    return list(lines) == list(wanted)


def _fits(lines: Sequence[str], wanted: Sequence[str]) -> bool:
    """The same for a text that may begin and end inside a line."""
    if len(wanted) == 1:
        return wanted[0].rstrip("\n") in lines[0]
    inner = list(lines[1:-1]) == list(wanted[1:-1])
    return inner and lines[0].endswith(wanted[0]) and lines[-1].startswith(wanted[-1].rstrip("\n"))
