"""Checks the law of reading: what a file gives does not depend on when and how often it is read."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from stator.importers.registry import load
from stator.model.exchange.items import Cursor, Noise, Skipped


def read(path, name, cursor=None, *, at_rest=False):
    """The items of a file from a cursor on, and the last cursor as it comes back from a store."""
    form = load(name)
    (found,) = form.conversations(Path(path))
    told = list(form.read(found, cursor, None, at_rest=at_rest))
    cursors = [item for item in told if isinstance(item, Cursor)]
    return [item for item in told if not isinstance(item, Cursor)], stored(cursors[-1])


def stored(cursor):
    """A cursor as a store gives it back."""
    return msgspec.structs.replace(cursor, state=json.loads(json.dumps(cursor.state)))


def recorded(items):
    """Items that are recorded, and not only counted."""
    return [item for item in items if not isinstance(item, (Noise, Skipped))]


def read_in_parts(data, places, path, name, rests=frozenset()):
    """Read a file that grows: at each place (a number of bytes) and at its end, going on at the cursor."""
    found, cursor = [], None
    for number, place in enumerate([*sorted(places), len(data)]):
        Path(path).write_bytes(data[:place])
        more, cursor = read(path, name, cursor, at_rest=number in rests)
        found += more
    return found, cursor


def line_ends(data):
    """The places after each line of a file."""
    ends, place = [], 0
    for line in data.splitlines(keepends=True):
        place += len(line)
        ends.append(place)
    return ends
