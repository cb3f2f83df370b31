"""Changed places of a file, as other agents record them, and applying them to a content. Pure.

A hunk is a place with whole lines: those around it, those that went, those that came. A swap is a text that was
replaced by another one, and may begin and end inside a line. Either is applied only where it fits exactly: what does
not fit leaves the content unknown, and never makes one that no file had. Lines end at "\\n" and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from stator.model.values.late_pattern import late

NO_NEWLINE = "\\ No newline at end of file"
HUNKS_MAX = 2_000
"""Changed places of one write; a write with more is not taken apart."""
NUMBER_MAX = 10**9
_HEADER = late(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")


class Hunk(msgspec.Struct, frozen=True, tag="hunk"):
    """A changed place. The lines of `body` begin with a space, a minus or a plus, as in a patch."""

    body: str
    old: int = 0
    """The number of its first line before the change; 0 where it is not known."""
    new: int = 0
    """The same after it."""


class Swap(msgspec.Struct, frozen=True, tag="swap"):
    """A text that was replaced by another one, once or wherever it is."""

    old: str
    new: str
    every: bool = False
    tabs: bool = True
    """Whether the rest of a text with tabs stays as it is."""


Place = Hunk | Swap


class Lines(msgspec.Struct, frozen=True):
    """A hunk taken apart: signs and lines, each line with its end."""

    parts: tuple[tuple[str, str], ...]

    @property
    def old(self) -> list[str]:
        return [line for sign, line in self.parts if sign != "+"]

    @property
    def new(self) -> list[str]:
        return [line for sign, line in self.parts if sign != "-"]

    @property
    def lead(self) -> int:
        """Unchanged lines before the change."""
        return _run(self.parts)

    @property
    def trail(self) -> int:
        """Unchanged lines after it."""
        return _run(self.parts[::-1])


def _run(parts: Sequence[tuple[str, str]]) -> int:
    return next((n for n, (sign, _) in enumerate(parts) if sign != " "), len(parts))


def split_lines(text: str) -> list[str]:
    """The lines of a text with their ends; the last may have none."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def lines_of(hunk: Hunk) -> Lines | None:
    """A hunk taken apart; None if it is none."""
    parts: list[tuple[str, str]] = []
    for line in hunk.body.removesuffix("\n").split("\n"):
        sign = line[:1]
        if sign == "\\":
            if not parts or not parts[-1][1].endswith("\n"):
                return None
            parts[-1] = parts[-1][0], parts[-1][1][:-1]
        elif sign in ("", " "):  # an empty line between two others lost its space on the way
            parts.append((" ", line[1:] + "\n"))
        elif sign in "-+":
            parts.append((sign, line[1:] + "\n"))
        else:
            return None
    made = Lines(tuple(parts))
    ends = (made.old[:-1], made.new[:-1])
    if any(not line.endswith("\n") for side in ends for line in side):
        return None
    return made if any(sign != " " for sign, _ in parts) else None


# -- applying -------------------------------------------------------------------------------------


def applied(places: Sequence[Place], before: str) -> str | None:
    """A content after its changed places were changed; None where one of them does not fit, or fits twice."""
    text = before
    hunks = [place for place in places if isinstance(place, Hunk)]
    if hunks:
        placed = located(hunks, before)
        if placed is None or len(hunks) != len(places):
            return None
        lines = split_lines(before)
        for start, parts in reversed(placed):
            lines[start : start + len(parts.old)] = parts.new
        text = "".join(lines)
        # a line without an end in the middle would be another line than anyone wrote
        return text if all(line.endswith("\n") for line in lines[:-1]) else None
    for place in places:
        assert isinstance(place, Swap)
        found = _swapped(place, text)
        if found is None:
            return None
        text = found
    return text


def _swapped(swap: Swap, text: str) -> str | None:
    if not swap.old:
        return swap.new if not text else None
    if not swap.tabs and "\t" in text:
        return None
    count = text.count(swap.old)
    if not count or (count > 1 and not swap.every):
        return None
    return text.replace(swap.old, swap.new)


def located(hunks: Sequence[Hunk], before: str) -> list[tuple[int, Lines]] | None:
    """Where in a content each hunk is, as the index of its first line; None if that is not certain."""
    lines = split_lines(before)
    found: list[tuple[int, Lines]] = []
    at = 0
    for hunk in hunks:
        parts = lines_of(hunk)
        if parts is None:
            return None
        start = _find(lines, parts.old, at, hunk.old)
        if start is None:
            return None
        found.append((start, parts))
        at = start + len(parts.old)
    return found


