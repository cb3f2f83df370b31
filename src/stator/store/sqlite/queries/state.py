"""Reads live records and their versions, at the head or at any earlier seq."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

import apsw
import msgspec

from stator.model.log import query
from stator.model.log.delta import (
    Drop,
    Op,
    Put,
    decode_record,
)
from stator.model.log.delta import Version as LogVersion
from stator.model.records.tables import COLLECTIONS, key_of
from stator.model.records.types import KEYLESS, Entry, is_under
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.projection import (
    READ_FROM_LOG,
    SQL,
    Ledger,
    snapshot_before,
)
from stator.store.sqlite.queries.commits import (
    RecordReader,
    encode_array,
    entry_of,
    read_one,
)
from stator.store.sqlite.queries.lineage import MAX_SEQ, LogSegment, SessionPlace
from stator.store.sqlite.queries.places import dropped_key, key_put_with, put_in_log
from stator.store.sqlite.queries.tails import read_range
from stator.store.sqlite.versions import (
    CALLS,
    TOOLS,
    Version,
    from_sql,
    key_hash,
    pack_id,
    unpack_id,
)

SHORT_RANGE = 64
"""Commits up to which the versions of a range are read from the log itself."""
RUN = 256
"""Pointers of a snapshot whose rows are fetched together."""
ROWS_A_LOOKUP = 2
"""Rows that are read one after the other in the time that one is looked up (measured)."""
N_BITS = 20
"""Of a row's place as one number: the bits of its n."""


def check_collection(collection: str) -> int:
    """The number of a collection, or `BadQuery`."""
    query.check_collection(collection)
    return COLLECTIONS[collection].number


def read_chosen(
    connection: apsw.Connection,
    place: SessionPlace,
    limits: Mapping[str, int | None],
    at: int | None,
    keys: Collection[str] | None,
    prefix: str,
) -> list[Entry]:
    """Live records of some collections at a seq: all, those under some keys, those whose natural key begins so."""
    found: list[Entry] = []
    for collection, limit in limits.items():
        if keys is None:
            found += read_entries(connection, place, collection, at, limit, prefix)
        else:
            some = find_entries(connection, place, collection, keys, at)
            under = [entry for entry in some if is_under(entry.key, entry.id, prefix)]
            found += under[:limit]
    return found


def read_entries(
    connection: apsw.Connection,
    place: SessionPlace,
    collection: str,
    at: int | None,
    limit: int | None,
    prefix: str = "",
) -> list[Entry]:
    """Live records at a seq, last touched first; with a prefix, those whose natural key begins so."""
    number = check_collection(collection)
    if number in (CALLS, TOOLS) and limit is not None:
        return read_entries(connection, place, collection, at, None, prefix)[:limit]
    standing = _LiveRecords(connection, collection, limit, prefix)
    is_enough = _offer_all(connection, place, number, at, standing)
    if number in (CALLS, TOOLS) and not is_enough:  # what a flush left no row of came out of turn
        standing.found.sort(key=lambda entry: entry.seq, reverse=True)
    return standing.found


def exact_ledger(connection: apsw.Connection, place: SessionPlace) -> Ledger:
    """The ledger of what is flushed. That of a fork from before 0.6 is corrected, until the next flush keeps it."""
    ledger = place.ledger
    if ledger.exact or not place.low:
        return ledger
    live = ledger.live
    if ledger.commits:
        now, then = (live_at(connection, place, seq) for seq in (place.flushed, place.low))
        live = {number: now[number] - then[number] for number in now}
    return msgspec.structs.replace(ledger, live=live, exact=True)


def live_at(connection: apsw.Connection, place: SessionPlace, at: int) -> dict[int, int]:
    """How many records of each collection are live at a seq."""
    found: dict[int, int] = {}
    for collection in COLLECTIONS.values():
        standing = _LiveIds()
        _offer_all(connection, place, collection.number, at, standing)
        found[collection.number] = standing.count
    return found


def _offer_all(
    connection: apsw.Connection,
    place: SessionPlace,
    number: int,
    at: int | None,
    standing: _LiveSieve,
) -> bool:
    """Offer every version of a collection up to a seq, newest first, until that is enough."""
    upto = MAX_SEQ if at is None else at
    own = place.segments[-1]
    if standing.offer(own, map(_brief, reversed(place.tail.versions(number, place.flushed, upto)))):
        return True
    for segment in reversed(place.upto(at)):
        between = map(_brief, _between_flushes(connection, place, segment, number))
        if standing.offer(segment, between):
            return True
        if place.has_rows(segment, number) and _offer_segment(
            connection, segment, number, standing
        ):
            return True
    return False


