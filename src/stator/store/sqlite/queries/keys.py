"""Turns by their keys, across a session's lineage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import apsw
import msgspec

from stator.model.log import turn_keys
from stator.model.log.turn_keys import SALT, KeyName
from stator.store.sqlite.connection import many
from stator.store.sqlite.projection import KEY_KIND, SQL, pack_ledger, write_key_names
from stator.store.sqlite.queries.commits import read_one, read_some
from stator.store.sqlite.queries.lineage import LogSegment, SessionPlace
from stator.store.sqlite.queries.places import load_place


def keyed_numbers(
    connection: apsw.Connection, place: SessionPlace, keys: Sequence[str]
) -> set[int]:
    """The numbers of the turns that were begun with one of these keys."""
    seqs = {seq for segment in place.segments for seq in _seqs(connection, place, segment, keys)}
    return {commit.turn for commit in read_some(connection, place, seqs, load=False)}


def _seqs(
    connection: apsw.Connection, place: SessionPlace, segment: LogSegment, keys: Sequence[str]
) -> set[int]:
    """The seqs of a segment's `turn` commits with one of these keys."""
    own = segment.s == place.s
    # In a lineage too: a key may have been erased after the fork, by a commit that the fork does not have.
    salts = [row[0] for row in many(connection, SQL["key_salts"], (segment.s, KEY_KIND, SALT))]
    if own:
        mine = msgspec.structs.replace(segment, keyed=place.ledger.keyed)
        loose = [*unindexed(connection, mine, place.flushed), *place.tail.key_names]
    else:
        loose = list(unindexed(connection, segment, segment.upto))
    salts += [name.name for name in loose if name.group == SALT]
    found: set[int] = set()
    for group, name in turn_keys.wanted_names(keys, salts):
        rows = many(connection, SQL["key_find"], (segment.s, KEY_KIND, group, name))
        found.update(seq for (seq,) in rows)
        found.update(each.seq for each in loose if (each.group, each.name) == (group, name))
    return {seq for seq in found if segment.after < seq <= segment.upto}


def unindexed(connection: apsw.Connection, segment: LogSegment, upto: int) -> Iterator[KeyName]:
    """The names of flushed turns that a release without this index wrote."""
    low = max(segment.keyed, segment.after)
    if low >= upto:
        return
    for (seq,) in many(connection, SQL["turn_firsts"], (segment.s, low, upto)):
        yield from turn_keys.names_of(read_one(connection, segment, seq))


def complete(connection: apsw.Connection, place: SessionPlace) -> None:
    """Index the keys of a session and its lineage that are not indexed yet. Inside the caller's transaction."""
    if place.ledger.keyed < place.flushed and place.flushed > place.low:
        own = msgspec.structs.replace(place.segments[-1], keyed=place.ledger.keyed)
        write_key_names(connection, place.s, unindexed(connection, own, place.flushed))
        place.ledger.keyed = place.flushed
        connection.execute(SQL["session_counts"], (pack_ledger(place.ledger), place.s))
    for segment in place.segments[:-1]:
        if segment.keyed < segment.upto:
            complete(connection, load_place(connection, segment.session))
