"""Finds writes of other turns that are in doubt and that a call may repeat."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import cast

from stator.model.calls.known import Known, KnownCall
from stator.model.records.types import CallRecord, CallStatus
from stator.runtime.views.as_read import to_settle
from stator.runtime.views.refs import intent_of, last_attempt
from stator.store.port import StorePort

IN_DOUBT = "in doubt"


class DoubtsElsewhere:
    """The calls in doubt of a driven session. Asks the store only if there may be some."""

    def __init__(self, store: StorePort, session: str, *, some: bool) -> None:
        self._store, self._session = store, session
        self.any = some
        """Whether there may be some. Only commits of this driver, of that status, leave a call in doubt."""

    def find(self, turns: Collection[int], matches: Callable[[KnownCall], bool]) -> list[KnownCall]:
        """Those that match, except of these turns."""
        if not self.any:
            return []
        found = [call for record in self._records() for call in self._as_known(record)]
        self.any = bool(found)
        return [call for call in found if call.turn not in turns and matches(call)]

    def reason(self, call: str) -> list[KnownCall]:
        """A call of another turn because of which one was not run, with what is known of it by now."""
        for record in self._records():
            if record.call == call:
                return self._as_known(record)
        intent = intent_of(self._store, self._session, call)
        if intent is None:
            return []
        row = last_attempt(self._store, self._session, intent)
        if row is None:
            return []
        status = cast("CallStatus", row.status)
        return self._as_known(
            CallRecord(
                call=call, tool=row.tool, attempt=row.attempt, cause=row.cause, status=status
            )
        )

    def _records(self) -> list[CallRecord]:
        return to_settle(self._store, self._session)

    def _as_known(self, record: CallRecord) -> list[KnownCall]:
        intent = intent_of(self._store, self._session, record.call)
        calls = Known([] if intent is None else [intent]).calls
        for call in calls:
            call.status, call.cause, call.attempt = record.status, record.cause, record.attempt
        return calls
