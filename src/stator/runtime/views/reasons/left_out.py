"""Answers whether what a session recorded counts for its project, and why it does not: the rule of `project_state`,
without the index."""

from __future__ import annotations

from stator.model.views.project_state import why_left_out
from stator.runtime.base.sessions_once import SessionsOnce
from stator.store.port import StorePort


class LeftOutReasons:
    """Answers for many records, and reads each session once."""

    def __init__(self, store: StorePort) -> None:
        self._sessions = SessionsOnce(store)

    def why(self, session: str, seq: int) -> str:
        """Why a record of a session at a seq does not count for its project; empty if it does."""
        known = self._sessions
        record = known.record(session)
        return "" if record is None else why_left_out(record, seq, known.record, known.is_trashed)
