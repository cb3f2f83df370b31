"""Compares two tries at a turn, found by their refs and laid side by side."""

from __future__ import annotations

import msgspec

from stator.errors import InvalidInput
from stator.model.log.commit import Commit
from stator.model.values.position import AtTurn, parse_ref
from stator.model.views import compare as comparing
from stator.model.views.compare import Comparison, Side
from stator.runtime.base.pages import commits
from stator.runtime.views.ranges import between, common
from stator.runtime.views.reflog import turn_at
from stator.runtime.views.refs import Point, session_of, span
from stator.store.port import StorePort


class _Try(msgspec.Struct, frozen=True):
    """A turn of a session: its number, and where it begins and ends."""

    turn: int
    first: int
    end: Point


def are_siblings(store: StorePort, session: str, a: str, b: str) -> bool:
    """Whether two refs are tries at one turn: the same number, after the same turns."""
    return _siblings(store, session, a, b) is not None


def compare(store: StorePort, session: str, a: str, b: str) -> Comparison:
    """Two tries at one turn, aligned."""
    found = _siblings(store, session, a, b)
    if found is None:
        raise InvalidInput(
            f"{a!r:.60} and {b!r:.60} are not two attempts at the same turn",
            path="$.b",
            hint="t5 and t5.2 are; diff compares any two positions",
        )
    left, right = found
    ours, theirs = _commits(store, left), _commits(store, right)
    return comparing.compare(
        _side(store, left, ours),
        _side(store, right, theirs),
        ours,
        theirs,
        between(store, left.end, right.end),
    )


def _siblings(store: StorePort, session: str, a: str, b: str) -> tuple[_Try, _Try] | None:
    left, right = _try(store, session, a), _try(store, session, b)
    if left is None or right is None or left.turn != right.turn:
        return None
    if left.end.session == right.end.session:
        return None
    trunk = common(store, left.end, right.end)
    before = turn_at(store, left.end.session, trunk) if trunk else -1
    return (left, right) if before == left.turn - 1 else None


def _try(store: StorePort, session: str, ref: str) -> _Try | None:
    """The turn a ref names, if it names one."""
    parsed = parse_ref(ref)
    if not isinstance(parsed.position, AtTurn) or parsed.position.turn == 0:
        return None
    _, end = span(store, session_of(store, session, parsed), parsed.position)
    number = int(end.shown[1:])
    (row,) = store.turns(end.session, after=number - 1, upto=number)
    return _Try(number, row.first, end)


def _commits(store: StorePort, tried: _Try) -> list[Commit]:
    end = tried.end
    return list(commits(store, end.session, after=tried.first - 1, upto=end.seq))


def _side(store: StorePort, tried: _Try, commits: list[Commit]) -> Side:
    session = tried.end.session
    (row,) = store.turns(session, after=tried.turn - 1, upto=tried.turn)
    name = store.session(session).record.name
    return comparing.side(
        commits, name=name, session=session, turn=tried.turn, status=row.status or "open"
    )
