"""Tells what came from a bundle: a flag in the project's own session records it, for each session and up to where.

The flag names each session and the seq up to which it was imported. Structure is under the hash, so an imported
commit cannot be marked in place: its own provenance is only a claim. Commits before the mark are shown as
imported, regardless of their claim.
"""

from __future__ import annotations

import re

from stator.model.log.commit import Commit, Provenance
from stator.model.log.query import Read, read
from stator.model.records.types import Entry, FlagRecord, SessionRecord
from stator.model.views.knowledge import IMPORTED
from stator.runtime.base.pages import commit_at, find_entry
from stator.runtime.base.project_session import known
from stator.store.port import StorePort

EVERYTHING = 2**62
_UPTO = re.compile(r"head [0-9a-f]{0,64} upto (\d{1,16})\Z")


def mark(session: str, head: str, seq: int, by: str) -> FlagRecord:
    """The flag for a session that came from a bundle, up to a seq."""
    return FlagRecord(name=IMPORTED, on=session, why=f"head {head} upto {seq}", by=by)


def provenance(store: StorePort, commit: Commit) -> Provenance:
    """Where a commit's content came from as far as this store knows, regardless of what the commit claims."""
    if commit.seq <= imported_upto(store, store.session(commit.session).record):
        return Provenance("import", "unverified")
    return commit.provenance


def imported_upto(store: StorePort, record: SessionRecord) -> int:
    """The last seq of a session, or of what it was forked from, that came from a bundle; 0: none did. Of a store
    that is not this user's own, everything counts as imported."""
    if store.ownership.foreign:
        return EVERYTHING
    own = known(store, record)
    if own is None:
        return 0
    parts = {part.session: part.upto for part in record.lineage} | {record.id: EVERYTHING}
    marks = {entry.key: entry for entry in store.entries(own.id, "flags", keys=_keys(record))}
    return max(_upto(marks.get(_key(session)), upto) for session, upto in parts.items())


def marks_in(store: StorePort, of: SessionRecord) -> dict[str, int]:
    """The sessions that are marked as imported in a project, and up to where."""
    own = known(store, of)
    found = [] if own is None else store.entries(own.id, "flags", prefix=f"{IMPORTED}\n")
    return {str(getattr(entry.record, "on", "")): _upto(entry, EVERYTHING) for entry in found}


def asks_imported(own: str, record: SessionRecord) -> Read:
    """What `imported_upto` reads in a project's own session."""
    return read("entries", own, "flags", keys=_keys(record))


def _keys(record: SessionRecord) -> tuple[str, ...]:
    """The keys of the marks of a session and of those it was forked from."""
    return tuple(_key(session) for session in [*(p.session for p in record.lineage), record.id])


def _key(session: str) -> str:
    return f"{IMPORTED}\n{session}"


def known_time(store: StorePort, record: SessionRecord, seq: int, at: int) -> int:
    """When a commit was made, as far as this store knows. What came from a bundle has the times that its maker chose:
    it counts as made when it was imported, if not before."""
    own = known(store, record)
    entry = None if own is None else find_entry(store, own.id, "flags", _key(record.id))
    if own is None or entry is None or seq > _upto(entry, EVERYTHING):
        return at
    return min(at, commit_at(store, own.id, entry.seq, load=False).at)


def _upto(entry: Entry | None, upto: int) -> int:
    """How far a session is marked; a mark that does not say so is about all of it."""
    if entry is None:
        return 0
    said = _UPTO.match(getattr(entry.record, "why", ""))
    return min(upto, int(said[1])) if said else upto
