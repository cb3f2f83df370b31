"""Lists the rewinds of a session, and which part of its log still counts.

Each rewind leaves a tag on the head it went back from, in the same transaction and just before its
own commit; the tags are how rewinds are found again without reading the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stator.model.calls.program import Spans, spans_of, stretches
from stator.model.log.commit import Commit
from stator.model.log.query import TurnRow
from stator.model.log.rewinds import (
    Rewind,
    Stretch,
    rewind_of,
    rewind_tags,
    stands,
    visible,
)
from stator.model.records.tables import LEARNED
from stator.runtime.base.pages import commits_at, named_commits
from stator.store.port import StorePort

PAGE = 1000


class Reflog(msgspec.Struct, frozen=True, kw_only=True):
    """One rewind, as the reflog lists it."""

    tag: str
    """Names the head it went back from."""
    seq: int
    at: int
    by: str
    start: int
    end: int
    turns: list[int]
    """Turns that were in force before it and not after it."""


def rewinds(store: StorePort, session: str, at: int | None = None) -> list[Rewind]:
    """The rewinds of a session and its lineage, in the order of its log; those up to a seq."""
    commits = named_commits(store, session, rewinds=True, upto=at, load=False)
    return [rewind for commit in commits if (rewind := rewind_of(commit)) is not None]


def _tagged(store: StorePort, session: str) -> list[tuple[str, Rewind, Commit]]:
    tags = rewind_tags(store.entries(session, "tags"))
    names = {seq + 1: tag.name for seq, tag in tags}
    return [
        (names[commit.seq], rewind, commit)
        for commit in commits_at(store, session, names, load=False)
        if (rewind := rewind_of(commit)) is not None
    ]


def reflog(store: StorePort, session: str) -> list[Reflog]:
    """The rewinds of a session, newest first."""
    tagged = _tagged(store, session)
    known = [rewind for _, rewind, _ in tagged]
    return [
        Reflog(
            tag=tag,
            seq=rewind.seq,
            at=commit.when,
            by=str(commit.known("principal", "")),
            start=rewind.left,
            end=rewind.to,
            turns=undone(store, session, known, rewind.left, rewind.to),
        )
        for tag, rewind, commit in reversed(tagged)
    ]


def undone(store: StorePort, session: str, known: list[Rewind], left: int, to: int) -> list[int]:
    """Turns that count at one seq and not at another."""
    gone = _outside(visible(known, left), visible(known, to))
    ends = {seq for stretch in gone for seq in stretch if seq}
    turns = {commit.seq: commit.turn for commit in commits_at(store, session, ends, load=False)}
    # Numbers of turns grow along a log without a gap, so that none of them has to be read.
    return [
        turn
        for after, upto in gone
        for turn in range(turns.get(after, 0) + 1, turns.get(upto, 0) + 1)
    ]


def _outside(stretches: Sequence[Stretch], others: Sequence[Stretch]) -> list[Stretch]:
    """The parts of some stretches that are in none of the others; both in order."""
    found: list[Stretch] = []
    for after, upto in stretches:
        for low, high in others:
            if low < upto and after < high:
                if after < low:
                    found.append((after, low))
                after = high
        if after < upto:
            found.append((after, upto))
    return found


def turn_at(store: StorePort, session: str, seq: int) -> int:
    """The turn a commit belongs to."""
    found = store.commits(session, after=seq - 1, upto=seq, limit=1, load=False) if seq else []
    return found[0].turn if found else 0


def standing_turn(
    store: StorePort, session: str, seq: int, in_force: list[Stretch]
) -> TurnRow | None:
    """The last turn that began at or before a seq and was not rewound."""
    for after, upto in reversed(in_force):
        turn = turn_at(store, session, min(upto, seq)) if after < seq else 0
        rows = store.turns(session, after=turn - 1, upto=turn) if turn else []
        if rows and rows[0].first > after:  # else it began in an earlier stretch, or was left
            return rows[0]
    return None


def shown(
    store: StorePort, session: str, after: int, upto: int, in_force: list[Stretch]
) -> Iterator[Commit]:
    """Commits of a range that are in force, and later commits about their calls."""
    while after < upto:
        page = store.commits(session, after=after, upto=upto, limit=PAGE)
        yield from (c for c in page if c.kind in LEARNED or stands(in_force, c.seq))
        after = page[-1].seq


def left_turns(store: StorePort, session: str) -> set[int]:
    """Turns that were rewound."""
    known = rewinds(store, session)
    if not known:
        return set()
    in_force = visible(known, store.head(session).seq)
    found: set[int] = set()
    low = turn_at(store, session, min(rewind.to for rewind in known))
    while page := store.turns(session, after=low):
        found |= {row.turn for row in page if not stands(in_force, row.first)}
        low = page[-1].turn
    return found


def standing_turns(store: StorePort, session: str, most: int) -> list[TurnRow]:
    """The last turns that were not rewound, newest first, with where they end."""
    return store.turns(session, newest_first=True, limit=most, ends=True, standing=True)


def standing_program(store: StorePort, session: str, spans: Spans) -> Spans:
    """The turns of a program, up to the first that was rewound, whole or in part."""
    known = rewinds(store, session)
    if not known or not spans:
        return spans
    in_force = visible(known, store.head(session).seq)
    kept: list[tuple[int, int, int]] = []
    for first, last, place in stretches(spans):
        low = first - 1
        while low < last and (page := store.turns(session, after=low, upto=last)):
            for row in page:
                if not stands_whole(store, session, row, in_force):
                    return spans_of(kept + [(first, row.turn - 1, place)][: row.turn > first])
            low = page[-1].turn
        kept.append((first, last, place))
    return spans_of(kept)


def stands_whole(store: StorePort, session: str, row: TurnRow, in_force: list[Stretch]) -> bool:
    """Whether no part of a turn was rewound."""
    upto = next((upto for after, upto in in_force if after < row.first <= upto), 0)
    if upto >= row.last or not upto:
        return bool(upto)
    while upto > row.first:  # cut somewhere after its end, or in the middle of it
        page = store.commits(
            session, after=row.first, upto=upto, newest_first=True, limit=PAGE, load=False
        )
        if any(commit.kind == "turn_end" for commit in page):
            return True
        upto = page[-1].seq - 1 if page else 0
    return False
