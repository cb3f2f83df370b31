"""Notes of how far the sources of recorded sessions were read, kept beside the log."""

from __future__ import annotations

from stator.errors import HeadMoved
from stator.model.exchange.bookmark import Bookmark
from stator.model.values import canon
from stator.store.postgres.connection import Rows, Statement
from stator.store.postgres.live_session import RemoteLive
from stator.store.postgres.session_row import key_of
from stator.store.postgres.text import digest


def bookmark_get(session: str, name: str) -> Statement:
    return Statement("bookmark_get", {"session": key_of(session), "name": digest(name)})


def bookmark_in(name: str, rows: Rows) -> Bookmark | None:
    """The note in a row of `bookmark_get`."""
    if not rows or rows[0][0] is None:
        return None
    return Bookmark(name, rows[0][0], canon.loads(rows[0][1]))


def check_bookmark(live: RemoteLive, note: Bookmark, rows: Rows) -> None:
    """`HeadMoved` unless the note follows the one that is there."""
    there = bookmark_in(note.name, rows)
    if note.number != (0 if there is None else there.number) + 1:
        raise HeadMoved(
            f"session {live.known.id}: another process has read {note.name!r:.80} further",
            head=live.hash,
            hint="read its note, then continue from there",
            session=live.known.id,
        )


def bookmark_put(live: RemoteLive, note: Bookmark) -> Statement:
    """Keep a note. It may hold what the log does not hold yet, so secrets are replaced as there."""
    clean = live.redactor.scrub if live.redactor is not None else None
    return Statement(
        "bookmark_put",
        {
            "s": live.known.s,
            "name": digest(note.name),
            "number": note.number,
            "value": canon.dumps(note.value, scrub=clean),
        },
    )
