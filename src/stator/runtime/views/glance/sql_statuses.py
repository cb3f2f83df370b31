"""Works out, for a query in SQL, the status that readers give to sessions and to calls without an outcome."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from stator.model.log.query import PAGE_MAX, CallQuery, SessionQuery
from stator.model.views.sql_views import ShownCall
from stator.runtime.base.pages import matching
from stator.runtime.views.as_read import AsRead, for_one_answer
from stator.runtime.views.glance.calls import precise
from stator.store.port import StorePort

_ABOUT = re.compile(r"\b(calls|turns)\b", re.IGNORECASE)
_SESSIONS = re.compile(r"\bsessions\b", re.IGNORECASE)


def shown_calls(store: StorePort, query: str) -> list[ShownCall]:
    """The calls whose status is another one to readers than in the log; none, if the query is about neither calls nor
    turns."""
    if not isinstance(store, AsRead) or not _ABOUT.search(query):
        return []
    return list(_shown(store.for_one_answer()))


def shown_sessions(store: StorePort, query: str) -> dict[str, str]:
    """The status of sessions that are at work by their record and not to readers; none, if the query is not about
    sessions."""
    if not _SESSIONS.search(query):
        return {}
    rows = matching(for_one_answer(store), SessionQuery(status="active"))
    return {row.id: row.shown for row in rows if row.shown != "active"}


def _shown(store: AsRead) -> Iterator[ShownCall]:
    cursor: tuple[int, ...] | None = None
    while True:
        page = store.begun(CallQuery(), cursor=cursor, limit=PAGE_MAX)
        for row in precise(cast("StorePort", store), page.rows):
            if row.status != "started":
                yield ShownCall(row.session, row.seq, row.status, row.cause)
        cursor = page.cursor
        if cursor is None:
            return
