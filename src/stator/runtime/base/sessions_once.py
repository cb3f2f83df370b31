"""Reads each session that is asked about once, and whether it is in the trash."""

from __future__ import annotations

from stator.errors import NotFound
from stator.model.log.query import SessionRow
from stator.model.records.types import SessionRecord
from stator.runtime.base.project_flags import Trash
from stator.store.port import StorePort


class SessionsOnce:
    """Sessions by id, as they were when they were first asked for."""

    def __init__(self, store: StorePort) -> None:
        self._store = store
        self._trash = Trash(store)
        self._rows: dict[str, SessionRow | None] = {}

    def row(self, session: str) -> SessionRow | None:
        """The session; None if it is not here."""
        if session not in self._rows:
            try:
                self._rows[session] = self._store.session(session)
            except NotFound:
                self._rows[session] = None
        return self._rows[session]

    def record(self, session: str) -> SessionRecord | None:
        row = self.row(session)
        return None if row is None else row.record

    def is_trashed(self, session: str) -> bool:
        row = self.row(session)
        return row is not None and row in self._trash
