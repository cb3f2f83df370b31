"""Finds commits and turns that a question names otherwise than by a range: by id, by origin, by what was rewound."""

from __future__ import annotations

from collections.abc import Collection

import apsw

from stator.model.log.query import PAGE_MAX, TurnRow
from stator.model.log.rewinds import rewind_of, rewind_tags, stands, visible, with_ends
from stator.model.records.types import TagRecord
from stator.model.values.ids import is_id, to_bytes
from stator.store.sqlite.queries import keys as keyed
from stator.store.sqlite.queries.commits import read_some
from stator.store.sqlite.queries.lineage import MAX_SEQ, SessionPlace
from stator.store.sqlite.queries.places import locate_id, with_origins
from stator.store.sqlite.queries.state import read_entries
from stator.store.sqlite.queries.turns import read_turns

MORE_TURNS = 64
"""Turns that are read at first for some that were not rewound, beyond those that are asked for."""


def chosen_seqs(
    connection: apsw.Connection,
    place: SessionPlace,
    seqs: Collection[int] | None,
    *,
    ids: Collection[str] | None,
    origins: Collection[tuple[str, str]] | None,
    rewinds: bool,
    upto: int | None,
) -> Collection[int] | None:
    """The seqs of the commits that are named; None if all are."""
    whole = [to_bytes(identifier) for identifier in ids or () if is_id(identifier, "commit")]
    found = [there for one in whole for there in locate_id(connection, place, one)]
    named = {*(seqs or ()), *(seq for _, seq in found)}
    if rewinds:
        named.update(rewind_seqs(connection, place, _tags(connection, place, upto)))
    if origins is None:
        return named
    from_there = with_origins(connection, place, origins)
    return from_there if seqs is None and ids is None and not rewinds else from_there & named


def rewind_seqs(
    connection: apsw.Connection, place: SessionPlace, tags: Collection[tuple[int, TagRecord]]
) -> set[int]:
    """The seqs of the rewinds that follow these tags."""
    after = read_some(connection, place, (seq + 1 for seq, _ in tags), load=False)
    return {commit.seq for commit in after if commit.kind == "rewind"}


def _tags(
    connection: apsw.Connection, place: SessionPlace, at: int | None = None
) -> list[tuple[int, TagRecord]]:
    return rewind_tags(read_entries(connection, place, "tags", at, None))


def chosen_turns(
    connection: apsw.Connection,
    place: SessionPlace,
    *,
    after: int,
    upto: int | None,
    newest_first: bool,
    limit: int,
    keys: Collection[str] | None,
    prompts: bool,
    ends: bool,
    standing: bool,
) -> list[TurnRow]:
    """Turns, all or those with some keys; with where they end, without those that were rewound."""
    numbers = None if keys is None else keyed.keyed_numbers(connection, place, list(keys))
    tags = _tags(connection, place) if ends or standing else []

    def read(low: int, high: int | None, most: int) -> list[TurnRow]:
        return read_turns(
            connection,
            place,
            after=low,
            upto=high,
            newest_first=newest_first,
            limit=most,
            numbers=numbers,
            prompts=prompts,
        )

    if not standing or not tags:
        rows = read(after, upto, limit)
        return with_ends(rows, tags) if ends else rows
    log = read_some(connection, place, (seq + 1 for seq, _ in tags), load=False)
    in_force = visible([one for c in log if (one := rewind_of(c)) is not None], MAX_SEQ)
    found: list[TurnRow] = []
    size = limit + MORE_TURNS
    while page := read(after, upto, size):
        found += [row for row in page if stands(in_force, row.first)]
        if len(found) >= limit or len(page) < size:
            break
        after, upto = (after, page[-1].turn - 1) if newest_first else (page[-1].turn, upto)
        size = min(4 * size, PAGE_MAX)
    return with_ends(found[:limit], tags) if ends else found[:limit]