def _find(lines: list[str], old: list[str], at: int, number: int) -> int | None:
    if number:
        start = number - 1 if old else number
        return start if start >= at and lines[start : start + len(old)] == old else None
    if not old:
        return 0 if not lines else None
    if not lines or not lines[-1].endswith("\n"):
        return None  # a patch without numbers may have given the last line an end
    first = _next(lines, old, at)
    if first is None or _next(lines, old, first + 1) is not None:
        return None
    return first


def _next(lines: list[str], old: list[str], at: int) -> int | None:
    while at + len(old) <= len(lines):
        try:
            at = lines.index(old[0], at)
        except ValueError:
            return None
        if lines[at : at + len(old)] == old:
            return at
        at += 1
    return None


# -- reading what others wrote ----------------------------------------------------------------------


def from_unified(text: str) -> tuple[Hunk, ...]:
    """The hunks of a unified diff of one file; empty if it is none, or not whole."""
    found: list[Hunk] = []
    lines = text.split("\n")
    at = next((n for n, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    while at < len(lines) and len(found) < HUNKS_MAX:
        head = _HEADER.match(lines[at])
        if head is None:
            break
        end = _end(lines, at + 1, *(int(head[n]) if head[n] else 1 for n in (2, 4)))
        if end is None:
            return ()
        body = "\n".join(lines[at + 1 : end]) + "\n"
        found.append(Hunk(body, int(head[1]), int(head[3])))
        at = end
    rest = lines[at:]
    return tuple(found) if not any(line.startswith("@@ ") for line in rest) else ()


def _end(lines: list[str], at: int, old: int, new: int) -> int | None:
    """The index after a hunk's last line, by the counts in its header."""
    while old > 0 or new > 0:
        if at >= len(lines):
            return None
        sign = lines[at][:1]
        if sign not in ("", " ", "-", "+", "\\"):
            return None
        old -= sign in ("", " ", "-")
        new -= sign in ("", " ", "+")
        at += 1
    if at < len(lines) and lines[at].startswith("\\"):
        at += 1
    return at if old == new == 0 else None


def from_records(value: object) -> tuple[Hunk, ...]:
    """The hunks of a structured patch: {oldStart, newStart, lines}, one record each."""
    found: list[Hunk] = []
    for record in value if isinstance(value, list) and len(value) <= HUNKS_MAX else ():
        lines = record.get("lines") if isinstance(record, dict) else None
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            return ()
        if any("\n" in line for line in lines):
            return ()
        body = "".join(f"{line}\n" for line in lines)
        found.append(Hunk(body, _number(record.get("oldStart")), _number(record.get("newStart"))))
    return tuple(found)


def _number(value: object) -> int:
    return value if type(value) is int and 0 < value < NUMBER_MAX else 0


# -- as they are kept -------------------------------------------------------------------------------


def to_plain(places: Iterable[Place]) -> list[dict[str, Any]]:
    """Changed places as the input of a commit holds them."""
    return [_plain(place) for place in places]


def _plain(place: Place) -> dict[str, Any]:
    if isinstance(place, Swap):
        flags = {"every": place.every, "tabs": place.tabs}
        more = {name: flag for name, flag in flags.items() if flag != (name == "tabs")}
        return {"before": place.old, "after": place.new, **more}
    return {"body": place.body, "old": place.old, "new": place.new}


def from_plain(value: object) -> tuple[Place, ...]:
    """The same back; what has another shape is left out with all others: half a change is none."""
    found = [_place(one) for one in value] if isinstance(value, list) else []
    places = tuple(place for place in found if place is not None)
    return places if len(places) == len(found) else ()


def _place(value: object) -> Place | None:
    if not isinstance(value, Mapping):
        return None
    body, old, new = value.get("body"), value.get("before"), value.get("after")
    if isinstance(body, str):
        return Hunk(body, _number(value.get("old")), _number(value.get("new")))
    if isinstance(old, str) and isinstance(new, str):
        return Swap(old, new, value.get("every") is True, value.get("tabs") is not False)
    return None


def texts_of(places: Iterable[Place]) -> Iterator[str]:
    """Every text in some changed places."""
    for place in places:
        yield from (place.body,) if isinstance(place, Hunk) else (place.old, place.new)


def counts(places: Iterable[Place]) -> tuple[int, int]:
    """Lines that came and lines that went."""
    came = went = 0
    for place in places:
        if isinstance(place, Hunk):
            signs = [line[:1] for line in place.body.split("\n")]
            came, went = came + signs.count("+"), went + signs.count("-")
        else:
            came += len(split_lines(place.new))
            went += len(split_lines(place.old))
    return came, went
