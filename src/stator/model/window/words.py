"""Says in words what a key stands for, to a model that does not see it any more. Pure.

Our words are ours; text from the record is between « and », cut short, on one line, and cannot close them. A key is
spelled so that `recall` takes it as it is given: plain, or as a JSON string. Results are never quoted here: a model
reads how they ended and how long they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stator.model.exchange.tool_files import subject
from stator.model.log.shown_text import cut_short
from stator.model.records.types import EvictedRecord
from stator.model.values.escape import guarded
from stator.model.values.ids import short
from stator.model.values.json_text import canonical, shown, utf8
from stator.model.window.reply import requests, text_of

QUOTE_MAX = 80
"""Characters of recorded text that are quoted."""
LOOKED_AT = 4000
"""Characters of a value that are looked at for that."""
LEFT_TOKENS = 600
"""Tokens of the lines that name what left a view."""
BYTES_PER_TOKEN = 4
ROUNDS = (2, 8)
"""Keys of each rank that are named before any rank gets more."""
UNKNOWN = ("started", "in doubt")
"""Statuses of calls whose outcome is not known."""
FAILED, WRITTEN, READ, SAID = range(4)
"""Kinds of calls and messages, the most missed first."""

CountTokens = Callable[[str], int]
"""Tokens in a text."""
Told = Callable[[EvictedRecord], str]
"""What a key stands for, in words; "" if the key says enough."""


def place_of(status: str, effect: str) -> int:
    """How much a call is missed: one that failed or is in doubt first, then what changed something, then the rest."""
    if status not in ("ok", "not run"):
        return FAILED
    return READ if effect == "read" else WRITTEN


# -- words ----------------------------------------------------------------------------------------


def tokens(text: str) -> int:
    """About how many tokens a text has."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def quoted(value: Any) -> str:
    """The beginning of recorded text between « and »."""
    text = " ".join(cut_short(utf8(shown(value)), LOOKED_AT).split())
    return f"«{guarded(cut_short(text, QUOTE_MAX))}{'…' if len(text) > QUOTE_MAX else ''}»"


def call_words(
    tool: str, given: Any, status: str, size: int | None = None, *, recall: str = ""
) -> str:
    """A call with its path or command, how it ended and the length of what it gave."""
    about = subject(tool, given) or (canonical(given) if given else "")
    ended = (
        "outcome unknown, it may or may not have happened"
        if status in UNKNOWN
        else guarded(cut_short(status, QUOTE_MAX))
    )
    length = f", {size:,} characters" if size is not None else ""
    key = f"; recall {call_key(recall)}" if recall else ""
    return f"{tool}{f' {quoted(about)}' if about else ''} ({ended}{length}{key})"


def user_words(value: Any) -> str:
    """A prompt, or a note of a user."""
    return f"the user: {quoted(value)}"


def model_words(value: Any) -> str:
    """The text of an answer, or which tools it asked for."""
    text = text_of(value)
    asked = ", ".join(request.name for request in requests(value)) if not text.strip() else ""
    return f"the model: {quoted(text or asked)}" if text.strip() or asked else "the model"


# -- keys -----------------------------------------------------------------------------------------


def call_key(call: str) -> str:
    return f"call:{short(call)}"


def spelled(key: str) -> str:
    """A key as `recall` takes it; one that holds recorded text is a JSON string of visible characters."""
    prefix, _, name = key.partition(":")
    if prefix == "call" and name.isascii() and name.replace("_", "").isalnum():
        return call_key(name)
    if prefix == "entry" and name.startswith("@") and name[1:].isdecimal() and name.isascii():
        return key
    return "".join(_spelled(char) for char in json.dumps(utf8(key), ensure_ascii=False))


def _spelled(char: str) -> str:
    """A character as it is, if it shows as what it is and begins no tag; else as JSON escapes it."""
    if char in "<«»" or (not char.isascii() and guarded(char) != char):
        units = char.encode("utf-16-be")
        pairs = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
        return "".join(f"\\u{unit:04x}" for unit in pairs)
    return char


# -- lines ----------------------------------------------------------------------------------------


class FittingLines(NamedTuple):
    """Lines that fit a budget."""

    lines: Sequence[str] = ()
    named: Sequence[str] = ()
    """The keys that they name."""


class LeftLines(msgspec.Struct, frozen=True):
    """The lines about what left a view, the most useful first."""

    header: str
    """Says how many there are of each rank, and how they are recalled."""
    records: Sequence[EvictedRecord]
    """The most useful of each rank first."""
    total: int
    """How many left, named or not."""
    lists: Mapping[int, str]
    """By rank, a key that lists all of it."""
    told: Told

    def within(self, budget: int = LEFT_TOKENS, *, most: int | None = None) -> FittingLines:
        """As many lines as fit the budget, with a last one that counts the others; none if not even those two do.
        `most` is how many keys may be named."""
        room = budget - tokens(f"{self.header}\n{self._others(self.total, self.lists)}\n")
        if room < 0:
            return FittingLines()
        named: dict[str, str] = {}
        for record in self._rounds():
            if most is not None and len(named) >= most:
                break
            line = f"  {self._line(record)}"
            room -= tokens(line + "\n")
            if room < 0:
                break
            named[record.key] = line
        lines = [named[record.key] for record in self.records if record.key in named]
        more = self.total - len(lines)
        rest = {record.rank for record in self.records if record.key not in named}
        others = [self._others(more, rest or self.lists)] if more > 0 else []
        return FittingLines([self.header, *lines, *others], list(named))

    def _rounds(self) -> list[EvictedRecord]:
        """The first few of each rank, then some more of each, then the rest."""
        counts: dict[int, int] = {}
        rounds: list[list[EvictedRecord]] = [[] for _ in range(len(ROUNDS) + 1)]
        for record in self.records:
            place = counts[record.rank] = counts.get(record.rank, 0) + 1
            rounds[sum(place > limit for limit in ROUNDS)].append(record)
        return [record for each in rounds for record in each]

    def _line(self, record: EvictedRecord) -> str:
        words = self.told(record)
        return f"{words}: {spelled(record.key)}" if words else spelled(record.key)

    def _others(self, more: int, ranks: Iterable[int]) -> str:
        lists = [self.lists[rank] for rank in sorted(ranks) if rank in self.lists]
        see = f"; see {', '.join(lists)}" if lists else ""
        return f"  and {more:,} more{see}"
