"""Answers whether what a session recorded counts for its project, and why it does not: the rule of `project_state`,
without the index."""

from __future__ import annotations

from stator.errors import NotFound
from stator.model.log.query import SessionRow
from stator.model.records.types import SessionRecord
from stator.model.views.project_state import why_left_out
from stator.runtime.base.project_flags import Trash
from stator.store.port import StorePort


class LeftOutReasons:
    """Answers for many records, and reads each session once."""

    def __init__(self, store: StorePort) -> None:
        self._store = store
        self._trash = Trash(store)
        self._rows: dict[str, SessionRow | None] = {}

    def why(self, session: str, seq: int) -> str:
        """Why a record of a session at a seq does not count for its project; empty if it does."""
        record = self._above(session)
        return "" if record is None else why_left_out(record, seq, self._above, self._is_trashed)

    def _above(self, session: str) -> SessionRecord | None:
        row = self._row(session)
        return None if row is None else row.record

    def _is_trashed(self, session: str) -> bool:
        row = self._row(session)
        return row is not None and row in self._trash

    def _row(self, session: str) -> SessionRow | None:
        if session not in self._rows:
            try:
                self._rows[session] = self._store.session(session)
            except NotFound:
                self._rows[session] = None
        return self._rows[session]
