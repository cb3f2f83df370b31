"""Inserts entries into a JSON text and removes them; every other byte stays. Pure.

What an insertion adds can be removed again without a note elsewhere, because our own bytes show what was
there before. An entry in a container that was there already is written with one more space (`"Stop" : [`,
`{ "hooks"`). An entry in a container that we created with it is not; if only such entries are left, the
container goes with them. In a container that was empty, space before our first entry shows that nothing was
between its brackets; if something was, our entry follows the bracket directly.
"""

from __future__ import annotations

import json
import re
from typing import Any

from stator.surfaces.agent_settings.json_spans import JsonEntry, JsonSpan, parse_json, space_end

UNIT = "  "
"""The indentation in a text that has none."""
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)


class TextEdits:
    """Edits of one text, by place; they are made together."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._edits: list[tuple[int, int, str]] = []

    def insert(self, at: int, words: str) -> None:
        self._edits.append((at, at, words))

    def delete(self, start: int, end: int) -> None:
        self._edits.append((start, end, ""))

    def result(self) -> str:
        """The text with all edits."""
        pieces, place = [], 0
        for start, end, words in sorted(self._edits, key=lambda edit: edit[:2]):
            pieces += [self.text[place:start], words]
            place = max(place, end)
        return "".join([*pieces, self.text[place:]])


class NewEntry:
    """An entry to insert. A value that is a dict with `levels` > 0 is written over several lines."""

    def __init__(self, value: Any, key: str = "", levels: int = 0) -> None:
        self.value = value
        self.key = key
        self.levels = levels

    def as_text(self, newline: str, unit: str, *, spaced: bool) -> str:
        """The entry as text; `newline` is a line break with the indentation of the entry, or ""."""
        body = _value_text(self.value, self.levels, newline, unit)
        if self.key:
            return f"{_dumps(self.key)}{' ' if spaced else ''}: {body}"
        return f"{{ {body[1:]}" if spaced else body


def new_document(members: list[NewEntry]) -> str:
    """A new object with these members, over several lines."""
    pieces = [member.as_text(f"\n{UNIT}", UNIT, spaced=False) for member in members]
    return "{" + ",".join(f"\n{UNIT}{piece}" for piece in pieces) + "\n}"


def insert_entries(
    edits: TextEdits, root: JsonSpan, container: JsonSpan, entries: list[NewEntry]
) -> None:
    """Insert entries at the end of a container that exists."""
    text = edits.text
    unit = _unit(text, root)
    if not container.entries:
        is_bare = container.end - container.start == 2
        lead = _empty_lead(text, root, container, unit) if is_bare else ""
        line = lead if "\n" in lead else ""
        pieces = [entry.as_text(line, unit, spaced=True) for entry in entries]
        edits.insert(container.start + 1, lead + f",{line or ' '}".join(pieces))
        if is_bare:
            edits.insert(container.end - 1, lead.removesuffix(unit) if line else lead)
        return
    last = container.entries[-1]
    at = last.end if last.comma < 0 else last.comma + 1
    place = _comment_end(text, at)
    gap = text[_gap_start(text, last.start) : last.start]
    line = _newline(text) + gap.rpartition("\n")[2] if "\n" in gap else ""
    if not line and text[at:place].lstrip().startswith("//"):
        line = _newline(text) + _indent_at(text, last.start)
    separator = line or " "
    pieces = [entry.as_text(line, unit, spaced=True) for entry in entries]
    words = separator + f",{separator}".join(pieces)
    if last.comma >= 0:
        edits.insert(place, words + ",")
    elif place == at:
        edits.insert(at, "," + words)
    else:
        edits.insert(at, ",")
        edits.insert(place, words)


def remove_entries_of(edits: TextEdits, container: JsonSpan, own: list[JsonEntry]) -> bool:
    """Delete entries of a container. If the container was ours and only they were in it, nothing is
    deleted and the answer is True: then it belongs to what its parent deletes."""
    if not own:
        return False
    text = edits.text
    if len(own) == len(container.entries) and not _has_comments(container):
        if not any(is_spaced(entry) for entry in own):
            return True
        end = max(own[-1].end, own[-1].comma + 1)
        if own[0].start > container.start + 1:  # nothing was between the brackets
            end = space_end(text, end)
        edits.delete(container.start + 1, end)
        return False
    kept = [entry for entry in container.entries if not any(entry is one for one in own)]
    for entry in own:
        start, end = _gap_start(text, entry.start), entry.end
        after = end if entry.comma < 0 else entry.comma + 1
        if _is_after_line_comment(container, entry) and text[after : after + 1] not in "\r\n":
            start = entry.start
        edits.delete(start, end)
        if entry.comma >= 0:
            edits.delete(entry.comma, entry.comma + 1)
        elif kept:  # the last one: then the comma before it has nothing to separate
            edits.delete(kept[-1].comma, kept[-1].comma + 1)
    return False


def is_spaced(entry: JsonEntry) -> bool:
    """Whether an entry of ours was inserted into a container that was there already."""
    if entry.key_end:
        return entry.colon > entry.key_end
    text, start = entry.span.text, entry.span.start
    return text[start + 1 : start + 2] == " "


def parsed_value(text: str) -> Any:
    """The value of a whole text."""
    return parse_json(text).value


def _value_text(value: Any, levels: int, newline: str, unit: str) -> str:
    if not levels or not newline or not isinstance(value, dict):
        return _dumps(value)
    inner = newline + unit
    members = [
        f"{inner}{_dumps(key)}: {_value_text(part, levels - 1, inner, unit)}"
        for key, part in value.items()
    ]
    return "{" + ",".join(members) + newline + "}"


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _empty_lead(text: str, root: JsonSpan, container: JsonSpan, unit: str) -> str:
    """The space before the first entry of a container without anything between its brackets."""
    if container is not root and "\n" not in text[root.start : root.end]:
        return " "
    return _newline(text) + _indent_at(text, container.start) + unit


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str, root: JsonSpan) -> str:
    """One level of the text's indentation."""
    if not root.entries:
        return UNIT
    start = root.entries[0].start
    gap = text[_gap_start(text, start) : start]
    return (gap.rpartition("\n")[2] if "\n" in gap else "") or UNIT


