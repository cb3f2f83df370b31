"""Cleans up after a removal: frees the pages and empties the WAL, so that no byte of the content is left.

Neither can be part of the transaction that removed it, so that transaction leaves a mark in `meta`. The next
writer, in any process, finishes the work and removes the mark. A reader that still looks at an
older state of the file delays this; `lock_holders` shows which process it is.

`secure_delete` overwrites deleted bytes in place. It does not reach copies that SQLite left behind when it moved
rows between pages: those remain in the unused middle of pages in use, and only rewriting the file removes them.
That takes seconds per gigabyte: a small file is rewritten at once, a large one when the store that removed
something is synced or closed.
"""

from __future__ import annotations

import apsw

from stator.store.sqlite.connection import Patience, one

MARK = "unfinished"
TRACES = "traces"
"""Marks that pages in use may still hold copies of what was removed."""
WHOLE_MAX = 16_384
"""Pages of a file that is rewritten at once: 64 MB, half a second."""
SLICE = 2000
"""Pages given back in one transaction: 8 MB, so that other writers get their turn."""


def mark(db: apsw.Connection) -> None:
    """Mark, inside the transaction that removes content, that work remains.

    Marks are separate: finishing an earlier removal must not remove this one's.
    """
    # The random value tells marks apart: `finish` deletes the one it saw, not one that was set while it worked.
    for key in (MARK, TRACES):
        db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, random())", (key,))


def is_marked(db: apsw.Connection, *keys: str) -> bool:
    """Whether work remains, for any mark or for those keys."""
    return any(_seen(db, key) is not None for key in keys or (MARK, TRACES))


def _seen(db: apsw.Connection, key: str) -> int | None:
    row = one(db, "SELECT value FROM meta WHERE key = ?", (key,))
    return None if row is None else int(row[0])


def finish(db: apsw.Connection, patience: Patience, seconds: float, *, whole: bool = False) -> bool:
    """Free pages, empty the WAL and remove the mark; False if that is not possible now.

    `patience` is the connection's, `seconds` how long to wait for a reader; `whole` rewrites a file of any size.
    A failure is not raised: the removal itself is committed and answered as such, and a broken file fails the
    next transaction. The caller holds the write lock.
    """
    usual, patience.seconds = patience.seconds, seconds
    try:
        marks = {key: _seen(db, key) for key in (MARK, TRACES)}
        # First of all: while another process reads, everything written below only makes the WAL longer.
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        whole = whole or db.pragma("page_count") <= WHOLE_MAX
        if whole and marks[TRACES] is not None:
            db.execute("VACUUM")
        else:
            del marks[TRACES]
            _give_back(db)
        # Shortening or rewriting the file went through the WAL, which now holds old pages again.
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        for key, seen in marks.items():
            db.execute("DELETE FROM meta WHERE key = ? AND value = ?", (key, seen))
        return not is_marked(db, MARK)
    except apsw.Error:  # a reader, most of the time; or a full disk
        return False
    finally:
        patience.seconds = usual


def _give_back(db: apsw.Connection) -> None:
    """Shorten the file by its free pages."""
    free = db.pragma("freelist_count")
    while free:
        db.execute(f"PRAGMA incremental_vacuum({SLICE})").fetchall()
        free, before = db.pragma("freelist_count"), free
        if free >= before:  # a copy whose pages are not tracked, or others who free more
            break
