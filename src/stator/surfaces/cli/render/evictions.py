"""Shows evicted keys, one per line. Used by `compact` and `evicted`."""

from __future__ import annotations

from collections import Counter
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


def by_kind(ranks: Mapping[int, int]) -> Counter[str]:
    """Numbers by rank as numbers by kind. What is not named of constraints are requests: rules are named first."""
    names = {rank: "request" if name == "constraint" else name for rank, name in enumerate(RANKS)}
    return Counter({names[rank]: many for rank, many in ranks.items()})


def kind_of(item: EvictedRecord | Evicted) -> str:
    """What a key is of, one of `WORDS`: a constraint is a request, where it is a prompt, else a rule or a dead end."""
    rank = RANKS[min(max(item.rank, 0), len(RANKS) - 1)]
    if rank != "constraint":
        return rank
    return "request" if item.key.startswith("entry:") else "rule"


def key_line(item: EvictedRecord | Evicted) -> Line:
    """A key with its rank and the commit that holds its content."""
    rank = min(max(item.rank, 0), len(RANKS) - 1)
    line = Line("  ").add(_kind(item), "dim", width=12)
    return line.add(f"@{item.seq}", "id", width=8).add(shown(item.key), STYLES[rank])


def _kind(item: EvictedRecord | Evicted) -> str:
    """The same in the word that begins its line."""
    kind, prefix = kind_of(item), item.key.partition(":")[0]
    if prefix == "entry":
        return "asked" if kind == "request" else "said"
    return prefix.replace("_", " ") if kind in ("rule", "chatter") else kind


def shown(key: str) -> str:
    """A key as people type it: the last characters of a call's id are enough."""
    prefix, _, name = key.partition(":")
    return f"call:{short(name)}" if prefix == "call" else key
