"""Touches: who touched a key, in a session and its lineage, in a project, or anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from stator.model.log.query import KeyTouch
from stator.model.values.ids import from_bytes
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.projection import (
    SQL,
)
from stator.store.sqlite.queries.lineage import MAX_SEQ, FindPlace, SessionPlace
from stator.store.sqlite.queries.state import check_collection
from stator.store.sqlite.versions import (
    key_hash,
    unpack_id,
)


def _touch(connection: apsw.Connection, s: int, collection: str, row: Sequence[Any]) -> KeyTouch:
    seq, _, op, turn, identifier, known = row
    found = one(connection, SQL["session_id"], (s,))
    return KeyTouch(
        session=from_bytes(found[0], "session"),
        seq=seq,
        turn=turn,
        id=unpack_id(identifier),
        key=known,
        collection=collection,
        dropped=not op,
    )


def store_touches(
    connection: apsw.Connection,
    placed: FindPlace,
    collection: str,
    wanted: str,
    project: str | None,
    limit: int,
) -> list[KeyTouch]:
    """Touches of a key anywhere, or anywhere in a project: newest session first, newest seq first."""
    number = check_collection(collection)
    values = (number, key_hash(number, wanted), project, project, limit)
    found = [(*row[:6], wanted) for row in many(connection, SQL["rec_touches"], values)]
    for (identifier,) in many(connection, "SELECT id FROM session WHERE dirty = 1"):
        place = placed(connection, from_bytes(identifier, "session"))
        if project in (None, place.record.project):
            found += (
                (place.s, seq, n, op, turn, identifier, known)
                for seq, n, op, _, turn, identifier, known, _ in place.tail.versions(
                    number, place.flushed, MAX_SEQ
                )
                if known == wanted
            )
    found.sort(key=lambda row: row[:3], reverse=True)
    return [_touch(connection, s, collection, row) for s, *row in found[:limit]]


def place_touches(
    connection: apsw.Connection, place: SessionPlace, collection: str, wanted: str, limit: int
) -> list[KeyTouch]:
    """Touches of a key in a session and its lineage, newest first."""
    number = check_collection(collection)
    found = [
        KeyTouch(
            session=place.record.id,
            seq=version[0],
            turn=version[4],
            id=version[5],
            key=wanted,
            collection=collection,
            dropped=not version[2],
        )
        for version in reversed(place.tail.versions(number, place.flushed, MAX_SEQ))
        if version[6] == wanted
    ]
    hashed = key_hash(number, wanted)
    for segment in reversed(place.segments):
        rows = many(
            connection,
            SQL["rec_touches_in"],
            (number, hashed, segment.s, segment.after, segment.upto, limit),
        )
        found += (_touch(connection, s, collection, (*row[:5], wanted)) for s, *row in rows)
    return found[:limit]
