"""Finds the turn that a position names: `t5`, or a tag that stands where a turn ends."""

from __future__ import annotations

from stator.model.values.position import AtName, AtTurn, parse_ref
from stator.runtime.facade.view import SessionView
from stator.runtime.views.refs import Point

AFTER_TAG = 20
"""Commits after a tag that say whether it is at the end of its turn."""


def turn_at(view: SessionView, ref: str, point: Point) -> int:
    """The turn that a position names, as `t5` does, and a tag at its end; 0 if it names a commit."""
    position = parse_ref(ref).position
    is_tag = isinstance(position, AtName) and point.shown == position.name
    if not is_tag and not isinstance(position, AtTurn):
        return 0
    turn = view.commit(f"@{point.seq}").turn
    return turn if not is_tag or _is_end(view, point.seq, turn) else 0


def with_tagged_turn(view: SessionView, span: str | None) -> str | None:
    """A turn or a range of a list; a tag at the end of a turn as that turn, because one commit says little."""
    if span is None or ".." in span or not isinstance(parse_ref(span).position, AtName):
        return span
    turn = turn_at(view, span, view.at(span))
    return f"t{turn}" if turn else span


def _is_end(view: SessionView, seq: int, turn: int) -> bool:
    """Whether nothing is done in a turn after a commit of it; that it was tagged is nothing that is done."""
    from stator.surfaces.cli.render.turns.fold import WORK  # a commit is shown without it

    later = view.log(f"@{seq}..head", limit=AFTER_TAG, load=False)
    return all(one.turn != turn or one.kind not in WORK for one in later)
