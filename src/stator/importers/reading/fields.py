"""Reading foreign records, whose values may be anything, and what several formats make of them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Container, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from stator.importers.reading.shell_effects import touched
from stator.model.exchange.items import Step, Touch

MICROS = 1_000_000
FURTHEST = 253_402_300_800 * MICROS
"""The end of the year 9999, in µs."""
HEADLINE = 60
"""Characters of a prompt that name a conversation."""
TAGS_MAX = 100
"""Names of tags that are opened and never closed, after which nobody looks any further."""
_TAG = re.compile(r"<(\w{1,64})>")
_CHECK = re.compile(r"^[ \t]*[-*+][ \t]*\[([^\]\n])\][ \t]*(\S[^\n]*)$", re.MULTILINE)


def text(value: Any) -> str:
    """A text, or none."""
    return value if isinstance(value, str) else ""


def record(value: Any) -> dict[str, Any]:
    """An object, or an empty one."""
    return value if isinstance(value, dict) else {}


def records(value: Any) -> list[dict[str, Any]]:
    """The objects in a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def words_of(content: Any) -> str:
    """The words of a content: text, or blocks of which some are text."""
    if isinstance(content, str):
        return content
    return "\n".join(text(b.get("text")) for b in records(content) if b.get("type") == "text")


def plain(content: Any) -> Any:
    """A content as text where it is nothing else, else as the blocks it is."""
    only = isinstance(content, list) and all(b.get("type") == "text" for b in records(content))
    return words_of(content) if only else content


def amount(value: Any) -> int:
    """A number of something, whole and not below nothing."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return 0
    return max(int(value), 0)


def millis(value: Any) -> int:
    """A time in ms since 1970, in µs; 0 where it is none."""
    at = amount(value) * 1000
    return at if at < FURTHEST else 0


def moment(value: Any) -> int:
    """A time as ISO 8601 writes it, in µs; without a zone it is taken for UTC. 0 where it is none."""
    try:
        at = datetime.fromisoformat(text(value))
    except ValueError:
        return 0
    zoned = at if at.tzinfo else at.replace(tzinfo=UTC)
    try:
        return max(round(zoned.timestamp() * MICROS), 0)
    except (OverflowError, ValueError):
        return 0


def spend(
    *, fresh: Any = 0, said: Any = 0, read: Any = 0, written: Any = 0, dollars: Any = 0
) -> dict[str, int]:
    """What an answer cost, in the units of `spend`: `tokens` is the sum of the four others."""
    units = {
        "tokens:in": amount(fresh),
        "tokens:out": amount(said),
        "tokens:cache_read": amount(read),
        "tokens:cache_write": amount(written),
    }
    money = dollars * MICROS if isinstance(dollars, (int, float)) else 0
    spent = {"tokens": sum(units.values()), **units, "money:usd": amount(money + 0.5)}
    return {unit: count for unit, count in spent.items() if count}


def headline(words: Any) -> str:
    """What a conversation without a title is called: the first line of what was asked."""
    line = next((line.strip() for line in text(words)[:4000].splitlines() if line.strip()), "")
    return line if len(line) <= HEADLINE else line[: HEADLINE - 1] + "…"


class Names:
    """Ids that are each given out once: what the other side repeats is told apart by its place."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def once(self, name: str) -> str:
        self._seen[name] += 1
        count = self._seen[name]
        return name if count == 1 else f"{name}~{count}"


def said(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """A model's answer in blocks, as `model.window.reply` reads it."""
    return {"role": "assistant", "content": blocks}


def asks(identifier: str, tool: str, given: Any) -> dict[str, Any]:
    """The block in which an answer asks for a call."""
    arguments = given if isinstance(given, dict) else {} if given is None else {"input": given}
    return {"type": "tool_use", "id": identifier, "name": tool, "input": arguments}


class Tagged(msgspec.Struct, frozen=True):
    """A piece of text between `<name>` and `</name>`, and where it stands, tags included."""

    name: str
    body: str
    start: int
    end: int


def tagged(words: str, names: Container[str] | None = None) -> Iterator[Tagged]:
    """The pieces of a text that stand in tags, of some names or of any, one after the other.

    Each name is looked for once at most where it is never closed, so that no text takes long.
    """
    unclosed: set[str] = set()
    place = 0
    while len(unclosed) < TAGS_MAX and (found := _TAG.search(words, place)):
        name, place = found[1], found.end()
        if name in unclosed or (names is not None and name not in names):
            continue
        end = words.find(f"</{name}>", place)
        if end < 0:
            unclosed.add(name)
            continue
        yield Tagged(name, words[place:end], found.start(), end + len(name) + 3)
        place = end + len(name) + 3


def checklist(markdown: str) -> tuple[Step, ...]:
    """A plan written as a list of boxes, `- [x] done`."""
    return tuple(
        Step(
            step=found[2].strip(),
            status="done"
            if found[1] in "xX"
            else "in_progress"
            if found[1] in "~>-"
            else "pending",
        )
        for found in _CHECK.finditer(markdown)
    )


def shell_files(command: Any) -> tuple[Touch, ...]:
    """The files that a command which ended well has certainly touched."""
    return touched(text(command))
