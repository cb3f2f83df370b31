"""Calls and what is known of their outcomes, and who touched a key."""

from __future__ import annotations

from collections.abc import Generator
from itertools import groupby
from operator import itemgetter
from typing import Any

from stator.model.log.query import (
    PAGE_MAX,
    CallQuery,
    CallRow,
    KeyTouch,
    Page,
    check_collection,
    check_limit,
)
from stator.model.values.ids import from_bytes
from stator.store.postgres.connection import Rows, Statement
from stator.store.postgres.queries.question import Question, StatementBatch
from stator.store.postgres.session_row import MAX_SEQ, by_id, key_of, must_find
from stator.store.postgres.text import digest, packed, unpacked

SOUGHT = 64
"""Calls that are read at first where only some outcomes are asked for."""


def calls(
    query: CallQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
) -> Question[Page[CallRow]]:
    check_limit(limit)
    found: list[tuple[tuple[int, ...], CallRow]] = []
    size = limit + 1
    if query.statuses:  # what became of a call is seen only once it is read
        size = max(size, SOUGHT)
    while True:
        page = yield from _calls(query, cursor, size)
        found += [one for one in page if not query.statuses or one[1].status in query.statuses]
        if len(found) > limit or len(page) < size:
            break
        cursor, size = page[-1][0], min(4 * size, PAGE_MAX)
    more = found[limit - 1][0] if len(found) > limit else None
    return Page([row for _, row in found[:limit]], more)


def _calls(
    query: CallQuery, cursor: tuple[int, ...] | None, size: int
) -> Generator[StatementBatch, list[Rows], list[tuple[tuple[int, ...], CallRow]]]:
    """Calls before a place, newest first, each with its place."""
    values: dict[str, Any] = {
        "after": max(query.after, 0),
        "after_turn": query.after_turn,
        "tool": None if query.tool is None else packed(query.tool),
        "limit": size,
    }
    last = not query.statuses
    if query.session is not None:
        values |= {"session": key_of(query.session), "before": cursor[0] if cursor else MAX_SEQ}
        first, rows = yield StatementBatch(
            by_id(query.session), Statement("calls_in", values), last=last
        )
        must_find(first, query.session)
    else:
        before_s, before = cursor or (MAX_SEQ, MAX_SEQ)
        named_project = None if query.project is None else packed(query.project)
        values |= {"project": named_project, "before_s": before_s, "before": before}
        (rows,) = yield StatementBatch(Statement("calls_all", values), last=last)
    found: list[tuple[tuple[int, ...], CallRow]] = []
    for (s, seq), group in groupby(rows, key=itemgetter(1, 2)):
        place = (seq,) if query.session is not None else (s, seq)
        found.append((place, _call(list(group))))
    return found


def _call(rows: Rows) -> CallRow:
    """A call from the rows of its intent: each with something that was recorded of the call later."""
    owner, _, seq, call, tool, turn, at, effect, attempt, *_ = rows[0]
    known: dict[str, Any] = {}
    for *_, outcome, kind, status, cause in rows:
        if kind == "call":
            break  # another attempt: what follows is about that
        if kind in ("outcome", "settlement"):
            known = {
                "status": unpacked(status or ""),
                "cause": unpacked(cause or ""),
                "outcome": outcome,
            }
    return CallRow(
        session=from_bytes(owner, "session"),
        call="c_" + call.hex() if call else "",
        tool=unpacked(tool or ""),
        seq=seq,
        turn=turn,
        at=at,
        effect=unpacked(effect or ""),
        attempt=attempt or 0,
        **known,
    )


def touches(
    collection: str,
    key: str,
    *,
    session: str | None = None,
    project: str | None = None,
    limit: int = 100,
) -> Question[list[KeyTouch]]:
    check_limit(limit)
    check_collection(collection)
    values: dict[str, Any] = {"collection": collection, "mark": digest(key), "limit": limit}
    if session is not None:
        values["session"] = key_of(session)
        first, rows = yield StatementBatch(by_id(session), Statement("touches_in", values))
        if project not in (None, must_find(first, session).record.project):
            rows = []
    else:
        values["project"] = None if project is None else packed(project)
        (rows,) = yield StatementBatch(Statement("touches_all", values))
    return [_touch(row, collection, key) for row in rows]


def _touch(row: tuple[Any, ...], collection: str, key: str) -> KeyTouch:
    owner, seq, turn, identifier, put = row
    return KeyTouch(
        session=from_bytes(owner, "session"),
        seq=seq,
        turn=turn,
        id=unpacked(identifier),
        key=key,
        collection=collection,
        dropped=not put,
    )
