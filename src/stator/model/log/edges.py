"""Edges: the commits that a commit was made from, as a draft names them, as the log holds them, and as they are read.

In a draft, an input is a seq, an id, or the two ids that a range begins and ends with (`Named`). In the log there are
numbers, as far as the commits are in this lineage: n is a seq, and n followed by -m is the range from n to m. What is
elsewhere, or not here yet, stays an id. Numbers cost two bytes each and no lookup when they are read.

Written edges are its `inputs`, unless its kind uses them as operands (`registry`, column `operands`). Implied ones
are not written: an outcome was made by its call, what was recorded inside a call was made by that call, and a
compaction was made from what it covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from stator.errors import InvalidInput
from stator.model.log.commit import UNTRUSTED, Commit, Draft, Named
from stator.model.log.reduce import StateView
from stator.model.records.tables import OPERANDS, SHOWN
from stator.model.values.ids import is_id, retype

ALWAYS = "always"
PARTIAL = "partial"
"""Status of an answer that broke off: no model is shown it."""
_NOT_SHOWN = {"entry": PARTIAL, "compaction": "window"}
"""Kinds of which a model is shown all but those with a status: what only records which turns did not fit is no note."""


# -- reading --------------------------------------------------------------------------------------


class Edge(msgspec.Struct, frozen=True, order=True):
    """One commit, or a range, that another commit was made from. Both seqs are of the commit's lineage."""

    first: int = 0
    last: int = 0
    """The same as `first` for a single commit. A range means the commits in it that a model's view holds."""
    id: str = ""
    """The id of a commit instead: it is in another session, or was not in this one at the time. The id of a call
    or a turn names the commit that began it."""

    @property
    def is_range(self) -> bool:
        return self.first != self.last

    def holds(self, commit: Commit) -> bool:
        """Whether it leads to a commit of the same lineage."""
        if self.id:
            return retype(self.id, "commit") == commit.id
        if not self.first <= commit.seq <= self.last:
            return False
        return not self.is_range or is_shown(commit)


def is_shown(commit: Commit) -> bool:
    """Whether a range of inputs means this commit. Of what a session took over, only that which is not trusted: the
    way to the rest would lead through all the sessions before."""
    if commit.kind == "carry" and commit.provenance.source not in UNTRUSTED:
        return False
    return commit.kind in SHOWN and commit.status != _NOT_SHOWN.get(commit.kind)


def uses_operands(commit: Commit) -> bool:
    """Whether the inputs of a commit are what it is about, not what it was made from."""
    status = OPERANDS.get(commit.kind)
    return status is not None and status in (ALWAYS, commit.status)


def edges_of(commit: Commit) -> list[Edge]:
    """What a commit was made from. An edge never leads forward: in a log from elsewhere, one that would is
    ignored."""
    written = [] if uses_operands(commit) else written_edges(commit.inputs)
    found = [*written, *_implied(commit)]
    return [edge for edge in dict.fromkeys(found) if edge.id or edge.last < commit.seq]


def written_edges(inputs: Sequence[int | str]) -> Iterator[Edge]:
    """Inputs as edges. A negative number that ends no range means nothing."""
    pending = 0
    for item in inputs:
        if isinstance(item, str):
            if pending:
                yield Edge(pending, pending)
            yield Edge(id=item)
            pending = 0
        elif item > 0:
            if pending:
                yield Edge(pending, pending)
            pending = item
        elif pending:
            yield Edge(min(pending, -item), max(pending, -item)) if item else Edge(pending, pending)
            pending = 0
    if pending:
        yield Edge(pending, pending)


def as_inputs(edges: Iterable[Edge]) -> tuple[int | str, ...]:
    """Edges as a draft names them."""
    found: list[int | str] = []
    for edge in edges:
        if edge.id:
            found.append(edge.id)
        else:
            found += [edge.first, -edge.last] if edge.is_range else [edge.first]
    return tuple(found)


def _implied(commit: Commit) -> Iterator[Edge]:
    # The answer of a model names what it was shown. The question it answers adds nothing to that.
    if commit.call and commit.kind not in ("call", "entry"):
        yield Edge(id=commit.call)
    if commit.parent:
        yield Edge(id=commit.parent)
    if commit.kind == "compaction" and (covered := _covered(commit)):
        yield Edge(1, covered)


def _covered(commit: Commit) -> int:
    """The seq up to which a compaction put a note in the place of what was said."""
    numbers = [number for number in commit.inputs if isinstance(number, int)]
    return max(0, min(numbers[-1], commit.seq - 1)) if len(numbers) >= 3 else 0


# -- sealing --------------------------------------------------------------------------------------


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
