"""Lists the names of what the sessions used last hold, where nothing has exactly the name that was asked about."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice

from stator.model.log.query import SessionQuery, SessionRow
from stator.model.records.types import Entry, ErasedRecord, FileRecord
from stator.model.views.why import NAMED, best, key_of
from stator.runtime.base.pages import matching
from stator.runtime.views.reasons.lookup import Lookup

NAMED_IN = 60
"""Sessions whose names are compared: those used last."""
NAMES_MAX = 20_000
KINDS = {**NAMED, "file": "files"}


HeldName = tuple[str, str, str, Entry]
"""The session, the kind and the name of what it holds, and the entry itself."""


def recorded_names(
    reading: Lookup, kinds: Collection[str] = tuple(KINDS)
) -> Iterator[tuple[str, str]]:
    """(kind, name) of what the sessions used last hold; files by their paths."""
    for _, kind, name, _ in held_names(reading, kinds):
        yield kind, name


def held_names(reading: Lookup, kinds: Collection[str] = tuple(KINDS)) -> Iterator[HeldName]:
    """What the sessions used last hold, by name."""
    for row in islice(_rows(reading), NAMED_IN):
        if reading.row(row.id) is None:
            continue
        for kind in kinds:
            entries = reading.store.entries(row.id, KINDS[kind], limit=NAMES_MAX // NAMED_IN)
            for entry in entries:
                record = entry.record
                if isinstance(record, ErasedRecord):
                    continue
                name = record.path if isinstance(record, FileRecord) else key_of(record)
                if name:
                    yield row.id, kind, name, entry


def paths_ending(reading: Lookup, path: str) -> list[str]:
    """The recorded paths that end in a path: the same file in other checkouts; that of the session used last first."""
    names = list(dict.fromkeys(islice(recorded_names(reading, ("file",)), NAMES_MAX)))
    found = {name for _, names_, how in best(names, path) if how == "ends so" for name in names_}
    return [name for _, name in names if name in found]


def _rows(reading: Lookup) -> Iterator[SessionRow]:
    if reading.session is not None:
        yield reading.store.session(reading.session)
        return
    yield from matching(reading.store, SessionQuery(project=reading.project))
