"""Reads commits and their records from the log table, by range and one at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import apsw
import msgspec

from stator.errors import NotFound, StoreCorrupt
from stator.model.exchange.packed import Packed
from stator.model.log.chain import GENESIS, put_item
from stator.model.log.commit import Commit, Large
from stator.model.log.delta import (
    Op,
    Put,
    decode_record,
)
from stator.model.log.query import NEWEST
from stator.model.records.tables import COLLECTIONS, key_of
from stator.model.records.types import Entry, Record
from stator.model.sessions.lifecycle import lent_upto
from stator.model.values.ids import from_bytes
from stator.store.compress import decompress
from stator.store.rows import UNREADABLE, Envelope, damaged, envelope_of, from_row, to_packed
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.projection import (
    SEQ_BITS,
    SEQ_MASK,
    SQL,
)
from stator.store.sqlite.queries.lineage import (
    MAX_SEQ,
    LogSegment,
    SessionPlace,
    decode_session,
    key,
)
from stator.store.sqlite.versions import (
    Version,
)

BATCH = 512
encode_array = msgspec.json.Encoder().encode
"""A JSON array: how a statement takes a set of numbers or names."""


def blob(connection: apsw.Connection, digest: bytes) -> bytes:
    """A blob's compressed bytes."""
    return find_blob(connection, digest)[1]


def find_blob(connection: apsw.Connection, digest: bytes) -> tuple[int, bytes]:
    """A blob's key and its compressed bytes; the key is found by probing from 63 bits of its digest."""
    slot = int.from_bytes(digest[:8], "big") >> 1
    for probe in range(16):
        row = one(connection, SQL["blob_get"], (slot + probe,))
        if row is None:
            break
        if row[0] == digest:
            data: bytes = row[1]
            return slot + probe, data
    raise StoreCorrupt(f"blob {digest.hex()[:16]} is missing", hint="run: stator verify")


def read_segment(
    connection: apsw.Connection,
    segment: LogSegment,
    *,
    load: bool = True,
    limit: int | None = None,
    slots: list[int] | None = None,
) -> Iterator[Commit]:
    """Commits of a segment in order, a batch at a time; the keys of the blobs they need are added to `slots`."""
    low, high = key(segment.s, segment.after), key(segment.s, min(segment.upto, MAX_SEQ))
    prev = _prev(connection, segment)

    def fetch(digest: bytes) -> bytes:
        slot, data = find_blob(connection, digest)
        if slots is not None:
            slots.append(slot)
        return data

    left = high - low if limit is None else min(limit, high - low)
    while left > 0:
        size = min(BATCH, left)
        rows = many(connection, SQL["log_range"], (low, high, size))
        load_blob = fetch if load else None
        for low, *row in rows:
            commit = from_row(segment.session, low & SEQ_MASK, prev, tuple(row), load_blob)
            yield commit if load else _with_records(connection, commit)
            prev = row[1]
        if len(rows) < size:
            return
        left = min(left - size, high - low)


def _with_records(connection: apsw.Connection, commit: Commit) -> Commit:
    """A commit read without its blobs, but for the records of its delta that are in some."""
    if not commit.delta or Large not in map(type, commit.content.values()):
        return commit
    large = {name: item for name, item in commit.content.items() if isinstance(item, Large)}
    delta: list[Op] = []
    for n, op in enumerate(commit.delta):
        item = large.get(put_item(n))
        if item is not None and isinstance(op, Put):
            data = decompress(blob(connection, item.digest))
            op = msgspec.structs.replace(op, record=decode_record(op.collection, data))
        delta.append(op)
    return msgspec.structs.replace(commit, delta=delta)


def _prev(connection: apsw.Connection, segment: LogSegment) -> bytes:
    """The hash before a segment's first commit: of the row before, or of the commit it was forked from."""
    if segment.after <= 0:
        return bytes.fromhex(GENESIS)
    row = one(connection, SQL["log_hash"], (key(segment.s, segment.after),))
    if row is not None:
        before: bytes = row[0]
        return before
    found = one(connection, "SELECT record FROM session WHERE s = ?", (segment.s,))
    if found is None:
        return bytes.fromhex(GENESIS)
    record = decode_session(found[0])
    parent = record.parent
    first = lent_upto(record.lineage)
    if parent is not None and record.lineage and segment.after == first:
        return bytes.fromhex(parent.hash)
    return bytes.fromhex(GENESIS)


def read_some(
    connection: apsw.Connection, place: SessionPlace, seqs: Iterable[int], *, load: bool = True
) -> list[Commit]:
    """The commits at some seqs across the lineage, in log order; those that are not there are left out."""
    wanted = sorted(set(seqs))
    found: list[Commit] = []
    for segment in place.segments:
        keys = [key(segment.s, seq) for seq in wanted if segment.after < seq <= segment.upto]
        if keys:
            for k, *row, before in many(connection, SQL["log_some"], (encode_array(keys),)):
                seq = k & SEQ_MASK
                prev = before or _prev(connection, msgspec.structs.replace(segment, after=seq - 1))
                found.append(_commit(connection, segment.session, seq, prev, tuple(row), load=load))
    return found


def _commit(
    connection: apsw.Connection,
    session: str,
    seq: int,
    prev: bytes,
    row: tuple[bytes, bytes, bytes, bytes],
    *,
    load: bool,
) -> Commit:
    if load:
        return from_row(session, seq, prev, row, lambda digest: blob(connection, digest))
    return _with_records(connection, from_row(session, seq, prev, row, None))


