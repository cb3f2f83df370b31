"""Reads a session as a film strip: the frames around a position, and what the model could see there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, TypeVar

import msgspec

from stator.model.log.delta import Put, Version, first_ops
from stator.model.log.query import Head, Read, SessionRow, TurnRow, read
from stator.model.records.types import (
    Entry,
    EvictedRecord,
    PlanRecord,
    Record,
    SpendRecord,
)
from stator.model.views.film_strip import (
    COLLECTIONS,
    FRAMES_MAX,
    FilmStrip,
    Frame,
    film_strip,
    frames_of,
)
from stator.model.window.compaction import WHOLE, TranscriptView, view_of
from stator.runtime.base.one_answer import ahead
from stator.runtime.views.as_read import for_one_answer, read_ahead
from stator.runtime.views.reflog import turn_at
from stator.runtime.views.refs import Point, locate
from stator.runtime.window.transcript import latest, told_in
from stator.store.port import StorePort

COMMITS_MAX = 2500
"""Commits of which frames are drawn; turns with more are left out at both ends."""
STRIPS_KEPT = 32
SAMPLES = 40
"""Points of the curve over the whole session."""
LISTED_MAX = 12
LIMITS = {"plan": 100, "decisions": LISTED_MAX + 1}
"""Live records of which a page shows the newest: a long session has any number of them."""
NEVER = -2
"""No seq that a head can have."""


class SpentByTurn(msgspec.Struct, frozen=True):
    """What was spent by the end of a turn, for the curve over the whole session."""

    turn: int
    spent: dict[str, int]


class OutOfView(msgspec.Struct, frozen=True, kw_only=True):
    """A key that had left the model's view."""

    record: EvictedRecord
    words: str
    """What it stands for; empty if the key says enough."""


class StripPage(msgspec.Struct, frozen=True, kw_only=True):
    """The strip around a position, and the state there."""

    row: SessionRow
    turns: int
    strip: FilmStrip
    current: int
    """The frame of the position."""
    asked: TurnRow
    """The turn of the position, with its prompt."""
    plan: list[PlanRecord]
    decisions: list[Entry]
    """The newest first."""
    more_decisions: bool
    """Whether there are older ones."""
    out_of_view: list[OutOfView]
    """What the model missed most, first."""
    left: int
    """How many keys were out of the model's view."""
    hidden_before: int
    """Turns up to this one were only shown as a note."""
    view: TranscriptView
    samples: list[SpentByTurn]
    """Of the whole session, where the frames are not all of it."""


Kept = TypeVar("Kept")


class KeptStrips:
    """Strips that were made last: moving along one reads only the state at the new position.

    Each is kept under the heads of its session and of all that its session continues. An erasure moves one of them,
    so nothing is drawn that was erased since.
    """

    def __init__(self) -> None:
        self._strips: dict[tuple[Any, ...], FilmStrip] = {}
        self._samples: dict[tuple[Any, ...], list[SpentByTurn]] = {}
        """The curve over a whole session is the same at every position."""
        self._lock = Lock()

    def get(self, heads: Mapping[str, int], frames: Sequence[Frame]) -> FilmStrip | None:
        return self._strips.get(_kept_as(heads, frames))

    def put(self, heads: Mapping[str, int], strip: FilmStrip) -> None:
        self._put(self._strips, _kept_as(heads, strip.frames), strip)

    def has_samples(self, heads: Mapping[str, int]) -> bool:
        return (*sorted(heads.items()),) in self._samples

    def samples(
        self, heads: Mapping[str, int], read_samples: Callable[[], list[SpentByTurn]]
    ) -> list[SpentByTurn]:
        """The curve over the whole session, which is read if it is not kept."""
        slot = (*sorted(heads.items()),)
        if (found := self._samples.get(slot)) is None:
            found = read_samples()
            self._put(self._samples, slot, found)
        return found

    def _put(self, kept: dict[tuple[Any, ...], Kept], slot: tuple[Any, ...], made: Kept) -> None:
        with self._lock:
            kept[slot] = made
            while len(kept) > STRIPS_KEPT:
                del kept[next(iter(kept))]


def _kept_as(heads: Mapping[str, int], frames: Sequence[Frame]) -> tuple[Any, ...]:
    return (*sorted(heads.items()), frames[0].first, frames[-1].last)