Brief = tuple[int, int, int, int, bytes | str, bytes | None]
"""(seq, n, op, turn, id, body): what of a version, or of a row, its record is read from."""


def _brief(version: Version) -> Brief:
    seq, n, op, _, turn, identifier, _, body = version
    return seq, n, op, turn, identifier, body


class _LiveSieve(Protocol):
    """Picks what is live from the versions of a collection that are offered, newest first."""

    limit: int | None

    def offer(self, segment: LogSegment, versions: Iterable[Brief]) -> bool:
        """Take what is the newest of its record; whether there are enough now."""
        ...


class _LiveIds:
    """How many records of a collection are live, without reading them."""

    limit: int | None = None

    def __init__(self) -> None:
        self.count = 0
        self._seen: set[str] = set()

    def offer(self, segment: LogSegment, versions: Iterable[Brief]) -> bool:
        seen = self._seen
        for _, _, op, _, packed, _ in versions:
            identifier = unpack_id(packed)
            if identifier not in seen:
                seen.add(identifier)
                self.count += op
        return False


class _LiveRecords:
    """Live records of a collection, found among versions that are offered newest first."""

    def __init__(
        self, connection: apsw.Connection, collection: str, limit: int | None, prefix: str
    ) -> None:
        self.collection = COLLECTIONS[collection]
        self.limit = limit
        self.prefix = prefix
        self.found: list[Entry] = []
        self._seen: set[bytes | str] = set()
        """The ids that were offered, as they are written and as rows pack them."""
        self._records = RecordReader(connection)

    def offer(self, segment: LogSegment, versions: Iterable[Brief]) -> bool:
        seen, found, spec, limit = self._seen, self.found, self.collection, self.limit
        records = self._records
        name, prefix = spec.name, self.prefix
        for seq, n, op, turn, packed, body in versions:
            if packed in seen:  # most rows are older versions
                continue
            seen.add(packed)
            identifier = unpack_id(packed)
            if packed is not identifier:
                if identifier in seen:
                    continue
                seen.add(identifier)
            if op:
                record = (
                    decode_record(name, body)
                    if body is not None
                    else records.record(segment, seq, n)
                )
                key = key_of(spec, record, identifier)
                if not prefix or is_under(key, identifier, prefix):
                    found.append(Entry(name, identifier, key, seq, turn, record))
                if len(found) == limit:
                    return True
        return False


def _between_flushes(
    connection: apsw.Connection, place: SessionPlace, segment: LogSegment, number: int
) -> list[Version]:
    """Versions a flush left no row of that count at the end of a segment, newest first."""
    if number not in (CALLS, TOOLS) or (segment.s == place.s and segment.upto >= place.flushed):
        return []
    found = one(connection, SQL["flush_before"], (segment.s, segment.upto))
    start = max(found[0] or 0, segment.after)
    if start >= segment.upto:
        return []
    if number == TOOLS:
        tail = read_range(connection, place, segment, start, segment.upto, (TOOLS,))
        return tail.versions(number, start, segment.upto)[::-1]
    rows = many(connection, SQL["call_standing"], (segment.s, start, segment.upto, segment.upto))
    versions: list[Version] = []
    for (seq,) in rows:
        commit = read_one(connection, segment, seq, load=False)
        identifier = commit.delta[0].id
        # A call that has a row was more than put and dropped: its rows tell how it stood.
        if one(connection, SQL["rec_at"], (segment.s, CALLS, seq, pack_id(identifier))) is None:
            versions.append((seq, 0, 1, 0, commit.turn, identifier, None, None))
    return versions


def _offer_segment(
    connection: apsw.Connection, segment: LogSegment, number: int, standing: _LiveSieve
) -> bool:
    """Offer a segment's versions: back to its last snapshot, then what was live in that."""
    s = segment.s
    if standing.limit is not None:
        # The newest few are usually among the last rows; a snapshot of many need not be unpacked.
        rows = connection.execute(SQL["rec_back"], (s, number, segment.after, segment.upto))
        if standing.offer(segment, islice(rows, standing.limit * 8)):
            return True
        if next(rows, None) is None:  # those were all
            return False
    start, pointers = snapshot_before(connection, s, number, segment.after, segment.upto)
    rows = connection.execute(SQL["rec_back"], (s, number, start, segment.upto))
    if standing.offer(segment, rows):
        return True
    return standing.offer(segment, _rows_at(connection, s, number, pointers[::-1]))


