"""Finds writes of other turns that are in doubt and that a call may repeat."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from stator.model.calls.known import Known, KnownCall
from stator.model.log.commit import Commit
from stator.runtime.views.open_calls import in_doubt
from stator.runtime.views.refs import intent_of
from stator.store.port import StorePort


class DoubtsElsewhere:
    """The calls in doubt of a driven session. Asks the store only if there may be some."""

    def __init__(self, store: StorePort, session: str, *, some: bool) -> None:
        self._store, self._session = store, session
        self.any = some
        """Whether there may be some."""

    def landed(self, commits: Sequence[Commit]) -> None:
        """These commits are in the log: only this driver's own can leave a call in doubt."""
        if any(commit.status == "in doubt" for commit in commits):
            self.any = True

    def find(
        self, turns: Collection[int], matches: Callable[[KnownCall], bool]
    ) -> list[KnownCall]:
        """Those that match, except of these turns."""
        if not self.any:
            return []
        row = self._store.session(self._session)
        records = in_doubt(row, self._store.entries(self._session, "calls"))
        self.any = bool(records)
        found: list[KnownCall] = []
        for record in records:
            intent = intent_of(self._store, self._session, record.call)
            for call in Known([] if intent is None else [intent]).calls:
                call.status, call.cause, call.attempt = "in doubt", record.cause, record.attempt
                found.append(call)
        return [call for call in found if call.turn not in turns and matches(call)]
