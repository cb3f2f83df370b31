"""Computes what an agent is still shown after compaction, and which keys left its view.

A compaction is three boundaries, each a seq. Entries at or before them are shown without long outputs,
without their calls, or only as a note. The unit is an answer together with its
results, so no call is ever without its result. Nothing is taken from the log or from the durable
state: what left the view is named by typed keys, each with the seq that holds it.

The latest compaction commit says all of it (its boundaries, the summary, the keys), so what a model is shown
is a function of the log alone. An undo is such a commit too: it says what is shown again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, Protocol

from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.records.tables import COMPACTIBLE, EVICTED, NOTED, recall_key
from stator.model.records.types import (
    Entry,
    EvictedRecord,
)
from stator.model.values.escape import visible
from stator.model.values.json_text import canonical, utf8

Level = Literal["outputs", "mask", "summarise"]
LEVELS: tuple[Level, ...] = ("outputs", "mask", "summarise")
"""From the mildest to the strongest."""
UNDONE = "undone"
"""Status of a compaction that takes another one back."""
RANKS = ("decision", "constraint", "number", "file", "chatter")
"""The meaning of each rank: what an agent misses most comes first."""
CHATTER = 4
DURABLE = tuple(name for name in EVICTED if name not in COMPACTIBLE)
"""Collections whose records are named when what was said around them leaves the view."""
KEYS_MAX = 200
"""Keys of one rank that are named one by one; more are named by their turns."""
GROUPS_MAX = 50
KEY_CHARS = 200
"""Characters of a key; a longer one ends in a digest."""
NAMED_MAX = 12
"""Keys the note names; the rest is counted."""
NOTED_CHARS = 80


# --- the view ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TranscriptView:
    """What of a transcript is shown."""

    outputs: int = 0
    """Results at or before it are shown without long outputs."""
    mask: int = 0
    """Answers at or before it are shown without their calls."""
    summarise: int = 0
    """Entries at or before it are not shown."""
    note: str = ""
    """The note that the model is shown instead."""
    by: int = 0
    """The commit that says so."""

    @property
    def cuts(self) -> tuple[int, int, int]:
        return self.outputs, self.mask, self.summarise


WHOLE = TranscriptView()


def view_of(commit: Commit) -> TranscriptView:
    """The view that a compaction commit defines. Boundaries are structure: they outlive an erasure of the
    summary. None may exceed its own commit, even in an imported log: later entries must be shown."""
    numbers = [number for number in commit.inputs if isinstance(number, int)]
    cuts = [min(max(number, 0), commit.seq) for number in numbers[-len(LEVELS) :]]
    if len(cuts) < len(LEVELS) or not any(cuts):
        return TranscriptView(by=commit.seq)
    said = commit.known("input", {})
    records = [
        op.record
        for op in commit.delta
        if isinstance(op, Put) and isinstance(op.record, EvictedRecord)
    ]
    plain = said if isinstance(said, dict) else {}
    return view(cuts, plain, records, by=commit.seq, erased=not plain)


def view(
    cuts: Sequence[int],
    said: Mapping[str, Any],
    records: Sequence[EvictedRecord],
    *,
    by: int = 0,
    erased: bool = False,
) -> TranscriptView:
    """The view of some boundaries, with the note that goes with it."""
    outputs, mask, summarise = cuts
    summary = said.get("summary") or ""
    note = _note((outputs, mask, summarise), said, records, "[erased]" if erased else str(summary))
    return TranscriptView(outputs, mask, summarise, note, by)


def standing(commits: Iterable[Commit]) -> TranscriptView:
    """What is seen at the end of a log."""
    last = None
    for commit in commits:
        if commit.kind == "compaction":
            last = commit
    return WHOLE if last is None else view_of(last)


# --- what was said -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Thing:
    """An entry of the transcript, as far as compaction looks at it."""

    kind: Literal["prompt", "user", "answer", "note"]
    seq: int
    turn: int
    last: int = 0
    """Of an answer: the seq of the last result known of it."""
    calls: tuple[tuple[str, int, bool], ...] = ()
    """Its calls: id, seq of the result, whether the output is long."""
    asks: bool = False
    """Whether it asks for anything."""


def reach(things: Sequence[Thing], keep: int) -> tuple[int, int] | None:
    """How far a compaction may go that keeps the latest `keep` answers: the seq of the last answer it may
    touch, and where that answer's results end.

    The latter is the request that led to the first kept answer, if that came later: what
    is shown must not begin with a request that was answered out of sight.
    """
    answers = [thing for thing in things if thing.kind == "answer"]
    if len(answers) <= keep:
        return None
    last, stays = answers[-1 - keep], answers[-keep]
    return last.seq, max(last.seq, last.last, _request(things, stays.seq))


def raised(view: TranscriptView, level: Level, to: tuple[int, int]) -> tuple[int, int, int]:
    """The boundaries once a level is applied; none ever goes back."""
    answer, upto = to
    outputs, mask, summarise = view.cuts
    if level == "outputs":
        return max(outputs, answer), mask, summarise
    if level == "mask":
        return max(outputs, answer), max(mask, answer), summarise
    return max(outputs, upto), max(mask, upto), max(summarise, upto)


# --- what left -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeftKey:
    """One thing that left the view."""

    key: str
    rank: int
    seq: int
    turn: int


def left(
    things: Iterable[Thing],
    before: Sequence[int],
    after: Sequence[int],
    entries: Iterable[Entry] = (),
) -> list[LeftKey]:
    """What is no longer seen as it was, between two sets of boundaries.

    `entries` are the durable records there are: one is named when the commit that put it left the view.
    """
    found: dict[str, LeftKey] = {}
    things = list(things)
    stood, stays = (_request(things, cuts[2]) for cuts in (before, after))
    for thing in things:
        was = 0 if thing.seq == stood else _level(thing, before)
        level = 0 if thing.seq == stays else _level(thing, after)
        for key, rank, seq in _left(thing, level) if level > was else ():
            found.setdefault(key, LeftKey(key, rank, seq, thing.turn))
    for entry in entries:
        if before[2] < entry.seq <= after[2] and (key := key_for(entry)):
            rank = EVICTED[entry.collection]
            found.setdefault(key, LeftKey(key, rank, entry.seq, entry.turn))
    return sorted(found.values(), key=order)


class Ranked(Protocol):
    """Anything with a key, a rank and a seq."""

    @property
    def key(self) -> str: ...
    @property
    def rank(self) -> int: ...
    @property
    def seq(self) -> int: ...


def order(item: Ranked) -> tuple[int, int, int, str]:
    """Sorts the most important first. Within a rank, named records come before entries, and those before
    ranges of turns: a preference must not drown in prompts."""
    prefix = item.key.partition(":")[0]
    is_said = prefix == "entry" and item.rank < CHATTER
    return item.rank, is_said + 2 * (prefix in GROUPS), -item.seq, item.key


def _request(things: Iterable[Thing], boundary: int) -> int:
    """The seq of the prompt that is shown although it is before a boundary; 0 if no prompt is."""
    return max((t.seq for t in things if t.kind == "prompt" and t.seq <= boundary), default=0)


def _left(thing: Thing, level: int) -> Iterator[tuple[str, int, int]]:
    is_user = thing.kind in ("prompt", "user")
    if level > 1 and thing.kind != "note":  # of a note, its call is named
        yield f"entry:@{thing.seq}", 1 if is_user else CHATTER, thing.seq
    for call, seq, is_long in thing.calls:
        if is_long or level > 1:
            yield f"call:{call}", CHATTER, seq


def _level(thing: Thing, cuts: Sequence[int]) -> int:
    """How far a thing is from being seen whole: 0 whole, 1 without outputs, 2 without calls, 3 not at all."""
    outputs, mask, summarise = cuts
    if thing.seq <= summarise:
        return 3
    if thing.kind in ("prompt", "user"):
        return 0
    if thing.seq <= mask and thing.asks:
        return 2
    return 1 if thing.seq <= outputs else 0


def key_for(entry: Entry) -> str:
    """The key a record is evicted and recalled by; "" if it has none (it was erased)."""
    return bounded(recall_key(entry.collection, entry.record, entry.id))


def bounded(key: str) -> str:
    """A key of bounded length, still one of its own."""
    key = utf8(key)
    if len(key) <= KEY_CHARS:
        return key
    return f"{key[: KEY_CHARS - 18]}…#{sha256(key.encode()).hexdigest()[:16]}"


def grouped(items: Sequence[LeftKey]) -> list[EvictedRecord]:
    """The records of an eviction: one for each key, and beyond some hundreds of a rank one for
    each stretch of turns, so that one commit stays bounded."""
    records: list[EvictedRecord] = []
    for rank in range(len(RANKS)):
        mine = [item for item in items if item.rank == rank]
        named, rest = mine[:KEYS_MAX], mine[KEYS_MAX:]
        records += [EvictedRecord(key=item.key, rank=rank, seq=item.seq) for item in named]
        records += _stretches(rest, rank)
    return records


def _stretches(items: Sequence[LeftKey], rank: int) -> Iterator[EvictedRecord]:
    if not items:
        return
    turns = sorted({item.turn for item in items})
    width = -(-len(turns) // GROUPS_MAX)
    noun = GROUPS[rank]
    for at in range(0, len(turns), width):
        first, last = turns[at], turns[min(at + width, len(turns)) - 1]
        span = f"t{first}" if first == last else f"t{first}..t{last}"
        seq = max(item.seq for item in items if first <= item.turn <= last)
        yield EvictedRecord(key=f"{noun}:{span}", rank=rank, seq=seq)


GROUPS = ("decisions", "constraints", "facts", "files", "entries")
"""What a stretch of many keys of a rank is called."""


def counted(items: Iterable[LeftKey]) -> dict[str, int]:
    """How many of each rank, by its name."""
    counts: dict[str, int] = {}
    for item in items:
        name = RANKS[item.rank]
        counts[name] = counts.get(name, 0) + 1
    return counts


# --- what the model is told ----------------------------------------------------------------------


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}".capitalize()


_KEPT = _listed([noted.words for noted in NOTED.values() if noted.words])
"""What a compaction leaves as it is, in words."""


def _note(
    cuts: tuple[int, int, int],
    said: Mapping[str, Any],
    records: Sequence[EvictedRecord],
    summary: str,
) -> str:
    """The note in the place of what is not shown. Recorded text in it cannot end it: keys are JSON with
    every character visible, and every line of a summary is marked."""
    outputs, mask, summarise = cuts
    lines = ["[note, not from the user: this session was compacted, parts of it are not shown]"]
    if summarise:
        lines.append(f"Up to @{summarise}: only the request of the turn it falls into is shown.")
    if mask > summarise:
        lines.append(f"Up to @{mask}: answers are shown without their calls.")
    if outputs > mask:
        lines.append(f"Up to @{outputs}: results are shown without long outputs.")
    kept = _counts(said.get("kept"), tuple(NOTED))
    words = f" ({kept})" if kept else ""
    lines.append(f"{_KEPT} are kept in the session's state, word for word{words}.")
    lines += _left_lines(said, records)
    if summary:
        lines.append("A summary of what is not shown, unverified, each line marked with >:")
        lines += [f"> {line}" for line in utf8(summary).splitlines()]
    return "\n".join([*lines, "[end of note]"])


def _left_lines(said: Mapping[str, Any], records: Sequence[EvictedRecord]) -> list[str]:
    if not records:
        return []
    ranked = sorted(records, key=order)
    named = [record for record in ranked if record.rank < CHATTER][:NAMED_MAX]
    counts = _counts(said.get("left"), RANKS)
    lines = [f"What left this view{f' ({counts})' if counts else ''}, what matters most first:"]
    lines += [f"  {visible(canonical(_noted(record.key)))} @{record.seq}" for record in named]
    if len(ranked) > len(named):
        lines.append(f"  {'and ' if named else ''}{len(ranked) - len(named)} more keys")
    lines.append(
        "All of it can be recalled by its key; a call by call:ID, what was said by entry:@SEQ."
    )
    return lines


def _noted(key: str) -> str:
    return key if len(key) <= NOTED_CHARS else key[:NOTED_CHARS] + "…"


def _counts(counts: Any, names: Sequence[str]) -> str:
    known = counts if isinstance(counts, dict) else {}
    found = [(name, known.get(name)) for name in names]
    return ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in found if type(n) is int and n)
