"""A session's row: what it says of the session, of its holder, and of where its log lies."""

from __future__ import annotations

from typing import Any

import msgspec

from stator.errors import NotFound
from stator.model.log.query import Counts, Head, Holder, SessionRow
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import SessionRecord
from stator.model.values.ids import from_bytes, is_id, to_bytes
from stator.store.postgres.connection import Rows, Statement

MAX_SEQ = 1 << 62
"""Where the last part of a log ends: after everything that is appended to it."""
ENDLESS = (1 << 63) - 1
"""Until when a version is in force that nothing has replaced."""

SEEN_GRAIN = 60_000_000
"""By how many microseconds at most a session was used later than its row's `seen` says."""

_decode_record = msgspec.json.Decoder(SessionRecord).decode
_decode_holder = msgspec.msgpack.Decoder(Holder).decode
encode_record = msgspec.json.Encoder(order="sorted").encode
encode_holder = msgspec.msgpack.Encoder().encode


class FoundSession(msgspec.Struct):
    """A row of the table `session`."""

    s: int
    id: str
    record: SessionRecord
    epoch: int
    holder: Holder | None
    head: int
    hash: bytes
    turn: int
    turn_open: bool
    updated: int
    low: int
    part_s: list[int]
    part_after: list[int]
    part_upto: list[int]
    counted: tuple[int, int, int, int, int]
    """Its own commits, turns, calls, failed calls and bytes of content."""

    @property
    def row(self) -> SessionRow:
        return SessionRow(
            record=self.record,
            epoch=self.epoch,
            head=self.head,
            holder=self.holder,
            turns=self.turn,
            updated=self.updated,
        )

    @property
    def place(self) -> Head:
        return Head(self.head, self.hash.hex(), self.turn, self.turn_open)

    def counts(self, live: Rows) -> Counts:
        """How much it holds; `live` are the numbers of its live records."""
        known: dict[str, int] = dict(live)
        commits, turns, calls, failed, size = self.counted
        return Counts(
            commits=commits,
            turns=turns,
            calls=calls,
            failed=failed,
            open=known.get("calls", 0),
            content_bytes=size,
            live={name: known[name] for name in COLLECTIONS if known.get(name)},
        )


def holder_of(data: bytes | None, epoch: int, beats: int | None) -> Holder | None:
    """Who holds a session. One whose process has taken its counter away is gone."""
    if data is None:
        return None
    holder = _decode_holder(data)
    return msgspec.structs.replace(
        holder, epoch=epoch, live=beats is not None, beats=0 if beats is None else beats
    )


def found(row: tuple[Any, ...]) -> FoundSession:
    s, identifier, record, epoch, holder, beats, head, hash, turn, turn_open, updated, low = row[
        :12
    ]
    return FoundSession(
        s, from_bytes(identifier, "session"), _decode_record(record), epoch, holder_of(holder, epoch, beats),
        head, hash, turn, turn_open, updated, low, row[12], row[13], row[14], row[15:20],
    )  # fmt: skip


def by_id(session: str, *, lock: bool = False) -> Statement:
    """The statement that finds a session."""
    return Statement("session_lock" if lock else "session_by_id", {"session": key_of(session)})


def key_of(session: str) -> bytes:
    """The id of a session as its row has it; of what is no id, one that no session has."""
    return to_bytes(session) if is_id(session, "session") else b""


def must_find(rows: Rows, session: str) -> FoundSession:
    """The session of a row, or `NotFound`."""
    if not rows:
        raise NotFound(f"no session {session}", hint="stator ls lists sessions", session=session)
    return found(rows[0])