def _indent_at(text: str, at: int) -> str:
    """The indentation of the line of a place."""
    start = text.rfind("\n", 0, at) + 1
    line = text[start:at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _gap_start(text: str, at: int) -> int:
    """Where the white space that ends at a place begins."""
    return len(text[:at].rstrip(" \t\r\n"))


def _comment_end(text: str, at: int) -> int:
    """Where the comment after a place on the same line ends; the place itself if there is none."""
    start = at + len(text[at:]) - len(text[at:].lstrip(" \t"))
    if text.startswith("//", start):
        ends = [end for end in (text.find("\r", start), text.find("\n", start)) if end >= 0]
        return min(ends, default=len(text))
    if text.startswith("/*", start):
        end = text.find("*/", start) + 2
        return at if "\n" in text[start:end] else end
    return at


def _has_comments(container: JsonSpan) -> bool:
    """Whether there are comments between the entries of a container."""
    places = [container.start + 1]
    for entry in container.entries:
        places += [entry.start, entry.end]
    places.append(container.end - 1)
    text = container.text
    return any("/" in text[a:b] for a, b in zip(places[::2], places[1::2], strict=True))


def _is_after_line_comment(container: JsonSpan, entry: JsonEntry) -> bool:
    """Whether the last thing before an entry is a comment that a line break ends."""
    ends = [container.start + 1]
    ends += [max(one.end, one.comma + 1) for one in container.entries if one.end <= entry.start]
    comments = _COMMENT.findall(container.text, ends[-1], entry.start)
    return bool(comments) and comments[-1].startswith("//")
