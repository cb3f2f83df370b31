"""Reads the changes that tools for editing are given: texts that are replaced, lines that are inserted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from stator.importers.reading.fields import record, text
from stator.model.exchange.hunks import HUNKS_MAX, Hunk, Swap
from stator.model.exchange.items import Touch
from stator.model.records.types import FileOp

NAMES = (
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("oldText", "newText"),
    ("old_str", "new_str"),
)
"""What agents call the text that goes and the one that comes."""
NUMBERED_CONTEXT = 4
"""Unchanged lines after each change in a diff with numbers, unless the file ends there."""
_NUMBERED = re.compile(r"([ +-]) *([0-9]{1,9}) (.*)", re.S)
_BLOCK = re.compile(
    r"^(?:-{3,}|<{3,}) ?SEARCH>?[ ]*\n(.*?)^={3,}[ ]*\n(.*?)^(?:\+{3,}|>{3,}) ?REPLACE>?[ ]*$",
    re.M | re.S,
)


def swaps_of(edits: Iterable[Any]) -> tuple[Swap, ...]:
    """The replaced texts of some edits, in order; nothing if one of them is not understood."""
    found = [_swap(record(edit)) for edit in edits]
    swaps = tuple(swap for swap in found if swap is not None)
    return swaps if len(swaps) == len(found) <= HUNKS_MAX else ()


def _swap(edit: Mapping[str, Any]) -> Swap | None:
    for old_name, new_name in NAMES:
        old, new = edit.get(old_name), edit.get(new_name)
        if isinstance(old, str) and isinstance(new, str) and old:
            every = edit.get("replace_all") is True or edit.get("replaceAll") is True
            return Swap(old, new, every)
    return None


def blocks_of(diff: str) -> tuple[Swap, ...]:
    """The replaced texts of SEARCH/REPLACE blocks."""
    return tuple(Swap(found[1], found[2]) for found in _BLOCK.finditer(diff) if found[1])


def editor_touch(path: str, op: FileOp, given: Mapping[str, Any]) -> Touch:
    """A write of an editor with commands: create with a text, replace one text, insert lines after one.

    Such editors make spaces of the tabs in a file that they change, so a change fits only a text without tabs.
    """
    command = text(given.get("command"))
    if op == "created":
        content = given.get("file_text")
        return Touch(path=path, op=op, after_text=content if isinstance(content, str) else None)
    after, new = given.get("insert_line"), given.get("new_str")
    if command == "insert" and type(after) is int and after > 0 and isinstance(new, str):
        body = "".join(f"+{line}\n" for line in new.split("\n"))
        return Touch(path=path, op=op, places=(Hunk(body, after, after + 1),))
    if command == "str_replace" and (swap := _swap(given)) is not None:
        return Touch(path=path, op=op, places=(Swap(swap.old, swap.new, tabs=False),))
    return Touch(path=path, op=op)


def from_numbered(diff: str) -> tuple[Hunk, ...]:
    """The hunks of a diff whose lines have numbers (`-  87 text`), with `...` between them; nothing if the numbers do
    not follow one another, or a hunk may reach the end of its file: such a diff does not say how a file ends."""
    found: list[Hunk] = []
    parts: list[tuple[str, int, str]] = []
    for line in [*diff.split("\n"), "..."]:
        if line.strip() == "...":
            if parts and (hunk := _hunk(parts)) is not None:
                found.append(hunk)
            elif parts:
                return ()
            parts = []
            continue
        shown = _NUMBERED.fullmatch(line)
        if shown is None:
            return ()
        parts.append((shown[1], int(shown[2]), shown[3]))
    return tuple(found)


def _hunk(parts: list[tuple[str, int, str]]) -> Hunk | None:
    old = next((number for sign, number, _ in parts if sign != "+"), 0)
    new = next((number for sign, number, _ in parts if sign == "+"), 0)
    at = old
    for sign, number, _ in parts:
        if sign != "+":
            if number != at:
                return None
            at += 1
    trailing = [sign for sign, _, _ in parts[-NUMBERED_CONTEXT:]]
    if not old or trailing != [" "] * NUMBERED_CONTEXT:
        return None
    return Hunk("".join(f"{sign}{text}\n" for sign, _, text in parts), old, new or old)
