"""Bookmark notes in the file: how far the sources of recorded sessions were read.

They are rows of `meta`, because that table is part of every store of schema 1. Whatever happens to them, nothing is
lost: a note that is missing or damaged makes its reader start at the beginning.
"""

from __future__ import annotations

import apsw
import msgspec

from stator.errors import HeadMoved
from stator.model.exchange.bookmark import Bookmark
from stator.model.values import canon
from stator.store.sqlite.connection import one
from stator.store.sqlite.live_session import Live

PREFIX = "bookmark "
"""How the keys of these rows begin; a session's ordinal and the note's name follow."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, bytes]).decode


def read(db: apsw.Connection, s: int, name: str) -> Bookmark | None:
    """A session's note of that name; None if there is none that can be read."""
    row = one(db, "SELECT value FROM meta WHERE key = ?", (_key(s, name),))
    if row is None or not isinstance(row[0], bytes):
        return None
    try:
        number, data = _decode(row[0])
        return Bookmark(name, number, canon.loads(data))
    except (msgspec.DecodeError, ValueError):
        return None


def check(db: apsw.Connection, live: Live, note: Bookmark) -> None:
    """`HeadMoved` unless the note follows the one that is there."""
    known = read(db, live.place.s, note.name)
    there = 0 if known is None else known.number
    if note.number != there + 1:
        raise HeadMoved(
            f"session {live.place.record.id}: another process has read {note.name!r:.80} further",
            head=live.hash,
            hint="read its note, then continue from there",
            session=live.place.record.id,
        )


def write(db: apsw.Connection, live: Live, note: Bookmark) -> None:
    """Keep a note. It may hold what the log does not hold yet, so secrets are replaced as there."""
    scrub = live.redactor.scrub if live.redactor is not None else None
    value = _encode((note.number, canon.dumps(note.value, scrub=scrub)))
    db.execute(
        "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)",
        (_key(live.place.s, note.name), value),
    )


def drop(db: apsw.Connection, s: int) -> None:
    """Remove every note of a session."""
    start = f"{PREFIX}{s} "
    db.execute("DELETE FROM meta WHERE key >= ? AND key < ?", (start, start[:-1] + "!"))


def _key(s: int, name: str) -> str:
    return f"{PREFIX}{s} {name}"