def _rows_at(
    connection: apsw.Connection, s: int, number: int, pointers: Sequence[tuple[int, int]]
) -> Iterator[Brief]:
    """The rows that the pointers of a snapshot name, newest first.

    Where the rows of a run are close together, all rows from its first to its last are read and the others
    skipped; elsewhere each is looked up. How close is close enough depends on how many rows the collection
    has, which the newest rows show.
    """
    rows_a_seq = 1.0
    if len(pointers) > RUN:
        newest = pointers[0][0]
        (nth,) = one(connection, SQL["rec_nth_back"], (s, number, newest, RUN - 1)) or (0,)
        rows_a_seq = RUN / (newest - nth + 1)
    for at in range(0, len(pointers), RUN):
        run = pointers[at : at + RUN]
        high, low = run[0][0], run[-1][0]
        places = [seq << N_BITS | abs(n) - 1 for seq, n in run]
        if (high - low + 1) * rows_a_seq > len(run) * ROWS_A_LOOKUP:
            yield from many(connection, SQL["rec_places"], (encode_array(places), s, number))
            continue
        rows = many(connection, SQL["rec_back"], (s, number, low - 1, high))
        rows_a_seq = len(rows) / (high - low + 1)
        if len(rows) == len(run):
            yield from rows
            continue
        wanted = set(places)
        yield from (row for row in rows if row[0] << N_BITS | row[1] in wanted)


def find_entry(
    connection: apsw.Connection, place: SessionPlace, collection: str, wanted: str, at: int | None
) -> Entry | None:
    """The live record under a natural key at a seq."""
    number = check_collection(collection)
    # Where a record was erased, the newest version under a key may not be the newest of its record.
    if collection in READ_FROM_LOG or wanted.startswith(KEYLESS) or place.has_erased(number):
        for entry in read_entries(connection, place, collection, at, None):
            if entry.key == wanted:
                return entry
        return None
    upto = MAX_SEQ if at is None else at
    own = place.segments[-1]
    version = place.tail.latest.get((number, wanted))
    if version is not None and version[0] > upto:
        earlier = place.tail.versions(number, place.flushed, upto)
        version = next((v for v in reversed(earlier) if v[6] == wanted), None)
    if version is not None:
        return entry_of(RecordReader(connection), own, collection, version) if version[2] else None
    for segment in reversed(place.upto(at)):
        found = _newest_in(connection, place, segment, collection, wanted)
        if found is not None:
            return _entry(collection, found)
    return None


def _entry(collection: str, version: LogVersion) -> Entry | None:
    """The record that a version put; None if it dropped one."""
    op = version.op
    if not isinstance(op, Put):
        return None
    return Entry(collection, op.id, version.key, version.seq, version.turn, op.record)


def _newest_in(
    connection: apsw.Connection,
    place: SessionPlace,
    segment: LogSegment,
    collection: str,
    wanted: str,
) -> LogVersion | None:
    """The newest version under an indexed key in a segment, put or drop."""
    number = COLLECTIONS[collection].number
    if not place.has_rows(segment, number):
        return None
    values = (number, key_hash(number, wanted), segment.s, segment.after, segment.upto)
    for row in connection.execute(SQL["rec_find"], values):
        found = _log_version(connection, place, segment, collection, from_sql(row))
        if found.key == wanted:  # else another key with the same digest
            return found
    return None


def find_entries(
    connection: apsw.Connection,
    place: SessionPlace,
    collection: str,
    keys: Collection[str],
    at: int | None,
) -> list[Entry]:
    """The live record under each of some natural keys at a seq, last touched first."""
    if len(keys) == 1:
        entry = find_entry(connection, place, collection, next(iter(keys)), at)
        return [] if entry is None else [entry]
    keyless = any(wanted.startswith(KEYLESS) for wanted in keys)
    if keyless or collection in READ_FROM_LOG or place.has_erased(check_collection(collection)):
        # From the last, so that of two under one key the one touched last remains.
        every = reversed(read_entries(connection, place, collection, at, None))
        return list({entry.key: entry for entry in every if entry.key in keys}.values())[::-1]
    newest = _newest_versions(connection, place, collection, keys, at)
    newest.sort(key=lambda version: (version.seq, version.n), reverse=True)
    return [entry for version in newest if (entry := _entry(collection, version)) is not None]


def _newest_versions(
    connection: apsw.Connection,
    place: SessionPlace,
    collection: str,
    keys: Collection[str],
    at: int | None,
) -> list[LogVersion]:
    """The newest version under each of some indexed keys at a seq, put or drop."""
    left = set(keys)
    found: list[LogVersion] = []
    upto = MAX_SEQ if at is None else at
    number, own = check_collection(collection), place.segments[-1]
    for version in reversed(place.tail.versions(number, place.flushed, upto)):
        if version[6] in left:
            left.discard(version[6])
            found.append(_log_version(connection, place, own, collection, version))
    for segment in reversed(place.upto(at)):
        if left and place.has_rows(segment, number):
            some = _newest_some(connection, place, segment, collection, left)
            left.difference_update(version.key for version in some)
            found += some
    return found


