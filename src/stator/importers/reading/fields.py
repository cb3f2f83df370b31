"""Reads fields of foreign records, whose values may have any type, and builds values that several
formats share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from stator.model.exchange.items import Step, Touch
from stator.model.exchange.shell_effects import files_touched
from stator.model.log.shown_text import cut_short
from stator.model.window.reply import ANSWER_COST_MAX

MICROS = 1_000_000
LATEST = 253_402_300_800 * MICROS
"""The end of the year 9999, in µs."""
COUNT_MAX = 2**53 - 1
"""The largest whole number that a record can hold."""
HEADLINE_MAX = 60
"""The most characters of a prompt that name a conversation."""
TAGS_MAX = 100
"""The most different unclosed tags in a text before the search ends."""
_TAG = re.compile(r"<(\w{1,64})>")
_CHECK = re.compile(r"^[ \t]*[-*+][ \t]*\[([^\]\n])\][ \t]*(\S[^\n]*)$", re.MULTILINE)


def text(value: Any) -> str:
    """The value if it is a string, otherwise ""."""
    return value if isinstance(value, str) else ""


def record(value: Any) -> dict[str, Any]:
    """The value if it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def records(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; [] if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def joined_text(content: Any) -> str:
    """The text of a content: a string, or the text blocks among its blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(text(b.get("text")) for b in records(content) if b.get("type") == "text")


def as_text_if_plain(content: Any) -> Any:
    """The content as a string if it consists only of text blocks, otherwise unchanged."""
    only = isinstance(content, list) and all(b.get("type") == "text" for b in records(content))
    return joined_text(content) if only else content


def whole_number(value: Any) -> int:
    """A count as a whole number, at least 0; 0 for a number that no record can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    return int(value) if 0 <= value <= COUNT_MAX else 0


def micros_of_millis(value: Any) -> int:
    """Convert milliseconds since 1970 to µs; 0 if the value is not a valid time."""
    at = whole_number(value) * 1000
    return at if at < LATEST else 0


def micros_of_iso(value: Any) -> int:
    """Convert an ISO 8601 time to µs since 1970; a time without a zone is UTC. 0 if it is not
    valid."""
    try:
        at = datetime.fromisoformat(text(value))
    except ValueError:
        return 0
    zoned = at if at.tzinfo else at.replace(tzinfo=UTC)
    try:
        return max(round(zoned.timestamp() * MICROS), 0)
    except (OverflowError, ValueError):
        return 0


def _amount(value: Any) -> int:
    """What one answer cost in a unit; 0 if no answer can cost that much."""
    amount = whole_number(value)
    return amount if amount <= ANSWER_COST_MAX else 0


def usage_units(
    *,
    input_tokens: Any = 0,
    output_tokens: Any = 0,
    cache_read: Any = 0,
    cache_write: Any = 0,
    dollars: Any = 0,
) -> dict[str, int]:
    """The cost of an answer in the units of `spend` records; `tokens` is the sum of the four token
    counts."""
    units = {
        "tokens:in": _amount(input_tokens),
        "tokens:out": _amount(output_tokens),
        "tokens:cache_read": _amount(cache_read),
        "tokens:cache_write": _amount(cache_write),
    }
    money = dollars * MICROS if isinstance(dollars, (int, float)) else 0
    spent = {"tokens": sum(units.values()), **units, "money:usd": _amount(money + 0.5)}
    return {unit: count for unit, count in spent.items() if count}


def headline(words: Any) -> str:
    """A name for a conversation without a title: the first line of its first prompt."""
    line = next(
        (line.strip() for line in cut_short(text(words), 4000).splitlines() if line.strip()), ""
    )
    return line if len(line) <= HEADLINE_MAX else cut_short(line, HEADLINE_MAX - 1) + "…"


class UniqueIds:
    """Makes ids unique: a repeated id gets a suffix with its ordinal."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def once(self, name: str) -> str:
        """The name itself the first time, then `name~2`, `name~3`, …"""
        self._seen[name] += 1
        count = self._seen[name]
        return name if count == 1 else f"{name}~{count}"


def assistant_message(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """A model's answer as a message with blocks, the form that `model.window.reply` reads."""
    return {"role": "assistant", "content": blocks}


def tool_use_block(identifier: str, tool: str, given: Any) -> dict[str, Any]:
    """The block with which an answer requests a tool call."""
    arguments = given if isinstance(given, dict) else {} if given is None else {"input": given}
    return {"type": "tool_use", "id": identifier, "name": tool, "input": arguments}


class TaggedText(msgspec.Struct, frozen=True):
    """A piece of text between `<name>` and `</name>`, and its position with the tags."""

    name: str
    body: str
    start: int
    end: int


def tagged_texts(words: str, names: Container[str] | None = None) -> Iterator[TaggedText]:
    """Yield the pieces of a text that are enclosed in tags, of the given names or of any name.

    A name whose closing tag is missing is searched for only once. This keeps the time linear for
    hostile texts.
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
        yield TaggedText(name, words[place:end], found.start(), end + len(name) + 3)
        place = end + len(name) + 3


def parse_checklist(markdown: str) -> tuple[Step, ...]:
    """Parse a plan that is written as a Markdown checklist, `- [x] done`."""
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


def files_touched_by(command: Any) -> tuple[Touch, ...]:
    """The files that a successful shell command certainly touched."""
    return files_touched(text(command))