def read_strip(
    store: StorePort, session: str, position: str, kept: KeptStrips, *, also: Sequence[Read] = ()
) -> StripPage | None:
    """The strip around a position; None if the session has no turn yet. `also`: what its caller is going to ask."""
    store = for_one_answer(store)
    point = locate(store, session, position)
    ahead(
        store,
        read("head", point.session),
        read("session", point.session),
        *[read("commits", point.session, seqs=(point.seq,), load=False)][: point.seq],
    )
    head = store.head(point.session)
    turns, end = _turns_around(store, point, head)
    if not turns:
        return None
    frames = frames_of(turns, head=end)
    current = next((n for n, f in enumerate(frames) if f.last >= point.seq), len(frames) - 1)
    row = store.session(point.session)
    heads = store.heads(
        {name: NEVER for name in (row.id, *(s.session for s in row.record.lineage))}
    )
    strip = kept.get(heads, frames)
    sampled = head.turn > len(turns)
    turn = frames[current].turn
    read_ahead(
        store,
        point.session,
        "plan",
        "decisions",
        "evicted",
        at=point.seq,
        limit=LIMITS,
        also=[
            read("turns", point.session, after=turn - 1, upto=turn, prompts=True),
            *(() if strip else _stretch(point.session, frames)),
            *(
                _sample_turns(point.session, head)
                if sampled and not kept.has_samples(heads)
                else ()
            ),
            *also,
        ],
    )
    if strip is None:
        before, versions = (
            getattr(store, one.method)(*one.args, **one.options)
            for one in _stretch(point.session, frames)
        )
        spent = (entry.record for entry in before)
        used = _tools_before(store, point.session, versions, frames[0].first)
        strip = film_strip(frames, [*spent, *used], versions)
        kept.put(heads, strip)
    found = latest(store, point.session, at=point.seq)
    view = WHOLE if found is None else view_of(found)
    gone = [
        entry.record
        for entry in store.entries(point.session, "evicted", at=point.seq)
        if isinstance(entry.record, EvictedRecord)
    ]
    made = store.entries(point.session, "decisions", at=point.seq, limit=LIMITS)
    return StripPage(
        row=row,
        turns=head.turn,
        strip=strip,
        current=current,
        asked=store.turns(point.session, after=turn - 1, upto=turn, prompts=True)[0],
        plan=_plan(store.entries(point.session, "plan", at=point.seq, limit=LIMITS)),
        decisions=made[:LISTED_MAX],
        more_decisions=len(made) > LISTED_MAX,
        out_of_view=_out_of_view(store, point.session, gone),
        left=len(gone),
        hidden_before=_turn_before(turns, view.summarise),
        view=view,
        samples=kept.samples(heads, lambda: _samples(store, point.session, head))
        if sampled
        else [],
    )


def _stretch(session: str, frames: Sequence[Frame]) -> tuple[Read, Read]:
    """What is read to draw frames: what was spent before them, and what changed in them."""
    before = frames[0].first - 1
    return (
        read("entries", session, "spend", at=before),
        read("versions", session, after=before, upto=frames[-1].last, collections=COLLECTIONS),
    )


def _tools_before(
    store: StorePort, session: str, versions: Sequence[Version], first: int
) -> list[Record]:
    """The tools that were used in some frames as they were before the first of them. Of each one commit is read: all
    tools at a seq can take hundreds, because a store keeps their state only now and then."""
    tools = (version.op for version in versions if version.op.collection == "tools")
    replaced = [op for op in first_ops(tools) if 0 < op.was < first]
    found = store.replaced(session, replaced) if replaced else []
    return [one.op.record for one in found if one is not None and isinstance(one.op, Put)]


def _turns_around(store: StorePort, point: Point, head: Head) -> tuple[list[TurnRow], int]:
    """The turns of which frames are drawn, bounded in turns and in commits, around the position; and the last commit
    of the last of them: what follows a turn until the next one belongs to it."""
    turn = max(1, min(turn_at(store, point.session, point.seq), head.turn))
    # In steps of half a strip, so that neighbouring positions share one.
    half = FRAMES_MAX // 2
    after = max(0, min((turn - half // 2) // half * half, head.turn - FRAMES_MAX))
    upto = after + FRAMES_MAX + 1
    rows = store.turns(point.session, after=after, upto=upto, limit=FRAMES_MAX + 1)
    end, rows = _cut(rows, FRAMES_MAX, head.seq)
    while len(rows) > 1 and rows[-1].last - rows[0].first > COMMITS_MAX:
        if turn - rows[0].turn >= rows[-1].turn - turn:
            rows = rows[1:]
        else:
            end, rows = _cut(rows, len(rows) - 1, end)
    return rows, end


def _cut(rows: list[TurnRow], most: int, end: int) -> tuple[int, list[TurnRow]]:
    """Some turns, up to a limit, and where the last of them ends; `end` is where all of them do."""
    return (rows[most].first - 1 if len(rows) > most else end), rows[:most]


def _turn_before(turns: list[TurnRow], seq: int) -> int:
    """The last turn that lies wholly at or before a commit; 0 if none of those shown does."""
    return max((row.turn for row in turns if row.last <= seq), default=0)


def _out_of_view(store: StorePort, session: str, gone: Sequence[EvictedRecord]) -> list[OutOfView]:
    """The keys that matter most, in words."""
    listed = sorted(gone, key=lambda record: (record.rank, -record.seq))[:LISTED_MAX]
    if not listed:
        return []
    store.commits(session, seqs={record.seq for record in listed})  # read once, for all words
    told = told_in(store, session)
    return [OutOfView(record=record, words=told(record)) for record in listed]


def _plan(entries: list[Entry]) -> list[PlanRecord]:
    steps = [entry.record for entry in entries if isinstance(entry.record, PlanRecord)]
    return sorted(steps, key=lambda step: step.order)


def _sample_turns(session: str, head: Head) -> list[Read]:
    """What finds turns at equal distances over the whole session."""
    numbers = sorted({max(1, head.turn * n // SAMPLES) for n in range(1, SAMPLES + 1)})
    return [read("turns", session, after=number - 1, upto=number) for number in numbers]


def _samples(store: StorePort, session: str, head: Head) -> list[SpentByTurn]:
    """What was spent by turns at equal distances over the whole session."""
    reads = _sample_turns(session, head)
    ahead(store, *reads)
    rows = [store.turns(*one.args, **one.options) for one in reads]
    at = [(found[0].turn, found[0].last) for found in rows if found]
    states = store.together(*(read("entries", session, "spend", at=seq) for _, seq in at))
    return [
        SpentByTurn(
            turn,
            {e.record.unit: e.record.amount for e in state if isinstance(e.record, SpendRecord)},
        )
        for (turn, _), state in zip(at, states, strict=True)
    ]