def read_one(
    connection: apsw.Connection, segment: LogSegment, seq: int, *, load: bool = True
) -> Commit:
    narrow = LogSegment(segment.s, segment.session, seq - 1, seq)
    for commit in read_segment(connection, narrow, load=load, limit=1):
        return commit
    raise no_commit(segment, seq)


def read_bare(connection: apsw.Connection, segment: LogSegment, seq: int) -> Commit:
    """A commit without its blobs and without the hash before it: what state is read from."""
    row = one(connection, SQL["log_one"], (key(segment.s, seq),))
    if row is None:
        raise no_commit(segment, seq)
    return _with_records(connection, from_row(segment.session, seq, b"", row, None))


def no_commit(segment: LogSegment, seq: int) -> NotFound:
    return NotFound(f"no commit @{seq} in session {segment.session}", session=segment.session)


def read_commits(
    connection: apsw.Connection,
    place: SessionPlace,
    *,
    after: int,
    upto: int | None,
    newest_first: bool,
    limit: int,
    load: bool,
    seqs: Collection[int] | None = None,
) -> list[Commit]:
    """Commits with `after < seq <= upto` across the lineage: all, or those of some seqs."""
    if seqs is not None:
        last = MAX_SEQ if upto is None else upto
        if NEWEST in seqs:
            seqs = {*seqs, *(last_seq(connection, one) for one in place.upto(upto)[-1:])}
        chosen = sorted({seq for seq in seqs if after < seq <= last}, reverse=newest_first)
        # A seq may not be there, so that the limit holds for what is found.
        some = read_some(connection, place, chosen, load=load)
        return (some[::-1] if newest_first else some)[:limit]
    wanted = _between(place, after, upto)
    found: list[Commit] = []
    if not newest_first:
        for segment in wanted:
            found += read_segment(connection, segment, load=load, limit=limit - len(found))
            if len(found) >= limit:
                break
        return found
    for segment in reversed(wanted):
        last = last_seq(connection, segment)
        first = max(segment.after, last - (limit - len(found)))
        window = msgspec.structs.replace(segment, after=first)
        found += reversed(list(read_segment(connection, window, load=load)))
        if len(found) >= limit:
            break
    return found


def read_packed(
    connection: apsw.Connection, place: SessionPlace, *, after: int, upto: int | None, limit: int
) -> list[Packed]:
    """The same commits as `read_commits` reads, as a bundle holds them."""
    found: list[Packed] = []
    for part in _between(place, after, upto):
        low, high = key(part.s, part.after), key(part.s, min(part.upto, MAX_SEQ))
        for k, *row in many(connection, SQL["log_range"], (low, high, limit - len(found))):
            found.append(
                to_packed(
                    part.session, k & SEQ_MASK, tuple(row), lambda digest: blob(connection, digest)
                )
            )
        if len(found) >= limit:
            break
    return found


def _between(place: SessionPlace, after: int, upto: int | None) -> list[LogSegment]:
    """The segments that hold commits with `after < seq <= upto`, cut off there."""
    return [
        msgspec.structs.replace(segment, after=max(segment.after, after))
        for segment in place.upto(upto)
        if segment.upto > after
    ]


def last_seq(connection: apsw.Connection, segment: LogSegment) -> int:
    """The seq of the last commit in a segment, or the one before it if it is empty."""
    row = one(
        connection,
        SQL["head"],
        {
            "low": key(segment.s, segment.after),
            "high": key(segment.s, min(segment.upto, MAX_SEQ)) + 1,
        },
    )
    return segment.after if row is None else int(row[0]) & SEQ_MASK


class LastCommit(msgspec.Struct, frozen=True):
    """What the newest row of a log says without its content."""

    seq: int
    turn: int
    used: int


def last_commit(connection: apsw.Connection, s: int, after: int) -> LastCommit | None:
    """The newest commit of a session's own log beyond a seq."""
    row = one(connection, SQL["log_range_newest"], (key(s, after), key(s, SEQ_MASK), 1))
    if row is None:
        return None
    envelope = envelope_in(connection, row[0], row[4])
    used = envelope.at + min(0, envelope.happened)
    return LastCommit(row[0] & SEQ_MASK, envelope.turn, used)


def envelope_in(connection: apsw.Connection, k: int, body: bytes) -> Envelope:
    """The envelope in a row of the log; an error names the session and the seq."""
    try:
        return envelope_of(body)
    except UNREADABLE as error:
        (identifier,) = one(connection, SQL["session_id"], (k >> SEQ_BITS,))
        raise damaged(from_bytes(identifier, "session"), k & SEQ_MASK, error) from error


class RecordReader:
    """Reads records out of the log; of several that one commit put, the commit is read once."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._last: tuple[int, int] = (0, 0)
        self._commit: Commit | None = None

    def record(self, segment: LogSegment, seq: int, n: int) -> Record:
        """The record that the nth op of a commit put."""
        commit = self._commit
        if commit is None or self._last != (segment.s, seq):
            commit = self._commit = read_bare(self._connection, segment, seq)
            self._last = (segment.s, seq)
        op = commit.delta[n]
        assert isinstance(op, Put), f"op {n} of @{seq} is a put in the index and not in the log"
        assert put_item(n) in commit.content
        return op.record


def entry_of(
    records: RecordReader, segment: LogSegment, collection: str, version: Version
) -> Entry:
    seq, n, _, _, turn, identifier, known, body = version
    record = (
        decode_record(collection, body) if body is not None else records.record(segment, seq, n)
    )
    found = known if known is not None else key_of(COLLECTIONS[collection], record, identifier)
    return Entry(collection, identifier, found, seq, turn, record)
