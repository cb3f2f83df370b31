"""Counts what a session holds, without reading its log."""

from __future__ import annotations

import apsw

from stator.model.log.query import Counts
from stator.store.sqlite import projection
from stator.store.sqlite.queries.lineage import SessionPlace
from stator.store.sqlite.queries.state import exact_ledger, live_at

INHERITED_MAX = 1000
"""Sessions whose inherited counts are kept."""


class Counting:
    """Counts for one store object: what a fork inherited never changes, and is counted once."""

    def __init__(self) -> None:
        self._inherited: dict[tuple[str, int], dict[int, int]] = {}

    def counts(self, db: apsw.Connection, place: SessionPlace) -> Counts:
        """How much a session holds; `place` has its tail."""
        slot = (place.record.id, place.low)
        inherited = self._inherited.get(slot)
        if inherited is None and place.low:
            if len(self._inherited) >= INHERITED_MAX:
                self._inherited.clear()
            inherited = self._inherited[slot] = live_at(db, place, place.low)
        return projection.counts(place.tail.counted(exact_ledger(db, place)), inherited)
