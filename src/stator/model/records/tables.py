"""Tables derived from the registry: sets of kinds, collections by name, and how a record is keyed and described."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from stator.model.records.registry import ROWS, SPEND
from stator.model.records.row_types import Briefed, Collection, CommitKind, Hot, NotedAs, Reported
from stator.model.records.text import Piece, Show
from stator.model.records.types import (
    KEYLESS,
    DecisionRecord,
    ErasedRecord,
    FileRecord,
    ReadStep,
    Record,
    State,
    file_key,
)


def _kinds(has: Callable[[CommitKind], bool]) -> frozenset[str]:
    return frozenset(row.name for row in ROWS if has(row))


KINDS = _kinds(lambda row: True)
CONTRIBUTIONS = _kinds(lambda row: row.contributed)
AFTER_THE_END = _kinds(lambda row: row.after_the_end)
ONCE = _kinds(lambda row: row.once)
COMPARED = _kinds(lambda row: row.compared)
SPOKEN = _kinds(lambda row: row.spoken)
TRANSCRIPT = _kinds(lambda row: row.expires)
SHOWN = _kinds(lambda row: row.shown)
DERIVED = _kinds(lambda row: row.derived)
OPERANDS: dict[str, str] = {row.name: row.operands for row in ROWS if row.operands}
LEARNED = _kinds(lambda row: row.learned)
NEWS = _kinds(lambda row: row.news)
BARRIERS = _kinds(lambda row: row.barrier)
REMOVALS = _kinds(lambda row: row.removes)
KEEPING = _kinds(lambda row: row.keeping)
OUTSIDE = _kinds(lambda row: row.outside)
SILENT = _kinds(lambda row: row.silent)
QUIET = _kinds(lambda row: row.quiet)
TIERS: dict[str, str] = {row.name: row.tier for row in ROWS if row.tier}
REPORTED: dict[str, Reported] = {
    row.name: row.reported
    for row in sorted(ROWS, key=lambda row: row.spoken)
    if row.reported is not None
}
"""What an agent may report: what it knows and made first, then what it did."""
COLLECTIONS: dict[str, Collection] = {
    one.name: one
    for one in sorted(
        (SPEND, *(row.collection for row in ROWS if row.collection is not None)),
        key=lambda one: one.number,
    )
}
NUMBERED: dict[int, Collection] = {one.number: one for one in COLLECTIONS.values()}
_TYPES: dict[type[Record], Collection] = {
    **{one.type: one for one in COLLECTIONS.values()},
    ReadStep: COLLECTIONS["plan"],
}


def _collections(has: Callable[[Collection], bool]) -> frozenset[str]:
    return frozenset(name for name, one in COLLECTIONS.items() if has(one))


def _placed(place: Callable[[Collection], int]) -> tuple[str, ...]:
    """The collections that have a place, in its order."""
    placed = [(place(one), name) for name, one in COLLECTIONS.items() if place(one)]
    return tuple(name for _, name in sorted(placed))


BOOKKEEPING = _collections(lambda one: one.bookkeeping)
TALLIED = _collections(lambda one: one.tallied)
STRUCTURE = _collections(lambda one: one.structural)
KEPT_IN_REWIND = _collections(lambda one: not one.rewound)
COMPACTIBLE = _collections(lambda one: one.compactible)
NOT_DIFFED = _collections(lambda one: not one.diffed)
DROPPED_BY_FORK = _placed(lambda one: one.dropped_by_fork)
LISTED = _placed(lambda one: one.listed)
HOT: dict[str, Hot] = {
    name: hot
    for name in _placed(lambda one: one.hot.place if one.hot else 0)
    if (hot := COLLECTIONS[name].hot)
}
NOTED: dict[str, NotedAs] = {
    name: noted
    for name in _placed(lambda one: one.noted.place if one.noted else 0)
    if (noted := COLLECTIONS[name].noted)
}
BRIEFED: dict[str, Briefed] = {name: one.brief for name, one in COLLECTIONS.items() if one.brief}
RECALLED: dict[str, str] = {
    one.recall.prefix: name for name, one in COLLECTIONS.items() if one.recall
}
"""The prefix of a key → the collection that its record is in."""
EVICTED: dict[str, int] = {
    name: rank
    for rank, _, name in sorted(
        (one.recall.rank, one.number, name)
        for name, one in COLLECTIONS.items()
        if one.recall and one.recall.rank is not None
    )
}
"""Collections whose records leave the view when what was said around them does, with their rank: what
an agent misses most comes first."""


def key_of(collection: Collection, record: Record, record_id: str) -> str:
    """The natural key by which a record is found again; without one, or erased, it is known by its id."""
    if isinstance(record, DecisionRecord):
        return record.topic or KEYLESS + record_id
    if isinstance(record, FileRecord):
        return file_key(record.root, record.path)
    if isinstance(record, ErasedRecord):
        return KEYLESS + record_id
    return "\n".join([str(getattr(record, name)) for name in collection.key])


def collection_named(word: str) -> str:
    """The collection that a key begins with: its name, or that of one of its records, as briefs and recall write it."""
    prefixes = {row.recall.prefix: name for name, row in COLLECTIONS.items() if row.recall}
    return word if word in COLLECTIONS else prefixes.get(word, word)


def recall_key(collection: str, record: Record, record_id: str) -> str:
    """The key a record is evicted and recalled by; "" if it has none (it was erased)."""
    recall = COLLECTIONS[collection].recall
    if recall is None or isinstance(record, ErasedRecord):
        return ""
    name = recall.name(record, record_id)
    return f"{recall.prefix}:{name}" if name else ""


def recall_note(collection: str, record: Record) -> Any:
    """What the key of a record does not say of it."""
    recall = COLLECTIONS[collection].recall
    return "" if recall is None else recall.about(record)


def record_text(record: Record) -> str:
    """What a record says, or that it was erased."""
    if isinstance(record, ErasedRecord):
        return f"(erased by @{record.erased})"
    known = _TYPES.get(type(record))
    if known is None or known.text is None:
        return type(record).__name__.removesuffix("Record")
    return known.text(record)


def record_pieces(record: Record, show: Show) -> list[Piece] | None:
    """A record in one line on a screen; None of what is not a record of a collection."""
    known = _TYPES.get(type(record))
    if known is None:
        return None
    return [(record_text(record), "")] if known.line is None else known.line(record, show)


def record_words(record: Record) -> Iterable[str]:
    """The texts a search finds a record by."""
    known = _TYPES.get(type(record))
    return () if known is None else known.search(record)


def empty() -> State:
    return {name: {} for name in COLLECTIONS}
