"""Listing sessions, most recently used first, a page at a time.

A session's row is flushed lazily, so the head and the time of last use of a session with an unflushed tail are
read from the last row of its log; there are few of those, and they are merged into the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw

from stator.model.log.query import Counts, Page, SessionQuery, SessionRow
from stator.model.records.tables import COLLECTIONS
from stator.model.values.ids import from_bytes, to_bytes
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.driver_lock import DriverLocks
from stator.store.sqlite.projection import SEQ_MASK, SQL
from stator.store.sqlite.queries import commits, lineage, places
from stator.store.sqlite.queries.commits import LastCommit
from stator.store.sqlite.queries.lineage import SessionPlace

FIRST = (2**62, 2**62)
"""The cursor before everything."""
DIRTY = (
    SQL["session_page"]
    .replace("FROM session\n", "FROM session INDEXED BY session_dirty\n", 1)
    .replace("dirty = 0", "dirty = 1")
)
"""The same of sessions with a tail. Their index is for a constant: asked with a parameter, SQLite
looks at every session."""
BELOW, DIRTY_BELOW = (
    statement.replace(" INDEXED BY session_dirty", "", 1)
    .replace("FROM session\n", "FROM session INDEXED BY session_parent\n", 1)
    .replace("(:parent IS NULL OR parent = :parent)", "parent = :parent")
    for statement in (SQL["session_page"], DIRTY)
)
"""Both of what came from one session: by an index that is of no use to a filter that may be left out."""
ALIASED = SQL["session_page"].replace("(:source IS NULL OR s IN (", "(s IN (", 1)
"""The page of what has one alias: it begins with the alias, which the filter that may be left out does not."""

NAMED = SQL["session_page"].replace(
    "(:name IS NULL OR name = :name)", f"s IN ({SQL['session_named'].rstrip(';')})", 1
)
"""The page of what has one name in a project, of any tenant: it begins with the name."""

HOLDS = f"  AND s IN ({SQL['session_holders'].rstrip(';')})\nORDER BY updated"
"""Of what a page has, only what may hold records of a collection."""


def page(
    db: apsw.Connection,
    drivers: DriverLocks,
    query: SessionQuery,
    cursor: tuple[int, ...] | None,
    limit: int,
) -> Page[SessionRow]:
    """Sessions that match, from a cursor on."""
    if None not in (query.tenant, query.project, query.name):
        # At most one has that name, and an index of its own finds it: without it, there is no match.
        named = one(db, SQL["session_by_name"], (query.tenant, query.project, query.name))
        if named is None:
            return Page([], None)
        if query == SessionQuery(
            tenant=query.tenant, project=query.project, name=query.name, mode=query.mode
        ):
            return _one(db, drivers, named[1], query.mode, cursor)
    updated, s = cursor if cursor is not None else FIRST
    pages, tails = (SQL["session_page"], DIRTY) if query.parent is None else (BELOW, DIRTY_BELOW)
    if query.alias and query.parent is None:
        pages = ALIASED
    elif None not in (query.name, query.project) and query.parent is None:
        pages = NAMED
    if query.holds:
        pages = pages.replace("ORDER BY updated", HOLDS, 1)
    clean = many(db, pages, _filters(query, updated, s, limit + 1))
    found: list[tuple[int, int, Any, LastCommit | None]] = [
        (row[4], row[0], row, None) for row in clean
    ]
    # What a tail holds is in no index, so that each counts as one that may hold what is asked for.
    for row in many(db, tails, _filters(query, *FIRST, -1)):
        last = commits.last_commit(db, row[0], row[5])
        at = last.used if last is not None else row[4]
        if (at, row[0]) < (updated, s):
            found.append((at, row[0], row, last))
    found.sort(key=lambda item: item[:2], reverse=True)
    rows = [_shown(drivers, places.place_of(db, row), last) for _, _, row, last in found[:limit]]
    more = len(found) > limit
    return Page(rows, found[limit - 1][:2] if more else None)


def _one(
    db: apsw.Connection,
    drivers: DriverLocks,
    identifier: bytes,
    mode: str | None,
    cursor: tuple[int, ...] | None,
) -> Page[SessionRow]:
    row = row_of(db, drivers, places.place_of(db, one(db, SQL["session_by_id"], (identifier,))))
    wanted = cursor is None and mode in (None, row.record.mode)
    return Page([row] if wanted else [], None)


def _filters(query: SessionQuery, updated: int, s: int, limit: int) -> dict[str, Any]:
    return {
        "updated": updated,
        "s": s,
        "limit": limit,
        "name": query.name,
        "project": query.project,
        "tenant": query.tenant,
        "agent": query.agent,
        "status": query.status,
        "mode": query.mode,
        "suffix": query.suffix,
        "parent": to_bytes(query.parent) if query.parent else None,
        "source": query.alias[0] if query.alias else None,
        "foreign_id": query.alias[1] if query.alias else None,
        "holds": COLLECTIONS[query.holds].number if query.holds is not None else None,
    }


def row_of(
    db: apsw.Connection, drivers: DriverLocks, place: SessionPlace, counts: Counts | None = None
) -> SessionRow:
    """A session as listings show it."""
    last = commits.last_commit(db, place.s, place.flushed) if place.dirty else None
    return _shown(drivers, place, last, counts)


def _shown(
    drivers: DriverLocks, place: SessionPlace, last: LastCommit | None, counts: Counts | None = None
) -> SessionRow:
    """The same, by the last commit of its tail."""
    return SessionRow(
        record=place.record,
        epoch=place.epoch,
        head=last.seq if last is not None else place.flushed,
        holder=drivers.holder(place.holder, place.epoch),
        turns=last.turn if last is not None else place.ledger.turn,
        updated=last.used if last is not None else place.updated,
        counts=counts,
    )


CHUNK_BITS = 7
"""Sessions of a chunk, as a power of two."""


def chunk_heads(db: apsw.Connection, chunk: int | None = None) -> Iterator[tuple[str, int, int]]:
    """The sessions of a chunk, or all: id, the seq of the head, and when it was last used."""
    low, high = (0, 2**62) if chunk is None else (chunk << CHUNK_BITS, (chunk + 1) << CHUNK_BITS)
    for s, identifier, seq, updated, tail in many(
        db, "SELECT s, id, flushed, updated, dirty FROM session WHERE s >= ? AND s < ?", (low, high)
    ):
        if tail:
            last = commits.last_commit(db, s, seq)
            if last is not None:
                seq, updated = last.seq, last.used
        yield from_bytes(identifier, "session"), seq, updated


def head_sums(db: apsw.Connection) -> dict[int, str]:
    """By chunk of sessions, what differs as soon as its `chunk_heads` do, without reading all of them out."""
    rows = many(
        db,
        f"SELECT s >> {CHUNK_BITS}, json_array(count(*), sum(flushed),"  # noqa: S608
        " sum(((updated & 0xffffffff) * 7919 + flushed * 1000003 + s + created) & 0xffffffffff))"
        f" FROM session GROUP BY s >> {CHUNK_BITS}",
    )
    sums: dict[int, str] = dict(rows)
    for (s,) in many(db, "SELECT s FROM session WHERE dirty = 1"):
        row = one(db, SQL["log_range_newest"], (lineage.key(s, 0), lineage.key(s, SEQ_MASK), 1))
        sums[s >> CHUNK_BITS] = sums.get(s >> CHUNK_BITS, "") + row[2].hex()
    return sums


def dirty(db: apsw.Connection) -> Iterator[bytes]:
    """Ids of sessions with an unflushed tail."""
    for (identifier,) in many(db, "SELECT id FROM session WHERE dirty = 1"):
        yield identifier
