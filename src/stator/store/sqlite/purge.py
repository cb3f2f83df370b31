"""Purging: every row of a session leaves the file, and nothing else does.

Runs inside the transaction of the `purge` commit, which is in the project's own session and outlives what it
removes. A session that is driven, that a fork continues, or that has new commits since its purge was decided, is
refused, and so is the whole append.
"""

from __future__ import annotations

import apsw

from stator.errors import Busy
from stator.model.log.commit import Draft, Purge
from stator.model.sessions.lifecycle import check_purge
from stator.store.sqlite import bookmarks
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.driver_lock import DriverLocks
from stator.store.sqlite.projection import SEQ_MASK, SQL, commit_slot
from stator.store.sqlite.queries import commits, lineage, places
from stator.store.sqlite.queries.lineage import SessionPlace

OWNED = ("rec", "snap", "call_ix", "turn_ix", "origin_ix", "flush_ix", "alias", "session")
"""Tables whose rows name their session's ordinal."""


def purge(db: apsw.Connection, drivers: DriverLocks, project: SessionPlace, draft: Draft) -> None:
    """Carry out every `Purge` of a purge draft."""
    for change in draft.changes:
        if isinstance(change, Purge):
            _purge(db, drivers, project, change)


def _purge(db: apsw.Connection, drivers: DriverLocks, project: SessionPlace, change: Purge) -> None:
    session = change.session
    place = places.load_place(db, session)
    moved = change.head not in (0, commits.last_seq(db, place.segments[-1]))
    check_purge(place.record, project.record, heirs(db, session), moved)
    holder = drivers.holder(place.holder, place.epoch)
    if holder is not None and holder.live:
        raise Busy(f"session {session} is driven", holder=holder, session=session)
    bookmarks.drop(db, place.s)
    low, high = lineage.key(place.s, 0), lineage.key(place.s, SEQ_MASK)
    _drop_blobs(db, low, high)
    _drop_ids(db, low, high)
    db.execute("DELETE FROM log WHERE k > ? AND k <= ?", (low, high))
    for table in OWNED:
        db.execute(f"DELETE FROM {table} WHERE s = ?", (place.s,))  # noqa: S608 - a fixed list


def heirs(db: apsw.Connection, session: str) -> list[str]:
    """The sessions that continue this one's log."""
    rows = many(db, "SELECT record FROM session WHERE parent IS NOT NULL")
    records = [lineage.decode_session(data) for (data,) in rows]
    return [
        record.id for record in records if any(part.session == session for part in record.lineage)
    ]


def _drop_blobs(db: apsw.Connection, low: int, high: int) -> None:
    """Give up what these commits needed; a blob goes with the last commit that needs it."""
    needed = many(db, "SELECT DISTINCT blob FROM blob_use WHERE log > ? AND log <= ?", (low, high))
    db.execute("DELETE FROM blob_use WHERE log > ? AND log <= ?", (low, high))
    for slot in needed:
        if one(db, SQL["blob_used"], slot) is None:
            db.execute(SQL["blob_delete"], slot)


def _drop_ids(db: apsw.Connection, low: int, high: int) -> None:
    """Take commits out of the index of ids, and close the gaps they leave.

    An id is looked for from its slot on up to the first that is free, so the entries right behind a freed
    slot are inserted again.
    """
    freed: list[int] = []
    for (identifier,) in many(db, "SELECT id FROM log WHERE k > ? AND k <= ?", (low, high)):
        slot = commit_slot(identifier)
        while (row := one(db, SQL["commit_slot"], (slot,))) is not None:
            if low < row[0] <= high:
                freed.append(slot)
                db.execute("UPDATE commit_ix SET k = -1 WHERE slot = ?", (slot,))
            slot += 1
    behind: dict[int, int] = {}
    for slot in freed:
        after = slot + 1
        while (row := one(db, SQL["commit_slot"], (after,))) is not None:
            if row[0] >= 0:
                behind[after] = row[0]
            after += 1
    db.executemany("DELETE FROM commit_ix WHERE slot = ?", [(slot,) for slot in (*freed, *behind)])
    for _, key in sorted(behind.items()):
        (identifier,) = one(db, SQL["log_id"], (key,))
        slot = commit_slot(identifier)
        while one(db, SQL["commit_slot"], (slot,)) is not None:
            slot += 1
        db.execute(SQL["commit_insert"], (slot, key))