def _newest_some(
    connection: apsw.Connection,
    place: SessionPlace,
    segment: LogSegment,
    collection: str,
    keys: Collection[str],
) -> list[LogVersion]:
    """The same of one segment, in one statement."""
    number = COLLECTIONS[collection].number
    wanted = {key_hash(number, key): key for key in keys}
    bounds = {"s": segment.s, "c": number, "after": segment.after, "upto": segment.upto}
    rows = many(connection, SQL["rec_find_some"], {"keys": encode_array(list(wanted)), **bounds})
    found: list[LogVersion | None] = []
    for row in rows:
        version = _log_version(connection, place, segment, collection, from_sql(row))
        key = wanted[row[6]]
        same = version.key == key  # else another key with the same digest
        found.append(version if same else _newest_in(connection, place, segment, collection, key))
    return [version for version in found if version is not None]


def read_versions(
    connection: apsw.Connection,
    place: SessionPlace,
    *,
    after: int,
    upto: int,
    collections: Sequence[str],
) -> list[LogVersion]:
    """Every op of those collections in a range of seqs, in log order."""
    names = {check_collection(name): name for name in collections or COLLECTIONS}
    found: list[LogVersion] = []
    records = RecordReader(connection)
    for segment in place.upto(upto):
        low = max(segment.after, after)
        if low < segment.upto:
            found += (
                _log_version(connection, place, segment, names[number], version, records)
                for number, version in _flushed_versions(connection, place, segment, names, low)
            )
    own = place.segments[-1]
    for number, name in names.items():
        found += (
            _log_version(connection, place, own, name, version, records)
            for version in place.tail.versions(number, max(after, place.flushed), upto)
        )
    found.sort(key=lambda version: (version.seq, version.n))
    return found


def read_replaced(
    connection: apsw.Connection, place: SessionPlace, ops: Sequence[Op]
) -> list[LogVersion | None]:
    """The version that each op put or dropped another in place of; None where there was none."""
    return [_replaced(connection, place, op) if op.was else None for op in ops]


def _replaced(connection: apsw.Connection, place: SessionPlace, op: Op) -> LogVersion | None:
    number = check_collection(op.collection)
    segment = next(x for x in place.segments if x.after < op.was <= x.upto)
    if op.collection not in READ_FROM_LOG:
        row = one(connection, SQL["rec_at"], (segment.s, number, op.was, pack_id(op.id)))
        if row is not None and row[7] is not None:
            return _log_version(connection, place, segment, op.collection, from_sql(row))
    return put_in_log(connection, segment, op.collection, op.id, op.was)


def _flushed_versions(
    connection: apsw.Connection,
    place: SessionPlace,
    segment: LogSegment,
    numbers: Collection[int],
    low: int,
) -> Iterator[tuple[int, Version]]:
    """Flushed versions of some collections in a segment after `low`.

    A short range is read from the log in one go, and so is any that is asked for what has no rows; else a long one, or
    one collection alone, is read from the rows of each collection.
    """
    upto = min(segment.upto, place.flushed) if segment.s == place.s else segment.upto
    has_rows = CALLS not in numbers and TOOLS not in numbers
    if has_rows and (upto - low > SHORT_RANGE or len(numbers) == 1):
        for number in numbers:
            rows = many(connection, SQL["rec_forward"], (segment.s, number, low, segment.upto))
            for row in rows:
                yield number, from_sql(row)
        return
    tail = read_range(connection, place, segment, low, upto, numbers)
    for number in numbers:
        for version in tail.versions(number, low, upto):
            yield number, version


def _log_version(
    connection: apsw.Connection,
    place: SessionPlace,
    segment: LogSegment,
    name: str,
    version: Version,
    records: RecordReader | None = None,
) -> LogVersion:
    seq, n, op, was, turn, identifier, known, _ = version
    made: Op
    if op:
        entry = entry_of(records or RecordReader(connection), segment, name, version)
        made, found = Put(name, identifier, entry.record, was), entry.key
    else:
        made = Drop(name, identifier, was)
        found = (
            known
            or key_put_with(connection, segment, name, version)
            or dropped_key(connection, place, name, identifier, was)
        )
    return LogVersion(seq, n, turn, found, made)
