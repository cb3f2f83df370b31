"""The parts of the log a session is made of: segments inherited from its parents, its own, and its unflushed tail."""

from __future__ import annotations

from collections.abc import Callable

import apsw
import msgspec

from stator.model.records.types import (
    SessionRecord,
)
from stator.store.sqlite.projection import (
    SEQ_BITS,
    SEQ_MASK,
    Ledger,
    Tail,
)

MAX_SEQ = SEQ_MASK
Stamp = tuple[tuple[int, int, bytes], ...]
"""(ordinal, flushed, ledger) in the rows of a session and its lineage: every flush, erasure and purge changes it."""
decode_session = msgspec.json.Decoder(SessionRecord).decode


class LogSegment(msgspec.Struct, frozen=True):
    """Commits `after < seq <= upto` kept under ordinal `s`."""

    s: int
    session: str
    after: int
    upto: int
    erased: frozenset[int] = frozenset()
    """Collections of which this session has erased a record."""
    kept: frozenset[int] = frozenset()
    """Collections of which it has rows; for a session's own segment, its ledger says."""
    keyed: int = 0
    """The seq up to which the keys of its turns are indexed; for a session's own segment, its ledger says."""


class SessionPlace(msgspec.Struct):
    """Where a session's log and projections are."""

    s: int
    record: SessionRecord
    epoch: int
    flushed: int
    dirty: bool
    ledger: Ledger
    segments: list[LogSegment]
    tail: Tail
    stamp: Stamp
    holder: bytes | None = None
    updated: int = 0

    @property
    def low(self) -> int:
        """The seq before the session's own first commit."""
        return self.segments[-1].after

    @property
    def lineage(self) -> list[tuple[int, int]]:
        """(ordinal, upto) of the segments the session's log continues, oldest first."""
        return [(segment.s, segment.upto) for segment in self.segments[:-1]]

    def has_erased(self, number: int) -> bool:
        """Whether some record of a collection was erased, here or in the lineage."""
        return number in self.ledger.erased or any(number in s.erased for s in self.segments)

    def has_rows(self, segment: LogSegment, number: int) -> bool:
        """Whether a segment can have flushed versions of a collection: most have none of most."""
        return number in (self.ledger.snaps if segment.s == self.s else segment.kept)

    def upto(self, at: int | None) -> list[LogSegment]:
        """The segments, oldest first, cut off at a seq."""
        if at is None:
            return self.segments
        return [
            msgspec.structs.replace(segment, upto=min(segment.upto, at))
            for segment in self.segments
            if segment.after < at
        ]


FindPlace = Callable[[apsw.Connection, str], SessionPlace]
"""Finds a session's place with its tail, by its id."""


def key(s: int, seq: int) -> int:
    return s << SEQ_BITS | seq
