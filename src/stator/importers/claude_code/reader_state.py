"""What a reader of a Claude Code transcript knows after a line: all that a later reading needs, and no more.

It is written with every append, so it holds no text of the conversation. What was read and is needed again
(a message that is not complete, a call without a result) is named by the place of its line in the file.
"""

from __future__ import annotations

from base64 import b64encode
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from stator.importers.claude_code.line_fields import NAME_MAX
from stator.importers.reading.jsonl import JsonlLine, read_lines
from stator.model.values.digest import blake2b

MAPPER = 2
"""The version of the mapping from lines to items."""
SEEN_MAX = 512
"""The most lines whose uuids are remembered, to notice a line that is repeated."""
CALLS_MAX = 256
"""The most calls without a result that are remembered."""
MESSAGES_MAX = 32
"""The most messages whose number of blocks is remembered, for blocks that arrive late."""
CHILDREN_MAX = 64
"""The most sub-agents of which it is remembered which call started them."""
CHAIN_MAX = 32
"""The most lines of one sub-agent that are remembered, to recognize the lines linked to them."""
AGENTS_MAX = 200
"""The most sub-agents of which counts and settings are remembered."""
INSTRUCTIONS_MAX = 40
"""The most files with instructions that are remembered."""
_DIGITS = 6
_NEAR = 256 * 1024
V = TypeVar("V")


class LinePlace(msgspec.Struct, array_like=True, frozen=True):
    """A line: its number and the offset at which it begins."""

    line: int
    offset: int


class OpenMessage(msgspec.Struct, array_like=True):
    """A message that may still be incomplete: its id, its lines and the lines between them."""

    id: str
    lines: list[LinePlace] = []
    size: int = 0


class CallPlace(msgspec.Struct, array_like=True):
    """A call without a result: the line that holds it."""

    line: int
    offset: int
    is_agent: bool = False
    within: str = ""


class ChildPlace(msgspec.Struct, array_like=True):
    """The call that started a sub-agent, and the line that holds it; "" if it is not known."""

    call: str = ""
    line: int = 0
    offset: int = 0


class PendingCompaction(msgspec.Struct, array_like=True):
    """A compaction whose summary comes on the next line."""

    id: str
    at: int
    within: str
    keeps_from: str
    before: int
    after: int


class ReaderState(msgspec.Struct, omit_defaults=True):
    """The state of a reader after a line. Names in `open`, `compactions` and the like are sub-agents' conversations;
    "" is the main one."""

    mapper: int = 0
    open: dict[str, OpenMessage] = {}
    seen: str = ""
    calls: dict[str, CallPlace] = {}
    children: dict[str, ChildPlace] = {}
    """The calls that started sub-agents, by the sub-agents' ids."""
    chains: dict[str, str] = {}
    """The last lines of sub-agents that have no id."""
    blocks: dict[str, int] = {}
    """The number of blocks that were yielded of the latest messages."""
    compactions: dict[str, int] = {}
    configured: dict[str, int] = {}
    settings: dict[str, dict[str, str]] = {}
    instructions: dict[str, str] = {}
    tasks: dict[str, str] = {}
    boundary: PendingCompaction | None = None
    is_titled: bool = False
    """Whether the user gave the conversation a title."""
    is_past_copies: bool = False
    """Whether all lines that a fork copied from its parent were read."""


def restored(state: Mapping[str, Any]) -> ReaderState | None:
    """The state in a cursor; None if it is not of this mapping."""
    if state.get("mapper") != MAPPER:
        return None
    try:
        return msgspec.convert(state, ReaderState)
    except msgspec.ValidationError:
        return None


class SeenLines:
    """The latest uuids, shortened."""

    def __init__(self, text: str) -> None:
        marks = (text[place : place + _DIGITS] for place in range(0, len(text), _DIGITS))
        self._order: deque[str] = deque(marks, SEEN_MAX)
        self._marks = set(self._order)

    def __contains__(self, uuid: str) -> bool:
        return mark_of(uuid) in self._marks

    def add(self, uuid: str) -> None:
        """Remember a uuid, and forget the oldest one."""
        mark = mark_of(uuid)
        if mark in self._marks:
            return
        if len(self._order) == SEEN_MAX:
            self._marks.discard(self._order[0])
        self._order.append(mark)
        self._marks.add(mark)

    def text(self) -> str:
        return "".join(self._order)


def mark_of(uuid: str) -> str:
    """A short name of a uuid, of which hardly any two have the same."""
    digest = blake2b(uuid.encode("utf-8", "surrogatepass"), digest_size=_DIGITS).digest()
    return b64encode(digest)[:_DIGITS].decode()


def chain_of(chains: Mapping[str, str], uuid: str) -> str:
    """The sub-agent that a line belongs to which is linked to that uuid."""
    mark = mark_of(uuid)
    for agent, text in chains.items():
        if any(text[place : place + _DIGITS] == mark for place in range(0, len(text), _DIGITS)):
            return agent
    return ""


def link(chains: dict[str, str], agent: str, uuid: str) -> None:
    """Remember that a line belongs to a sub-agent."""
    text = chains.pop(agent, "") + mark_of(uuid)
    remember(chains, agent, text[-CHAIN_MAX * _DIGITS :], CHILDREN_MAX)


def remember(values: dict[str, V], name: str, value: V, most: int) -> None:
    """Store a value and drop the oldest ones beyond `most`. A name longer than any program writes is left out."""
    if len(name) <= 2 * NAME_MAX:
        values[name] = value
    while len(values) > most:
        del values[next(iter(values))]


def lines_at(path: str, places: Iterable[LinePlace]) -> Iterator[JsonlLine]:
    """The lines at some places of a file, in their order; one that is no longer there is left out."""
    rows: Iterator[JsonlLine] = iter(())
    end = -_NEAR - 1  # so far, nothing was read
    for place in places:
        if not 0 <= place.offset - end <= _NEAR:
            rows = read_lines(path, offset=place.offset, number=place.line - 1)
        for line in rows:
            if line.number >= place.line:
                end = line.end
                yield line
                break
