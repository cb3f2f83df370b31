"""Rewinds: which part of a log is in force after rewinds, and which records a rewind resets.

A rewind takes nothing out of the log. It says from where the log is to be read on: what a model is
shown after it is what was shown at its target, and what came after the rewind itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from stator.model.log.commit import Commit, Reset
from stator.model.log.query import TurnRow
from stator.model.records.tables import BOOKKEEPING, COLLECTIONS, KEPT_IN_REWIND
from stator.model.records.types import Entry, ErasedRecord, TagRecord, to_settle
from stator.model.values.canon import encode

TAG = "rewind/"
"""Tags that begin so name the heads that rewinds left: they are the reflog."""
RESET = tuple(name for name in COLLECTIONS if name not in KEPT_IN_REWIND)
"""Collections a rewind resets record by record."""

Stretch = tuple[int, int]
"""Commits with `after < seq <= upto`."""


class Rewind(msgspec.Struct, frozen=True):
    """One rewind: its own seq, where it went back to, and the head it left."""

    seq: int
    to: int
    left: int


def rewind_of(commit: Commit) -> Rewind | None:
    """The rewind that a commit records. A fork may be taken between a tag and its rewind, and an imported log
    may contain anything."""
    ends = [seq for seq in commit.inputs if isinstance(seq, int)]
    if commit.kind != "rewind" or len(ends) != 2 or not 0 <= ends[0] <= ends[1] < commit.seq:
        return None
    return Rewind(commit.seq, *ends)


def rewind_tags(tags: Iterable[Entry]) -> list[tuple[int, TagRecord]]:
    """The tags that rewinds left, with their seqs: the rewind is the next commit."""
    return [
        (entry.seq, entry.record)
        for entry in tags
        if isinstance(entry.record, TagRecord) and entry.record.name.startswith(TAG)
    ]


def with_ends(rows: Sequence[TurnRow], tags: Sequence[tuple[int, TagRecord]]) -> list[TurnRow]:
    """Turns with where each ends: a rewind after it is not part of it, nor is the tag before that."""
    left = sorted(tag.seq for seq, tag in tags if tag.seq < seq)
    found: list[TurnRow] = []
    for row in rows:
        place = bisect_left(left, row.first)  # the first head in the turn that a rewind left
        end = min([row.last, *left[place : place + 1]])
        found.append(msgspec.structs.replace(row, end=end))
    return found


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


def _order(pair: tuple[Entry | None, Entry | None]) -> tuple[bool, int]:
    """Records in the order in which they were touched, and after them bookkeeping, the newest first."""
    now, then = pair
    entry = now or then
    is_kept = entry is not None and entry.collection in BOOKKEEPING
    return is_kept, -now.seq if is_kept and now is not None else 0


def resets(pairs: Sequence[tuple[Entry | None, Entry | None]]) -> tuple[Reset, ...]:
    """The changes that make each record, as it is now, what it was then, by canonical bytes.

    What is left to do about calls in doubt follows the calls, and those a rewind leaves alone. What was
    erased since cannot be restored.
    """
    drops: dict[tuple[str, str], list[Reset]] = {}
    puts: dict[tuple[str, str], list[Reset]] = {}
    for now, then in pairs:
        if now is not None and then is not None and encode(now.record) == encode(then.record):
            continue
        back = None if then is None or isinstance(then.record, ErasedRecord) else then
        if back is not None:
            reset = Reset(back.collection, back.id, back.key, back.record)
            puts.setdefault((back.collection, back.key), []).append(reset)
        elif now is not None:
            reset = Reset(now.collection, now.id, now.key)
            drops.setdefault((now.collection, now.key), []).append(reset)
    changes: list[Reset] = []
    for pair in sorted(pairs, key=_order):
        for (
            entry
        ) in pair:  # a record whose newest version was erased has lost its key, and gets it back
            slot = ("", "") if entry is None else (entry.collection, entry.key)
            # One record makes room before another takes its place under the same key.
            changes += drops.pop(slot, []) + puts.pop(slot, [])
    return tuple(
        change
        for change in changes
        if change.collection != "pending" or not change.key.startswith(to_settle(""))
    )


def agree_upto(one: Sequence[Stretch], other: Sequence[Stretch]) -> int:
    """The seq up to which two views of a log are the same."""
    for (after, upto), (low, high) in zip(one, other, strict=False):
        if after != low:
            return min(after, low)
        if upto != high:
            return min(upto, high)
    shorter = min(one, other, key=len)
    return shorter[-1][1] if shorter else 0
