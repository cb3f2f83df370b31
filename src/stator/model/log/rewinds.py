"""Rewinds: which part of a log is in force after rewinds, and which records a rewind resets.

A rewind takes nothing out of the log. It says from where the log is to be read on: what a model is
shown after it is what was shown at its target, and what came after the rewind itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from stator.model.log.commit import Reset
from stator.model.records.tables import BOOKKEEPING, COLLECTIONS, KEPT_IN_REWIND
from stator.model.records.types import Entry, ErasedRecord, to_settle

TAG = "rewind/"
"""Tags that begin so name the heads that rewinds left: they are the reflog."""
STEPS = tuple(
    name for name in COLLECTIONS if name not in KEPT_IN_REWIND and name not in BOOKKEEPING
)
"""Collections a rewind resets record by record."""
COUNTED = tuple(name for name in COLLECTIONS if name not in KEPT_IN_REWIND and name in BOOKKEEPING)
"""Small ones that it compares whole."""

Stretch = tuple[int, int]
"""Commits with `after < seq <= upto`."""


class Rewind(msgspec.Struct, frozen=True):
    """One rewind: its own seq, where it went back to, and the head it left."""

    seq: int
    to: int
    left: int


def visible(rewinds: Sequence[Rewind], upto: int) -> list[Stretch]:
    """The ranges of a log that are in force at a seq, in order. `rewinds` are in log order."""
    seqs = [rewind.seq for rewind in rewinds]
    found: list[Stretch] = []
    while upto > 0:
        place = bisect_right(seqs, upto)
        low = seqs[place - 1] if place else 0
        if low < upto:
            found.append((low, upto))
        upto = rewinds[place - 1].to if place else 0
    return found[::-1]


def stands(stretches: Sequence[Stretch], seq: int) -> bool:
    """Whether a commit is in one of the stretches."""
    place = bisect_right(stretches, (seq, 0)) - 1
    return place >= 0 and stretches[place][0] < seq <= stretches[place][1]


def resets(
    slots: Iterable[tuple[str, str, Entry | None, Entry | None]],
) -> tuple[Reset, ...]:
    """The changes that restore each (collection, key): from the present record to the earlier one.

    What is left to do about calls in doubt follows the calls, and those a rewind leaves alone. What was
    erased since cannot be restored.
    """
    changes: list[Reset] = []
    for collection, key, now, then in slots:
        if collection == "pending" and key.startswith(to_settle("")):
            continue
        back = None if then is None or isinstance(then.record, ErasedRecord) else then
        same = now is not None and then is not None and now.id == then.id
        if same and now is not None and then is not None and now.record == then.record:
            continue
        if now is not None and (back is None or not same):
            changes.append(Reset(collection, now.id, key))
        if back is not None:
            changes.append(Reset(collection, back.id, key, back.record))
    return tuple(changes)


def agree_upto(one: Sequence[Stretch], other: Sequence[Stretch]) -> int:
    """The seq up to which two views of a log are the same."""
    for (after, upto), (low, high) in zip(one, other, strict=False):
        if after != low:
            return min(after, low)
        if upto != high:
            return min(upto, high)
    shorter = min(one, other, key=len)
    return shorter[-1][1] if shorter else 0
