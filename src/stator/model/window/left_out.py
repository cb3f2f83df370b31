"""What the turns hold that do not fit into a window: keys for the record, lines for the model. Pure.

`t.messages(max_tokens=)` leaves out the oldest turns. What is in them is folded here, turn by turn, in the order of
the log: of each kind the newest are named, older ones are counted and reached by a key that lists their turns. So both
the record and the note are bounded, however many turns are left out, and moving the cut costs what it moves over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from stator.model.records.types import EvictedRecord
from stator.model.window.compaction import (
    CHATTER,
    HOW,
    RANKS,
    LeftKey,
    counts_in,
    lists,
)
from stator.model.window.words import LEFT_TOKENS, FittingLines, LeftLines

NAMED_OF_A_KIND = 24
"""Keys of each kind that are named one by one."""
NOTE_PART = 8
"""The note takes at most this part of a window."""


def note_room(max_tokens: int) -> int:
    """Tokens that the note about what is left out may take."""
    return max(0, min(LEFT_TOKENS, max_tokens // NOTE_PART))


@dataclass(slots=True)
class _Overflow:
    """Keys of a rank that are not named any more."""

    first: int
    last: int
    seq: int

    def take(self, item: LeftKey) -> None:
        self.first, self.last = min(self.first, item.turn), max(self.last, item.turn)
        self.seq = max(self.seq, item.seq)


@dataclass(frozen=True, slots=True)
class LeftItem:
    """A key and what it stands for."""

    item: LeftKey
    words: Callable[[], str]
    quotes: int
    """The seq of the commit whose words these, or the key, are; 0 if they are no one's."""


@dataclass(slots=True)
class LeftOut:
    """Everything in the turns that are left out."""

    turns: int = 0
    """How many turns."""
    upto: int = 0
    """The last seq in them."""
    counts: dict[str, int] = field(default_factory=dict)
    _numbers: list[int] = field(default_factory=list)
    """The first and the last turn."""
    _held: dict[tuple[int, int, int], dict[str, LeftItem]] = field(default_factory=dict)
    """By kind, the newest last."""
    _kinds: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """The kind of each key that is held."""
    _rest: dict[int, _Overflow] = field(default_factory=dict)

    def take_turn(self, upto: int) -> None:
        """Another turn is left out; it ends at a seq."""
        self.turns += 1
        self.upto = max(self.upto, upto)

    def take(self, held: LeftItem) -> None:
        """What one of these turns holds."""
        item = held.item
        is_said = item.key.startswith("entry:") and item.rank < CHATTER
        known = self._kinds.pop(item.key, None)
        if known is None:
            name = RANKS[item.rank]
            self.counts[name] = self.counts.get(name, 0) + 1
        else:
            del self._held[known][item.key]
        number = self._kinds[item.key] = (item.rank, is_said, item.place)
        kind = self._held.setdefault(number, {})
        kind[item.key] = held
        if len(kind) > NAMED_OF_A_KIND:
            oldest = kind.pop(next(iter(kind))).item
            del self._kinds[oldest.key]
            rest = self._rest.get(oldest.rank)
            if rest is None:
                self._rest[oldest.rank] = _Overflow(oldest.turn, oldest.turn, oldest.seq)
            else:
                rest.take(oldest)
        turns = [*self._numbers, item.turn]
        self._numbers = [min(turns), max(turns)]

    def records(self) -> list[EvictedRecord]:
        """What is recorded with the answer that was made without them."""
        named = [
            EvictedRecord(key=item.key, rank=item.rank, seq=item.seq, window=True)
            for item in self._named()
        ]
        for rank, rest in sorted(self._rest.items()):
            probe = EvictedRecord(key="", rank=rank)
            named += [
                EvictedRecord(key=key, rank=rank, seq=rest.seq, window=True)
                for key in lists([probe], [rest.first, rest.last]).values()
            ]
        return named

    def lines(self, budget: int, *, most: int | None = None) -> FittingLines:
        """The lines about them for the model, within a budget of tokens."""
        words = {
            held.item.key: held.words for kind in self._held.values() for held in kind.values()
        }
        records = [r for r in self.records() if r.key in words]
        header = f"They hold{counts_in(self.counts)}, {HOW}"
        lines = LeftLines(
            header,
            records,
            sum(self.counts.values()),
            lists(records, self._numbers),
            lambda record: words[record.key](),
        )
        return lines.within(budget, most=most)

    def quotes(self, keys: Iterable[str]) -> list[int]:
        """The seqs of the commits whose words are in the lines about these keys."""
        held = (self._held[self._kinds[key]][key] for key in keys)
        return sorted({each.quotes for each in held if each.quotes})

    def _named(self) -> list[LeftKey]:
        """The most useful first."""
        return [
            held.item for kind in sorted(self._held) for held in reversed(self._held[kind].values())
        ]
