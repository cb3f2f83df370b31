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


def counts(left: Mapping[str, int]) -> str:
    """decision 2, constraint 1"""
    return ", ".join(f"{name} {left[name]}" for name in RANKS if left.get(name))


def key_line(item: EvictedRecord | Evicted) -> Line:
    """A key with its rank and the commit that holds its content."""
    rank = min(max(item.rank, 0), len(RANKS) - 1)
    line = Line("  ").add(RANKS[rank], "dim", width=12)
    return line.add(f"@{item.seq}", "id", width=8).add(shown(item.key), STYLES[rank])


def shown(key: str) -> str:
    """A key as people type it: the last characters of a call's id are enough."""
    prefix, _, name = key.partition(":")
    return f"call:{short(name)}" if prefix == "call" else key
