"""Notes which sessions were copied from another store of the user, and up to where, in a session of its own.

A copy keeps what the commits say, so it cannot be noted in the session or in its project: both are those of the other
store. The note does not make them imported. It says that their epochs were given elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

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
_UPTO = re.compile(r"upto (\d{1,16})\Z")


def note_arrivals(store: StorePort, context: Context, tenant: str, upto: Mapping[str, int]) -> None:
    """Note up to which seq sessions of a tenant came from another store. Written before they arrive."""
    wanted = list(upto.items())
    asked = SessionRecord(id="", name="", project=COPIES, tenant=tenant)
    for start in range(0, len(wanted), AT_ONCE):
        flags = [
            FlagRecord(name=ARRIVED, on=session, why=f"upto {seq}", by=context.principal)
            for session, seq in wanted[start : start + AT_ONCE]
        ]
        put_all(store, context, asked, flags)


def arrivals(store: StorePort) -> dict[str, int]:
    """The sessions that were copied into a store, and up to where; nothing where that cannot be read."""
    found: dict[str, int] = {}
    try:
        for row in store.sessions(SessionQuery(mode="project", project=COPIES)).rows:
            for entry in store.entries(row.id, "flags", prefix=f"{ARRIVED}\n"):
                record = entry.record
                said = _UPTO.match(record.why) if isinstance(record, FlagRecord) else None
                if said is not None and isinstance(record, FlagRecord):
                    found[record.on] = int(said[1])
    except StatorError:
        return {}
    return found
