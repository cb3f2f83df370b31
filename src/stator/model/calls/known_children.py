"""Finds the sub-agents of a recorded turn, and which of their turns an opening of one has begun, in all runs.

A turn may open a child several times, and each time may fail and run again: in a later run, the same opening
continues, and may begin turns that its recorded end does not count. Decisions only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, takewhile

import msgspec

from stator.model.calls import program
from stator.model.calls.program import Spans
from stator.model.log.commit import Commit
from stator.model.log.delta import Put

STARTED = "started"
MANY = 2**53
"""More turns than there are: up to the last."""


class KnownOpening(msgspec.Struct, frozen=True):
    """A child that an earlier run of the turn opened."""

    begun: Commit
    ended: Commit | None
    """Its first end: a later one may count turns that were begun for another opening."""
    shares_call: bool
    """Whether the same call opened the child once more after it: what the call asked for later is of that one."""


class KnownEnd(msgspec.Struct, frozen=True):
    """How the record says that a child ended, in the last run that left it."""

    commit: Commit
    is_past: bool
    """Whether the turn opened the child again after it."""


class ChildTurn(msgspec.Struct, frozen=True):
    """A turn of a child: its number, its place in its program, its run, and the commits it was asked in."""

    number: int
    place: int
    run: str
    asked_in: frozenset[str]


class KnownChildren:
    """The records of children in one turn, handed out in order. `taken` are the commits that were handed out, `calls`
    the seqs of the calls that began in the turn, by their id."""

    def __init__(self, marks: list[Commit], taken: set[int], calls: dict[str, int]) -> None:
        self._marks = marks
        self._taken = taken
        self._calls = calls
        self._opened: dict[str, int] = {}
        """Where each child was opened that was handed out last."""

    def ends_again(self, mark: Commit) -> bool:
        """Whether a mark that comes next is the end of a child that had ended: a run that repeats the turn left it
        otherwise. The turn did not get any further by it."""
        about = [c for c in self._marks if c.kind == "child" and _session(c) == _session(mark)]
        return mark.kind == "child" and _is_end(mark) and bool(about) and _is_end(about[-1])

    def _free(self, session: str) -> list[Commit]:
        return [
            commit
            for commit in self._marks
            if commit.kind == "child"
            and commit.seq not in self._taken
            and _session(commit) == session
        ]

    def _call_of(self, begun: Commit) -> str:
        """The call whose tool opened a child; empty if the turn itself did."""
        return next((call for call, seq in self._calls.items() if [*begun.inputs] == [seq]), "")

    def opening(self, session: str, call: str) -> KnownOpening | None:
        """Where the turn next opened a child, inside that call (empty: in none). A call that is answered from the
        record does not open its children again, so that those of other calls are not meant."""
        free = self._free(session)
        opened = [c for c in free if not _is_end(c) and self._call_of(c) == call]
        if not opened:
            return None
        begun = opened[0]
        self._taken.add(begun.seq)
        self._opened[session] = begun.seq
        ends = list(takewhile(_is_end, (c for c in free if c.seq > begun.seq)))
        return KnownOpening(begun, ends[0] if ends else None, bool(call) and len(opened) > 1)

    def end(self, session: str) -> KnownEnd | None:
        """The end of the child that was opened last; None if it is not recorded."""
        since = self._opened.get(session, 0)
        free = [commit for commit in self._free(session) if commit.seq > since]
        ends = list(takewhile(_is_end, free))
        self._taken.update(commit.seq for commit in ends)
        return KnownEnd(ends[-1], len(free) > len(ends)) if ends else None


def turns_counted(ended: Commit | None) -> int:
    """The last turn of a child that its recorded end knows of; all, if that is not on record."""
    said = None if ended is None else ended.known("output")
    return int(said.get("turns", MANY)) if isinstance(said, dict) else MANY


def turns_of(opening: KnownOpening, later: Iterable[ChildTurn], call: str) -> Spans:
    """The turns of a child that were begun for one opening, as its program begins them again.

    `later`: the child's turns after those that the end counts; `call`: the commit of the call that opens it.
    """
    after = (opening.begun.known("input") or {}).get("after", 0)
    spans: Spans = [[int(after) + 1, turns_counted(opening.ended)]]
    asked_in = {opening.begun.id, call if call and not opening.shares_call else opening.begun.id}
    own = (turn for turn in later if turn.asked_in & asked_in)
    for _, run in groupby(own, key=lambda turn: turn.run):
        spans = program.program(spans, _stretches(list(run)))
    return spans


def _stretches(run: Sequence[ChildTurn]) -> list[tuple[int, int, int]]:
    """The turns of one run: nothing comes between them."""
    places = {turn.number: turn.place for turn in run}
    return program.own_stretches(run[0].number, run[-1].number, places.__getitem__)


def _is_end(commit: Commit) -> bool:
    return commit.status != STARTED


def _session(mark: Commit) -> str:
    """The child that a mark is about."""
    puts = (op.record for op in mark.delta if isinstance(op, Put))
    return next((str(found) for record in puts if (found := getattr(record, "session", ""))), "")
