"""The parts of the log a session is made of: segments inherited from its parents, its own, and its unflushed tail."""

from __future__ import annotations

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


decode_session = msgspec.json.Decoder(SessionRecord).decode


class Stretch(msgspec.Struct, frozen=True):
    """Commits `after < seq <= upto` kept under ordinal `s`."""

    s: int
    session: str
    after: int
    upto: int
    erased: frozenset[int] = frozenset()
    """Collections of which this session has erased a record."""
    kept: frozenset[int] = frozenset()
    """Collections of which it has rows; of a session's own stretch, its ledger tells."""


class Place(msgspec.Struct):
    """Where a session's log and projections are."""

    s: int
    record: SessionRecord
    epoch: int
    flushed: int
    dirty: bool
    ledger: Ledger
    stretches: list[Stretch]
    tail: Tail
    holder: bytes | None = None
    updated: int = 0

    @property
    def low(self) -> int:
        """The seq before the session's own first commit."""
        return self.stretches[-1].after

    @property
    def lineage(self) -> list[tuple[int, int]]:
        """(ordinal, upto) of the stretches the session's log continues, oldest first."""
        return [(stretch.s, stretch.upto) for stretch in self.stretches[:-1]]

    def has_erased(self, number: int) -> bool:
        """Whether some record of a collection was erased, here or in the lineage."""
        return number in self.ledger.erased or any(number in s.erased for s in self.stretches)

    def has_rows(self, stretch: Stretch, number: int) -> bool:
        """Whether a stretch can have flushed versions of a collection: most have none of most."""
        return number in (self.ledger.snaps if stretch.s == self.s else stretch.kept)

    def upto(self, at: int | None) -> list[Stretch]:
        """The stretches, oldest first, cut off at a seq."""
        if at is None:
            return self.stretches
        return [
            msgspec.structs.replace(stretch, upto=min(stretch.upto, at))
            for stretch in self.stretches
            if stretch.after < at
        ]


def key(s: int, seq: int) -> int:
    return s << SEQ_BITS | seq
