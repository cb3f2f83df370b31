"""Resolves the commits that a draft names as its inputs, by id, into seqs of the log.

In a draft, an input is a seq, an id, or the two ids that a range begins and ends with (`Named`). In the log there are
numbers, as far as the commits are in this lineage: n is a seq, and n followed by -m is the range from n to m. What is
elsewhere, or not here yet, stays an id. Numbers cost two bytes each and no lookup when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from stator.errors import InvalidInput
from stator.model.log.commit import Draft, Named
from stator.model.log.reduce import StateView
from stator.model.records.tables import OPERANDS
from stator.model.values.ids import is_id, retype


class LogView(StateView, Protocol):
    """The state just before a commit, and where the commits before it are."""

    def locate(self, identifier: str) -> int:
        """The seq of the commit with that id, in this session or its lineage; 0 if it is not there."""
        ...


def resolved(draft: Draft, view: LogView, seq: int) -> list[int | str]:
    """The inputs of a draft that becomes the commit at `seq`, as the log holds them."""
    found: list[int | str] = []
    for item in draft.inputs:
        if type(item) is int:
            found.append(item)
        elif type(item) is str:
            found.append(_located(item, view) or item)
        else:
            found += _range(item, view)  # type: ignore[arg-type]
    for item in () if draft.kind in OPERANDS else found:
        if type(item) is int and not -seq < item < seq:
            raise InvalidInput(
                f"@{abs(item)} is not before @{seq}, so nothing at @{seq} was made from it",
                path="$.inputs",
                hint="name commits that are in the log already",
            )
    return found


def _range(ends: tuple[str, str], view: LogView) -> list[int | str]:
    first, last = (_located(end, view) for end in ends)
    if not first or not last:
        return [*ends] if ends[0] != ends[1] else [ends[0]]
    low, high = min(first, last), max(first, last)
    return [low] if low == high else [low, -high]


def _located(text: str, view: LogView) -> int:
    """A call or a turn is named by its own id too: it has the digits of the commit that began it."""
    if not is_id(text) or text[0] not in "kct":
        return 0
    return view.locate(retype(text, "commit"))


def scrubbed_names(inputs: Sequence[Named], scrub: Callable[[str], str]) -> tuple[Named, ...]:
    """The inputs without secrets. An id holds none."""

    def clean(text: str) -> str:
        return text if is_id(text) else scrub(text)

    return tuple(
        clean(item)
        if isinstance(item, str)
        else (clean(item[0]), clean(item[1]))
        if isinstance(item, tuple)
        else item
        for item in inputs
    )
