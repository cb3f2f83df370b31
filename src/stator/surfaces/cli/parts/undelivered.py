"""Says in `stator doctor` which agents did not receive what their hooks gave them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from stator.hooks.given_notes import undelivered
from stator.model.log.query import Finding
from stator.model.values.ids import short
from stator.runtime.facade.store import Store
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.times import ago

CHECK = "not received"
LISTED = 5


def undelivered_findings(store: Store) -> Iterator[Finding]:
    """A finding for each session; none if every text arrived, or if its agent does not show what arrives."""
    now = store.context.clock()
    for one in islice(undelivered(store.as_read, now), LISTED):
        where = f"session {short(one.row.id)} of {one.agent}"
        if one.missed:
            kinds = ", ".join(dict.fromkeys(note.kind for note in one.missed))
            since = ago(min(note.at for note in one.missed), now)
            yield Finding(
                what=f"ran, not received: the hook gave {where} {count(len(one.missed), 'text')} ({kinds}) since "
                f"{since}, and its transcript does not show them",
                check=CHECK,
                severity="warning",
                session=one.row.id,
                hint=f"look at what it received: stator log --full {short(one.row.id)}; "
                "then whether the agent shows errors of its hooks",
            )
        if one.cut:
            yield Finding(
                what=f"{count(one.cut, 'text')} arrived in {where} otherwise than the hook gave it",
                check=CHECK,
                severity="note",
                session=one.row.id,
                hint=f"stator log --full {short(one.row.id)}",
            )
