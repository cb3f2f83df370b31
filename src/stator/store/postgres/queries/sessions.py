"""Sessions: one, a page of them, and which have moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stator.model.log.query import GONE, Head, Page, SessionQuery, SessionRow, check_limit
from stator.model.records.tables import COLLECTIONS
from stator.model.values.ids import from_bytes, is_id, to_bytes
from stator.store.postgres.connection import Statement
from stator.store.postgres.queries.question import Question, StatementBatch
from stator.store.postgres.session_row import MAX_SEQ, SEEN_GRAIN, by_id, found, key_of, must_find
from stator.store.postgres.text import digest, packed


def session(identifier: str, *, counted: bool = False) -> Question[SessionRow]:
    asked = [by_id(identifier)]
    if counted:
        asked.append(_live_counts(identifier))
    rows, *live = yield StatementBatch(*asked)
    known = must_find(rows, identifier)
    return (
        msgspec.structs.replace(known.row, counts=known.counts(live[0])) if counted else known.row
    )


def _live_counts(identifier: str) -> Statement:
    return Statement(
        "live_counts", {"session": key_of(identifier), "collections": list(COLLECTIONS)}
    )


def sessions(
    query: SessionQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
) -> Question[Page[SessionRow]]:
    check_limit(limit)
    values: dict[str, Any] = {
        name: None if (text := getattr(query, name)) is None else packed(text)
        for name in ("tenant", "agent", "status", "mode", "suffix")
    }
    values["project_mark"] = None if query.project is None else digest(query.project)
    values["name_mark"] = None if query.name is None else digest(query.name)
    values["parent"] = None if query.parent is None else key_of(query.parent)
    values["alias"] = None if query.alias is None else digest(*query.alias)
    values["holds"] = query.holds
    values["before"], values["before_s"] = cursor or (None, None)
    values["newest"] = cursor[0] if cursor else MAX_SEQ
    values |= {"grain": SEEN_GRAIN, "limit": limit + 1}
    (rows,) = yield StatementBatch(Statement("session_page", values))
    page = [found(row) for row in rows[:limit]]
    more = (page[-1].updated, page[-1].s) if len(rows) > limit else None
    return Page([one.row for one in page], more)


def head(identifier: str) -> Question[Head]:
    (rows,) = yield StatementBatch(by_id(identifier))
    return must_find(rows, identifier).place


def heads(
    known: Mapping[str, int], *, project: str | None = None, others: bool = False
) -> Question[dict[str, int]]:
    ids = [to_bytes(one) for one in known if is_id(one, "session")]
    named = None if project is None else packed(project)
    (rows,) = yield StatementBatch(
        Statement("heads", {"ids": ids, "others": others, "project": named})
    )
    there = {from_bytes(identifier, "session"): seq for identifier, seq in rows}
    moved = {one: GONE for one, seq in known.items() if one not in there and seq != GONE}
    for one, seq in there.items():
        if known[one] != seq if one in known else others:
            moved[one] = seq
    return moved
