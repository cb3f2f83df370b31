"""Carries the marks of imported sessions to another store: what came from elsewhere stays marked where it goes.

The mark is written before the session arrives. Killed in between, a mark is left of a session that is not there,
which says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from stator.model.records.types import SessionRecord
from stator.runtime.base.context import Context
from stator.runtime.base.project_flags import put_all
from stator.runtime.base.provenance import imported_upto, mark, marks_in
from stator.runtime.exchange.choice import SessionToSend
from stator.store.port import StorePort

Placed = tuple[SessionToSend, str]
"""A session, and the project that it has in the other store."""


def carry_marks(
    source: StorePort, target: StorePort, context: Context, going: Sequence[Placed]
) -> None:
    """Mark in the other store what is imported here."""
    _mark(target, context, [(*p, imported_upto(source, p[0].record)) for p in going])


def mark_imported(target: StorePort, context: Context, going: Sequence[Placed]) -> None:
    """Mark in the other store all that goes there as imported."""
    _mark(target, context, [(*placed, placed[0].seq) for placed in going])


def _mark(
    target: StorePort, context: Context, wanted: Sequence[tuple[SessionToSend, str, int]]
) -> None:
    places = dict.fromkeys((one.record.tenant, project) for one, project, _ in wanted)
    for tenant, place in places:
        own = SessionRecord(id="", name="", project=place, tenant=tenant)
        known = marks_in(target, own)
        flags = [
            mark(one.id, "", min(upto, one.seq), context.principal)
            for one, project, upto in wanted
            if (one.record.tenant, project) == (tenant, place)
            and known.get(one.id, 0) < min(upto, one.seq)
        ]
        if flags:
            put_all(target, context, own, flags)
