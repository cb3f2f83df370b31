"""Calls and what is known of their outcomes, across a session's lineage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import apsw
import msgspec

from stator.model.log.query import CallQuery, CallRow, Page
from stator.model.records.types import CallRecord
from stator.model.values.ids import from_bytes, to_bytes
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.projection import (
    SQL,
    Tailed,
)
from stator.store.sqlite.queries.commits import BATCH, encode_array
from stator.store.sqlite.queries.lineage import MAX_SEQ, FindPlace, SessionPlace
from stator.store.sqlite.queries.state import find_entry

OPEN = frozenset(("awaiting approval", "started", "in doubt"))
"""How a call stands without a known outcome."""
SESSIONS = 128
"""Sessions that are looked up at once: a question for the newest calls needs few."""


def read_calls(
    connection: apsw.Connection, place: SessionPlace, query: CallQuery, *, before: int, limit: int
) -> Page[CallRow]:
    """Calls of a session and its lineage, newest first, from before a seq."""
    kept: list[CallRow] = []
    for call in _each_call(connection, place, query, before):
        if _wanted(call, query):
            kept.append(call)
            if len(kept) > limit:
                return Page(kept[:limit], (kept[limit - 1].seq,))
    return Page(kept)


def _each_call(
    connection: apsw.Connection, place: SessionPlace, query: CallQuery, before: int
) -> Iterator[CallRow]:
    """Calls newest first, each as this session's log knows it."""
    intents, outcomes = place.tail.calls()
    for item, end in reversed(intents):
        if item.seq < before:
            yield _tail_call(place.record.id, item, end)
    name = "call_page_failed" if query.wants_open_or_failed else "call_page"
    for n in range(len(place.segments) - 1, -1, -1):
        segment = place.segments[n]
        # What a parent settled after the fork is not settled here, so its index of failures says too little.
        own = n == len(place.segments) - 1
        high = min(before, segment.upto + 1)
        while True:
            rows = many(
                connection,
                SQL[name if own else "call_page"],
                {
                    "s": segment.s,
                    "low": max(segment.after, query.after),
                    "high": high,
                    "turn": query.after_turn,
                    "tool": query.tool,
                    "limit": BATCH,
                },
            )
            for row in rows:
                call = _flushed_call(segment.session, row)
                if not own:
                    call = _as_inherited(connection, place, n, call)
                later = outcomes.get(call.call)
                if later and _is_latest(connection, place, call):
                    call = _with_outcome(call, later)
                yield call
            if len(rows) < BATCH:
                break
            high = rows[-1][1]


def _is_latest(connection: apsw.Connection, place: SessionPlace, call: CallRow) -> bool:
    """Whether no later attempt of a call is flushed in this session or its lineage."""
    digits = to_bytes(call.call)
    return not any(
        one(connection, SQL["call_latest"], (s.s, digits, max(call.seq, s.after), s.upto))
        for s in place.segments
    )


def _as_inherited(
    connection: apsw.Connection, place: SessionPlace, n: int, call: CallRow
) -> CallRow:
    """A call of the nth segment, with its status at the end of the lineage."""
    segment = place.segments[n]
    if call.outcome > segment.upto:
        call = msgspec.structs.replace(call, status="started", cause="", outcome=0)
        call = _doubted(connection, place, call, call.seq, segment.upto)
    for later in place.segments[n + 1 :]:
        row = one(connection, SQL["call_one"], (later.s, call.seq))
        if row is None:
            continue
        known = _flushed_call(call.session, row)
        # Settled after the next fork, it may have been in doubt before it.
        beyond = known.outcome > later.upto
        call = _doubted(connection, place, call, later.after + 1, later.upto) if beyond else known
    return call


def _doubted(
    connection: apsw.Connection, place: SessionPlace, call: CallRow, after: int, at: int
) -> CallRow:
    """The call with the doubt that its record at `at` holds, if that came after a seq."""
    entry = find_entry(connection, place, "calls", call.call, at)
    if entry is None or entry.seq <= after or not isinstance(entry.record, CallRecord):
        return call
    record = entry.record
    return msgspec.structs.replace(
        call, status=record.status, cause=record.cause, outcome=entry.seq
    )


def _wanted(call: CallRow, query: CallQuery) -> bool:
    if call.seq <= query.after or (query.tool is not None and call.tool != query.tool):
        return False
    return call.turn > query.after_turn and (not query.statuses or call.status in query.statuses)


def _flushed_call(session: str, row: Sequence[Any]) -> CallRow:
    _, seq, call, tool, effect, status, cause, attempt, outcome, turn, at = row
    return CallRow(
        session=session,
        call=from_bytes(call, "call"),
        tool=tool,
        seq=seq,
        turn=turn,
        at=at,
        status=status,
        effect=effect,
        cause=cause,
        outcome=outcome,
        attempt=attempt,
    )


def _tail_call(session: str, item: Tailed, outcome: Tailed | None) -> CallRow:
    row = CallRow(
        session=session,
        call=item.call,
        tool=item.tool,
        seq=item.seq,
        turn=item.turn,
        at=item.at,
        effect=item.effect,
        attempt=item.attempt,
    )
    return _with_outcome(row, outcome) if outcome else row


def _with_outcome(call: CallRow, outcome: Tailed) -> CallRow:
    return msgspec.structs.replace(
        call, status=outcome.status, cause=outcome.cause, outcome=outcome.seq
    )


def store_calls(
    connection: apsw.Connection,
    placed: FindPlace,
    query: CallQuery,
    cursor: tuple[int, ...] | None,
    limit: int,
) -> Page[CallRow]:
    """Calls of every session's own log (forks do not repeat their parent's), newest session first."""
    found: list[CallRow] = []
    start, before = cursor if cursor else (MAX_SEQ, MAX_SEQ)
    for s, identifier in _sessions_with_calls(connection, query, start):
        place = placed(connection, from_bytes(identifier, "session"))
        own = msgspec.structs.replace(place, segments=place.segments[-1:])
        bound = before if s == start else MAX_SEQ
        page = read_calls(connection, own, query, before=bound, limit=limit - len(found))
        found += page.rows
        if page.cursor is not None or len(found) >= limit:
            return Page(found, (s, found[-1].seq))
    return Page(found)


def _sessions_with_calls(
    connection: apsw.Connection, query: CallQuery, start: int
) -> Iterator[tuple[int, bytes]]:
    """The sessions that may have calls that match, newest first from one on; none that has is left out."""
    given: dict[str, str | bytes | int | None] = {"project": query.project, "tool": query.tool}
    if query.wants_open_or_failed:
        given["statuses"] = encode_array(query.statuses)
        if OPEN.issuperset(query.statuses):
            given["start"] = start
            yield from many(connection, SQL["sessions_with_open_calls"], given)
            return
    name = "sessions_with_failed_calls" if query.wants_open_or_failed else "sessions_with_calls"
    while True:
        rows = many(connection, SQL[name], {**given, "start": start, "limit": SESSIONS})
        yield from rows
        if len(rows) < SESSIONS:
            return
        start = rows[-1][0] - 1
