"""Works out, for a query in SQL, the status that readers give to calls without an outcome in the log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from stator.model.log.query import PAGE_MAX, CallQuery
from stator.model.views.sql_views import ShownCall
from stator.runtime.views.as_read import AsRead
from stator.runtime.views.glance.calls import precise
from stator.store.port import StorePort

_ABOUT = re.compile(r"\b(calls|turns)\b", re.IGNORECASE)


def shown_calls(store: StorePort, query: str) -> list[ShownCall]:
    """The calls whose status is another one to readers than in the log; none, if the query is about neither calls nor
    turns."""
    if not isinstance(store, AsRead) or not _ABOUT.search(query):
        return []
    return list(_shown(store.for_one_answer()))


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
