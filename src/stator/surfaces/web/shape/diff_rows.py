"""Shows a change of a file as rows, each with its sign: from the arguments of an edit or from changed places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from stator.model.exchange.hunks import Hunk, Place, Swap, lines_of
from stator.model.exchange.patch_text import files_in_patch
from stator.model.views.patch import matching

ROWS_MAX = 400
"""Rows of one change that are shown."""
COMPARED_MAX = 600
"""Lines of an edit that are compared; a longer one is shown as what went and what came."""
CONTEXT = 3
OLD_NEW = (
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("oldText", "newText"),
    ("old", "new"),
)
WRITTEN = ("content", "contents", "file_text", "text")


class DiffRow(msgspec.Struct, frozen=True):
    """One line of a change; number 0 where it is not known."""

    number: int
    sign: str
    text: str


class DiffRows(msgspec.Struct, frozen=True, kw_only=True):
    """A change as rows, with how many lines it has in all."""

    rows: list[DiffRow]
    added: int = 0
    removed: int = 0
    left_out: int = 0
    """Rows beyond those that are shown."""


def of_arguments(given: Any) -> DiffRows | None:
    """What the arguments of an edit or a write change; None if they do not say."""
    if not isinstance(given, Mapping):
        return None
    places = _places(given)
    if places:
        return of_places(places)
    patch = next((given[n] for n in ("patch", "input") if isinstance(given.get(n), str)), "")
    if touched := files_in_patch(patch) if "*** " in patch else ():
        rows = [row for touch in touched for row in _touched(touch.places, touch.after_text)]
        return _bounded(rows) if rows else None
    text = next((given[name] for name in WRITTEN if isinstance(given.get(name), str)), None)
    if text is None or not any(
        isinstance(given.get(n), str) for n in ("file_path", "path", "filePath")
    ):
        return None
    return _bounded([DiffRow(n, "+", line) for n, line in enumerate(_lines(text), 1)])


def _touched(places: Sequence[Place], text: str | None) -> Iterator[DiffRow]:
    for place in places:
        yield from _rows(place)
    for number, line in enumerate(_lines(text or ""), 1):
        yield DiffRow(number, "+", line)


def of_places(places: Sequence[Place]) -> DiffRows:
    """Changed places as rows."""
    rows: list[DiffRow] = []
    for place in places:
        if rows:
            rows.append(DiffRow(0, "…", ""))
        rows += _rows(place)
    return _bounded(rows)


def _bounded(rows: list[DiffRow]) -> DiffRows:
    return DiffRows(
        rows=rows[:ROWS_MAX],
        added=sum(row.sign == "+" for row in rows),
        removed=sum(row.sign == "−" for row in rows),
        left_out=max(0, len(rows) - ROWS_MAX),
    )


def _places(given: Mapping[str, Any]) -> list[Place]:
    edits = given.get("edits")
    inner = edits if isinstance(edits, (list, tuple)) else [given]
    found: list[Place] = []
    for one in inner:
        if not isinstance(one, Mapping):
            return []
        for old, new in OLD_NEW:
            if isinstance(one.get(old), str) and isinstance(one.get(new), str):
                found.append(Swap(one[old], one[new]))
                break
    return found


def _rows(place: Place) -> Iterator[DiffRow]:
    if isinstance(place, Swap):
        yield from _swapped(_lines(place.old), _lines(place.new))
        return
    yield from _numbered(place)


def _numbered(hunk: Hunk) -> Iterator[DiffRow]:
    lines = lines_of(hunk)
    old, new = hunk.old, hunk.new or hunk.old
    for sign, line in lines.parts if lines is not None else ():
        text = line.removesuffix("\n")
        if sign == "-":
            yield DiffRow(old, "−", text)
            old += bool(old)
        else:
            yield DiffRow(new, sign.strip(), text)
            new += bool(new)
            old += bool(old) if sign == " " else 0


def _swapped(old: list[str], new: list[str]) -> Iterator[DiffRow]:
    i = j = 0
    compared = len(old) + len(new) <= COMPARED_MAX
    blocks = matching(old, new) if compared else iter(())
    for a, b, size in [*blocks, (len(old), len(new), 0)]:
        yield from (DiffRow(0, "−", line) for line in old[i:a])
        yield from (DiffRow(0, "+", line) for line in new[j:b])
        same = old[a : a + size]
        if len(same) > 2 * CONTEXT:
            last = a + size == len(old) and b + size == len(new)
            lead = same[:CONTEXT] if i or j or a or b else []
            yield from (DiffRow(0, "", line) for line in lead)
            yield DiffRow(0, "…", "")
            yield from (DiffRow(0, "", line) for line in ([] if last else same[-CONTEXT:]))
        else:
            yield from (DiffRow(0, "", line) for line in same)
        i, j = a + size, b + size


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []
