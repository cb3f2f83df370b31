"""What came from a bundle: a flag in the project's own session says so, for each session and up to where.

Structure is under the hash, so a commit cannot be told apart by anything in it: what it claims of
its provenance, it claims. What stands before the mark is shown as imported, whatever it says.
"""

from __future__ import annotations

import re

from stator.model.commit import Commit, Provenance
from stator.model.state import FlagRecord, SessionRecord
from stator.runtime.projects import known
from stator.store.port import Store

IMPORTED = "imported"
_UPTO = re.compile(r"head [0-9a-f]{0,64} upto (\d{1,16})\Z")


def mark(session: str, head: str, seq: int, by: str) -> FlagRecord:
    """The flag for a session that came from a bundle, up to a seq."""
    return FlagRecord(name=IMPORTED, on=session, why=f"head {head} upto {seq}", by=by)


def provenance(store: Store, commit: Commit) -> Provenance:
    """Where a commit's content came from as far as this store knows, whatever the commit says."""
    if commit.seq <= imported_upto(store, store.session(commit.session).record):
        return Provenance("import", "unverified")
    return commit.provenance


def imported_upto(store: Store, record: SessionRecord) -> int:
    """The last seq of a session that came from a bundle; 0 if none did."""
    own = known(store, record)
    entry = store.find(own.id, "flags", f"{IMPORTED}\n{record.id}") if own is not None else None
    found = _UPTO.match(getattr(entry.record, "why", "")) if entry is not None else None
    return int(found[1]) if found else 0
