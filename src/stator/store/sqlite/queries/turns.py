"""Turns and heads of a session, across its lineage."""

from __future__ import annotations

import apsw
import msgspec

from stator.errors import BrokenChain, InvalidInput, StoreCorrupt
from stator.model.log.query import Head, TurnRow
from stator.store.sqlite.connection import one
from stator.store.sqlite.projection import (
    SEQ_MASK,
    SILENT,
    SQL,
)
from stator.store.sqlite.queries.commits import _prev, read_bare, read_stretch
from stator.store.sqlite.queries.lineage import MAX_SEQ, Place, Stretch, key


def base_head(connection: apsw.Connection, place: Place) -> Head:
    """Where a session without commits of its own begins: at its fork point, or at nothing."""
    own = place.stretches[-1]
    prev = _prev(connection, own).hex()
    if len(place.stretches) > 1:
        _check_lineage(connection, place, prev)
    turns = read_turns(connection, place, after=0, upto=None, newest_first=True, limit=1)
    last = turns[0] if turns else None
    return Head(own.after, prev, last.turn if last else 0, last is not None and not last.status)


def _check_lineage(connection: apsw.Connection, place: Place, prev: str) -> None:
    """A fork must follow a commit that is there, over stretches without a hole."""
    edge = 0
    for stretch in place.stretches[:-1]:
        found = one(connection, SQL["log_hash"], (key(stretch.s, stretch.upto),))
        if stretch.after != edge or found is None:
            raise InvalidInput(
                f"the lineage of {place.record.id} is not in this store as it says",
                path="$.lineage",
                session=place.record.id,
            )
        edge = stretch.upto
    if found[0].hex() != prev:
        raise BrokenChain(
            f"@{edge} of the parent is {found[0].hex()[:12]}, not {prev[:12]}",
            hint="nothing was written",
            session=place.record.id,
        )


def read_head(connection: apsw.Connection, place: Place) -> Head:
    """The head of a session: at least its first commit."""
    own = place.stretches[-1]
    row = one(connection, SQL["head"], {"low": key(own.s, own.after), "high": key(own.s, MAX_SEQ)})
    if row is None:
        raise StoreCorrupt(f"session {own.session} has no commits", session=own.session)
    turns = read_turns(connection, place, after=0, upto=None, newest_first=True, limit=1)
    last = turns[0] if turns else None
    return Head(
        row[0] & SEQ_MASK,
        row[2].hex(),
        last.turn if last else 0,
        last is not None and not last.status,
    )


def read_turns(
    connection: apsw.Connection,
    place: Place,
    *,
    after: int,
    upto: int | None,
    newest_first: bool,
    limit: int,
) -> list[TurnRow]:
    """Turns with `after < number <= upto` across the lineage; a turn cut by the fork ends there."""
    low = after
    if newest_first:
        last_turn = _last_turn(connection, place)
        upto = last_turn if upto is None else min(upto, last_turn)
        low = max(after, upto - limit)
    high = MAX_SEQ if upto is None else upto
    found: dict[int, tuple[int, int, int, int, str]] = {}
    for stretch in place.stretches:
        for row in connection.execute(SQL["turn_range"], (stretch.s, low, high)):
            turn, first, last, at, status = row
            if first > stretch.upto:
                continue
            if last > stretch.upto:
                last = stretch.upto
                status = _ended(connection, stretch, first, last)
            _merge_turn(found, (turn, first, last, at, status))
    for row in place.tail.turns():
        if low < row[0] <= high:
            _merge_turn(found, row)
    rows = [
        TurnRow(turn=turn, first=first, last=last, at=at, status="" if status == SILENT else status)
        for turn, first, last, at, status in sorted(found.values(), reverse=newest_first)
    ]
    return rows[:limit]


def _ended(connection: apsw.Connection, stretch: Stretch, first: int, last: int) -> str:
    """How a turn that goes on beyond a fork point had ended there."""
    part = msgspec.structs.replace(stretch, after=first - 1, upto=last)
    marks = [c for c in read_stretch(connection, part, load=False) if c.kind.startswith("turn")]
    if not marks:
        return SILENT  # it began before this stretch, which says nothing of its end
    return (marks[-1].status or SILENT) if marks[-1].kind == "turn_end" else ""


def _last_turn(connection: apsw.Connection, place: Place) -> int:
    if place.tail.commits and place.tail.commits[-1].turn:
        return place.tail.commits[-1].turn
    row = one(connection, SQL["turn_last"], (place.s,))
    if row is not None:
        return int(row[0])
    for stretch in reversed(place.stretches[:-1]):
        # Where a lineage ends, its last commit tells: the index of turns goes on beyond it.
        turn = read_bare(connection, stretch, stretch.upto).turn
        if turn:
            return turn
    return 0


def _merge_turn(
    found: dict[int, tuple[int, int, int, int, str]], row: tuple[int, int, int, int, str]
) -> None:
    turn, first, last, at, status = row
    if turn in found:
        _, first, _, at, earlier = found[turn]
        status = earlier if status == SILENT else status
    found[turn] = (turn, first, last, at, status)
