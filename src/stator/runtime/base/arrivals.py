"""Notes which sessions were copied from another store of the user, and up to where, in a session of its own.

A copy keeps what the commits say, so it cannot be noted in the session or in its project: both are those of the other
store. The note does not make them imported. It says that their epochs were given elsewhere, and which store sent what,
so that what was purged there can be purged here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from stator.errors import StatorError
from stator.model.log.query import SessionQuery
from stator.model.records.types import FlagRecord, SessionRecord
from stator.model.sessions.lifecycle import COPIES
from stator.runtime.base.context import Context
from stator.runtime.base.project_flags import put_all
from stator.store.port import StorePort

ARRIVED = "arrived"
AT_ONCE = 1000
"""Notes of one commit."""
_SAID = re.compile(r"upto (\d{1,16}) at ([0-9a-f]+) from (\S+)\Z")


class Arrival(NamedTuple):
    """What of a session was sent, and by which store."""

    upto: int
    hash: str
    """Of the commit there."""
    source: str
    """The id of the store."""


def note_arrivals(
    store: StorePort, context: Context, tenant: str, sent: Mapping[str, Arrival]
) -> None:
    """Note what of sessions of a tenant comes from another store. Written before they arrive."""
    wanted = list(sent.items())
    asked = SessionRecord(id="", name="", project=COPIES, tenant=tenant)
    for start in range(0, len(wanted), AT_ONCE):
        flags = [
            FlagRecord(
                name=ARRIVED,
                on=session,
                why=f"upto {one.upto} at {one.hash} from {one.source}",
                by=context.principal,
            )
            for session, one in wanted[start : start + AT_ONCE]
        ]
        put_all(store, context, asked, flags)


def arrivals(store: StorePort) -> dict[str, Arrival]:
    """The sessions that were copied into a store, by their ids; nothing where that cannot be read."""
    found: dict[str, Arrival] = {}
    try:
        for row in store.sessions(SessionQuery(mode="project", project=COPIES)).rows:
            for entry in store.entries(row.id, "flags", prefix=f"{ARRIVED}\n"):
                record = entry.record
                said = _SAID.match(record.why) if isinstance(record, FlagRecord) else None
                if said is not None and isinstance(record, FlagRecord):
                    found[record.on] = Arrival(int(said[1]), said[2], said[3])
    except StatorError:
        return {}
    return found
