"""Turns and heads of a session, across its lineage."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import apsw
import msgspec

from stator.errors import BrokenChain, InvalidInput, StoreCorrupt
from stator.model.log.query import Head, TurnRow
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.projection import (
    SEQ_MASK,
    SILENT,
    SQL,
)
from stator.store.sqlite.queries.commits import (
    _prev,
    encode_array,
    envelope_in,
    read_bare,
    read_segment,
    read_some,
)
from stator.store.sqlite.queries.lineage import MAX_SEQ, LogSegment, SessionPlace, key

LAST_ROWS = 16
"""Rows in which the beginning or the end of the last turn is looked for before the whole tail is read."""


def base_head(connection: apsw.Connection, place: SessionPlace) -> Head:
    """Where a session without commits of its own begins: at its fork point, or at nothing."""
    own = place.segments[-1]
    prev = _prev(connection, own).hex()
    if len(place.segments) > 1:
        _check_lineage(connection, place, prev)
    turns = read_turns(connection, place, after=0, upto=None, newest_first=True, limit=1)
    last = turns[0] if turns else None
    return Head(own.after, prev, last.turn if last else 0, last is not None and not last.status)


def _check_lineage(connection: apsw.Connection, place: SessionPlace, prev: str) -> None:
    """A fork must follow a commit that is there, over segments without a hole."""
    edge = 0
    for segment in place.segments[:-1]:
        found = one(connection, SQL["log_hash"], (key(segment.s, segment.upto),))
        if segment.after != edge or found is None:
            raise InvalidInput(
                f"the lineage of {place.record.id} does not match this store",
                path="$.lineage",
                session=place.record.id,
            )
        edge = segment.upto
    if found[0].hex() != prev:
        raise BrokenChain(
            f"@{edge} of the parent is {found[0].hex()[:12]}, not {prev[:12]}",
            hint="nothing was written",
            session=place.record.id,
        )


def read_head(connection: apsw.Connection, place: SessionPlace) -> Head:
    """The head of a session: at least its first commit."""
    own = place.segments[-1]
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


def head_by_last_rows(connection: apsw.Connection, place: SessionPlace) -> Head | None:
    """The head of a session with a tail, without reading all of it.

    None where the last rows do not say whether its turn is open.
    """
    rows = (key(place.s, place.flushed), key(place.s, MAX_SEQ), LAST_ROWS)
    head: Head | None = None
    for k, _, hashed, _, body in connection.execute(SQL["log_range_newest"], rows):
        envelope = envelope_in(connection, k, body)
        if head is None:
            head = Head(k & SEQ_MASK, hashed.hex(), envelope.turn, False)
        if envelope.turn != head.turn:
            return None
        if envelope.kind in ("turn", "turn_end"):
            is_open = envelope.kind == "turn" or not envelope.status
            return msgspec.structs.replace(head, turn_open=is_open)
    return None


def read_turns(
    connection: apsw.Connection,
    place: SessionPlace,
    *,
    after: int,
    upto: int | None,
    newest_first: bool,
    limit: int,
    numbers: Collection[int] | None = None,
    prompts: bool = False,
) -> list[TurnRow]:
    """Turns with `after < number <= upto`, or those of some numbers, across the lineage; a turn cut by the fork ends
    there. With `prompts`, each holds the commit that began it."""
    low = after
    if newest_first and numbers is None:
        last_turn = _last_turn(connection, place)
        upto = last_turn if upto is None else min(upto, last_turn)
        low = max(after, upto - limit)
    high = MAX_SEQ if upto is None else upto
    if (
        not newest_first and numbers is None
    ):  # numbers have no gaps: the first page is the first numbers
        high = min(high, after + limit)
    found: dict[int, tuple[int, int, int, int, str]] = {}
    for segment in place.segments:
        for row in _flushed_turns(connection, segment, low, high, numbers):
            turn, first, last, at, status = row
            if first > segment.upto:
                continue
            if last > segment.upto:
                last = segment.upto
                status = _ended(connection, segment, first, last)
            _merge_turn(found, (turn, first, last, at, status))
    for row in place.tail.turns():
        if low < row[0] <= high and (numbers is None or row[0] in numbers):
            _merge_turn(found, row)
    rows = [
        TurnRow(turn=turn, first=first, last=last, at=at, status="" if status == SILENT else status)
        for turn, first, last, at, status in sorted(found.values(), reverse=newest_first)
    ][:limit]
    if not prompts:
        return rows
    began = {one.seq: one for one in read_some(connection, place, [row.first for row in rows])}
    return [msgspec.structs.replace(row, began=began.get(row.first)) for row in rows]


def _flushed_turns(
    connection: apsw.Connection,
    segment: LogSegment,
    low: int,
    high: int,
    numbers: Collection[int] | None,
) -> list[Any]:
    """Rows (turn, first, last, at, status) of a segment's turns `low < number <= high`: all, or some."""
    if numbers is None:
        return many(connection, SQL["turn_range"], (segment.s, low, high))
    some = encode_array(sorted(number for number in numbers if low < number <= high))
    return many(connection, SQL["turn_some"], {"s": segment.s, "turns": some})


def _ended(connection: apsw.Connection, segment: LogSegment, first: int, last: int) -> str:
    """How a turn that continues beyond a fork point had ended there."""
    part = msgspec.structs.replace(segment, after=first - 1, upto=last)
    marks = [c for c in read_segment(connection, part, load=False) if c.kind.startswith("turn")]
    if not marks:
        return SILENT  # it began before this segment, which says nothing of its end
    return (marks[-1].status or SILENT) if marks[-1].kind == "turn_end" else ""


def _last_turn(connection: apsw.Connection, place: SessionPlace) -> int:
    if place.tail.commits and place.tail.commits[-1].turn:
        return place.tail.commits[-1].turn
    row = one(connection, SQL["turn_last"], (place.s,))
    if row is not None:
        return int(row[0])
    for segment in reversed(place.segments[:-1]):
        # Where a lineage ends, its last commit tells: the index of turns goes on beyond it.
        turn = read_bare(connection, segment, segment.upto).turn
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
