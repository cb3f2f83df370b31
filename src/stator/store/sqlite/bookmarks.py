"""Bookmark notes in the file: how far the sources of recorded sessions were read.

They are rows of `meta`, because that table is part of every store of schema 1. Whatever happens to them, nothing is
lost: a note that is missing or damaged makes its reader start at the beginning.
"""

from __future__ import annotations

import zlib
from typing import Any

import apsw
import msgspec

from stator.errors import HeadMoved
from stator.model.exchange import redaction_mark
from stator.model.exchange.bookmark import Bookmark
from stator.model.sessions.ownership import Ownership
from stator.model.values import canon
from stator.store.sqlite.connection import one
from stator.store.sqlite.live_session import Live
from stator.store.sqlite.projection import SEQ_BITS, SQL

PREFIX = "bookmark "
"""How the keys of these rows begin; a session's ordinal and the note's name follow."""


class Kept(msgspec.Struct, array_like=True):
    """A note as its row holds it."""

    number: int
    data: bytes
    check: int | None = None
    """Over its key and everything above, so that no damage is taken for a place; releases before 0.11 wrote none."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Kept).decode


def unpacked(key: str, value: Any) -> Kept | None:
    """The note in a row; None if it is damaged."""
    try:
        kept = _decode(value)
    except (msgspec.DecodeError, TypeError):
        return None
    return kept if kept.check in (None, _check(key, kept)) else None


def _check(key: str, kept: Kept) -> int:
    return zlib.crc32(kept.data, zlib.crc32(f"{key} {kept.number}".encode()))


def read(db: apsw.Connection, s: int, name: str) -> Bookmark | None:
    """A session's note of that name; None if there is none that can be read."""
    key = _key(s, name)
    row = one(db, "SELECT value FROM meta WHERE key = ?", (key,))
    kept = None if row is None else unpacked(key, row[0])
    try:
        return None if kept is None else Bookmark(name, kept.number, canon.loads(kept.data))
    except ValueError:
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
    _put(db, live.place.s, note, live.redactor.scrub if live.redactor is not None else None)


def drop(db: apsw.Connection, s: int, *, keep: str = "") -> None:
    """Remove every note of a session, but for one name."""
    start = f"{PREFIX}{s} "
    db.execute(
        "DELETE FROM meta WHERE key >= ? AND key < ? AND key != ?",
        (start, start[:-1] + "!", _key(s, keep)),
    )


def mark_redacted(db: apsw.Connection, live: Live, owner: Ownership) -> None:
    """Move the mark of a session to its head: what came since was sealed by this process, with redaction."""
    place, after = live.place, live.sealed_after
    if live.redactor is None or after is None:
        return
    live.sealed_after = None
    # A fork puts back records of the session it was forked from, as they are there.
    parts = [(part.s, part.session, part.upto) for part in place.segments[:-1]]
    if after > place.low:
        parts.append((place.s, place.record.id, after))
    if all(_is_redacted(db, *part, owner) for part in parts):
        made = redaction_mark.made(owner, place.record.id, live.seq, live.hash)
        if made is not None:
            note = Bookmark(redaction_mark.NOTE, 1, msgspec.to_builtins(made))
            _put(db, place.s, note, None)
            live.sealed_after = live.seq


def _is_redacted(db: apsw.Connection, s: int, session: str, upto: int, owner: Ownership) -> bool:
    """Whether a session has a mark of this user that reaches as far as that, and is about this log."""
    known = read(db, s, redaction_mark.NOTE)
    mark = None if known is None else redaction_mark.from_note(known.value)
    if mark is None or mark.seq < upto or not redaction_mark.is_believed(mark, owner, session):
        return False
    there = one(db, SQL["log_hash"], (s << SEQ_BITS | mark.seq,))
    return there is not None and there[0].hex() == mark.hash


def _put(db: apsw.Connection, s: int, note: Bookmark, scrub: canon.Scrub | None) -> None:
    key, kept = _key(s, note.name), Kept(note.number, canon.dumps(note.value, scrub=scrub))
    kept.check = _check(key, kept)
    db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, _encode(kept)))


def _key(s: int, name: str) -> str:
    return f"{PREFIX}{s} {name}"
