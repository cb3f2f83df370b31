"""Shows evicted keys, one per line. Used by `compact` and `evicted`."""

from __future__ import annotations

from collections.abc import Mapping

from stator.model.records.types import EvictedRecord
from stator.model.values.ids import short
from stator.model.window.compaction import RANKS
from stator.runtime.window.recall import Evicted
from stator.surfaces.cli.render.lines import Line

STYLES = ("bold", "bold", "", "", "dim")
"""By rank."""
WORDS = {
    "decision": ("decision", "decisions"),
    "constraint": ("request", "requests"),
    "number": ("number", "numbers"),
    "file": ("file", "files"),
    "chatter": ("message or call", "messages and calls"),
}
"""What is of a rank, as people call it: one, and several."""
KINDS = {"constraint": "asked", "chatter": "said"}
"""Ranks whose name says less than another word does."""


def counts(left: Mapping[str, int]) -> str:
    """decision 2, constraint 1"""
    return ", ".join(f"{name} {left[name]}" for name in RANKS if left.get(name))


def in_words(counted: Mapping[str, int]) -> str:
    """2 decisions, 1 request, 40 messages and calls"""
    found = ((rank, counted[rank]) for rank in RANKS if counted.get(rank))
    return ", ".join(f"{many:,} {WORDS[rank][many != 1]}" for rank, many in found)


def key_line(item: EvictedRecord | Evicted) -> Line:
    """A key with its rank and the commit that holds its content."""
    rank = min(max(item.rank, 0), len(RANKS) - 1)
    line = Line("  ").add(_kind(item.key, RANKS[rank]), "dim", width=12)
    return line.add(f"@{item.seq}", "id", width=8).add(shown(item.key), STYLES[rank])


def _kind(key: str, rank: str) -> str:
    """What a key is of, in a word."""
    return "call" if key.startswith("call:") else KINDS.get(rank, rank)


def shown(key: str) -> str:
    """A key as people type it: the last characters of a call's id are enough."""
    prefix, _, name = key.partition(":")
    return f"call:{short(name)}" if prefix == "call" else key
