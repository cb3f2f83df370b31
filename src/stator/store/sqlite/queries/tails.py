"""Reads what a session's log holds beyond its projections, and keeps it from one read to the next.

A row becomes a `Tailed` without a `Commit` in between, and without the blobs that no index needs. `KeptTails`
holds the tails that a process has read: the next reader decodes only the rows that were appended since.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence

import apsw
import msgspec

from stator.errors import StoreCorrupt
from stator.model.log.chain import put_item
from stator.model.log.delta import decode_record
from stator.model.log.turn_keys import KeyName, names_of
from stator.model.records.tables import NUMBERED, key_of
from stator.model.records.types import KEYLESS, ErasedRecord
from stator.store.compress import decompress
from stator.store.rows import (
    BLOB,
    ERASED,
    UNREADABLE,
    Envelope,
    Stored,
    call_of,
    content_size,
    damaged,
    envelope_of,
    from_row,
    op_id,
)
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.projection import NAMING, READ_FROM_LOG, SEQ_MASK, SQL, Tail, Tailed
from stator.store.sqlite.queries.commits import BATCH, blob
from stator.store.sqlite.queries.lineage import MAX_SEQ, LogSegment, SessionPlace, Stamp, key
from stator.store.sqlite.queries.places import flushed_key
from stator.store.sqlite.versions import Version

KEPT_BYTES = 64 * 1024 * 1024
"""What all kept tails may take; past it, the one that was not asked for the longest goes."""
COMMIT_BYTES = 1000
"""What a commit takes in a kept tail, without the records it put."""

LogRow = tuple[int, bytes, bytes, bytes, bytes]
"""(k, id, hash, salts, body)."""


def load_tail(connection: apsw.Connection, place: SessionPlace) -> None:
    """Read the tail of a session's log into its place."""
    place.tail = read_range(connection, place, place.segments[-1], place.flushed, MAX_SEQ)


def read_range(
    connection: apsw.Connection,
    place: SessionPlace,
    segment: LogSegment,
    after: int,
    upto: int,
    only: Collection[int] | None = None,
) -> Tail:
    """The commits of a segment with `after < seq <= upto`, as the indexes see them; or `only` what they did to some
    collections, with the records whole: the log need not be asked for one of them again."""
    tail = Tail()
    for row in _rows(connection, segment, after, upto):
        tail.add(_tailed(connection, place, segment, tail, row, only))
    return tail


def _rows(
    connection: apsw.Connection, segment: LogSegment, after: int, upto: int
) -> Iterator[LogRow]:
    low, high = key(segment.s, after), key(segment.s, min(upto, MAX_SEQ))
    while True:
        rows: list[LogRow] = many(connection, SQL["log_range"], (low, high, BATCH))
        yield from rows
        if len(rows) < BATCH:
            return
        low = rows[-1][0]


def _tailed(
    connection: apsw.Connection,
    place: SessionPlace,
    segment: LogSegment,
    tail: Tail,
    row: LogRow,
    only: Collection[int] | None = None,
) -> Tailed:
    """A row of the log as the indexes see it; `tail` has the commits before it."""
    k, identifier, hashed, _, body = row
    seq = k & SEQ_MASK
    try:
        envelope = envelope_of(body)
        at = envelope.at
        return Tailed(
            seq,
            identifier,
            envelope.kind,
            envelope.turn,
            at,
            envelope.status,
            call_of(envelope, identifier),
            envelope.tool,
            envelope.effect,
            envelope.cause,
            envelope.attempt,
            envelope.origin,
            content_size(envelope),
            _versions(connection, place, tail, seq, identifier, envelope, only),
            min(at + envelope.happened or at, at),
            _key_names(connection, segment, seq, envelope, row) if only is None else (),
            hashed.hex(),
        )
    except UNREADABLE as error:
        raise damaged(segment.session, seq, error) from error


def _versions(
    connection: apsw.Connection,
    place: SessionPlace,
    tail: Tail,
    seq: int,
    identifier: bytes,
    envelope: Envelope,
    only: Collection[int] | None,
) -> list[tuple[int, Version]]:
    """What a commit put and dropped, in order."""
    found: list[tuple[int, Version]] = []
    if not envelope.ops:
        return found
    digits = identifier.hex()[-16:]
    items = {item.name: item for item in envelope.items}
    for n, (signed, short, was) in enumerate(envelope.ops):
        number = abs(signed)
        if number not in NUMBERED:
            raise StoreCorrupt(f"no collection {number}", hint="a newer release may read it")
        if only is not None and number not in only:
            continue
        spec, record_id = NUMBERED[number], op_id(short, digits)
        small = spec.name in READ_FROM_LOG
        kept: bytes | None = None
        name: str | None = None
        if signed > 0:
            kept = _record_bytes(connection, items.get(put_item(n), Stored("")))
            record = decode_record(spec.name, kept)
            if type(record) is ErasedRecord:
                kept = msgspec.json.encode(record)
            elif small:
                kept = None if only is None else kept
            else:
                name = key_of(spec, record, record_id)
        elif not small:
            name = _key_of_drop(connection, place, tail, found, number, record_id, was)
        if name is not None and name.startswith(KEYLESS):
            name = None
        version = (seq, n, int(signed > 0), was, envelope.turn, record_id, name, kept)
        found.append((number, version))
    return found


def _record_bytes(connection: apsw.Connection, item: Stored) -> bytes:
    """The bytes of a record that was put; of one that was erased, those of the mark."""
    if item.state == BLOB:
        return decompress(blob(connection, item.data or b""))
    if item.state == ERASED:
        return msgspec.json.encode(ErasedRecord(erased=item.number))
    return item.data or b""


def _key_of_drop(
    connection: apsw.Connection,
    place: SessionPlace,
    tail: Tail,
    before: Sequence[tuple[int, Version]],
    number: int,
    record_id: str,
    was: int,
) -> str | None:
    """The key of a record that is dropped: as the same commit put it, or the one at `was`."""
    for versions in (before, tail.versions_at(was)):
        for other, version in reversed(versions):
            if other == number and version[5] == record_id:
                return version[6]
    return flushed_key(connection, place, NUMBERED[number].name, record_id, was)


def _key_names(
    connection: apsw.Connection, segment: LogSegment, seq: int, envelope: Envelope, row: LogRow
) -> Sequence[KeyName]:
    """The keys of turns that a commit names. Few do, so that the commit itself is read for them."""
    if envelope.kind not in NAMING or all(i.name not in ("key", "input") for i in envelope.items):
        return ()
    return names_of(
        from_row(segment.session, seq, b"", row[1:], lambda digest: blob(connection, digest))
    )


class _Kept(msgspec.Struct, frozen=True):
    """A tail as it was last read, and what it follows."""

    stamp: Stamp
    tail: Tail = msgspec.field(default_factory=Tail)
    size: int = 0


class KeptTails:
    """The tails that a process has read.

    A kept tail is never changed: what was appended since makes a longer one. So threads share them, and one that
    reads an older snapshot is not disturbed. A tail is used where the rows of the session and of its lineage are as
    they were, and its last commit is in the log; the hash of that commit covers all before it.
    """

    def __init__(self, most: int = KEPT_BYTES) -> None:
        self._most = most
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def read(
        self, connection: apsw.Connection, place: SessionPlace, written: Sequence[Tailed] = ()
    ) -> Tail:
        """A session's tail in this snapshot. `written` is the one in the memory of this process's writer: some of
        it may be newer than the snapshot, or undone by now."""
        own, flushed = place.segments[-1], place.flushed
        bounds = {"low": key(own.s, flushed), "high": key(own.s, MAX_SEQ)}
        newest = one(connection, SQL["head"], bounds)
        if newest is None:
            return Tail()
        seq, hashed = newest[0] & SEQ_MASK, newest[2].hex()
        kept = self._find(place)
        known = kept.tail.commits
        if _holds(known, seq, hashed):
            return kept.tail if known[-1].seq == seq else kept.tail.upto(seq)
        if known and not _is_logged(connection, own, known[-1]):
            kept, known = _Kept(place.stamp), []
        tail = kept.tail.copy()
        first = flushed + 1 + len(known)
        if _holds(written, seq, hashed) and written[0].seq <= first:
            for item in written[first - written[0].seq : seq + 1 - written[0].seq]:
                tail.add(item)
        else:
            for row in _rows(connection, own, first - 1, seq):
                tail.add(_tailed(connection, place, own, tail, row))
        size = kept.size + sum(map(_weight, tail.commits[len(known) :]))
        self._keep(place.record.id, _Kept(place.stamp, tail, size))
        return tail

    def forget(self, session: str) -> None:
        """Drop the tail of a session, if there is one: it was flushed."""
        if session in self._kept:
            with self._lock:
                self._drop(session)

    def _find(self, place: SessionPlace) -> _Kept:
        """What is kept of a session whose rows say what they said then; an empty tail if nothing is."""
        with self._lock:
            kept = self._kept.get(place.record.id)
            if kept is None or kept.stamp != place.stamp:
                return _Kept(place.stamp)
            self._kept.move_to_end(place.record.id)
            return kept

    def _keep(self, session: str, kept: _Kept) -> None:
        with self._lock:
            self._drop(session)
            self._kept[session] = kept
            self._size += kept.size
            while self._size > self._most:
                self._drop(next(iter(self._kept)))

    def _drop(self, session: str) -> None:
        gone = self._kept.pop(session, None)
        if gone is not None:
            self._size -= gone.size


def _holds(items: Sequence[Tailed], seq: int, hashed: str) -> bool:
    """Whether the commit at a seq is among these, which follow each other."""
    n = seq - items[0].seq if items else -1
    return 0 <= n < len(items) and items[n].hash == hashed


def _is_logged(connection: apsw.Connection, segment: LogSegment, item: Tailed) -> bool:
    """Whether a commit is in the log of this snapshot."""
    row = one(connection, SQL["log_hash"], (key(segment.s, item.seq),))
    return row is not None and row[0].hex() == item.hash


def _weight(item: Tailed) -> int:
    """About how many bytes a commit takes in memory."""
    return COMMIT_BYTES + sum(len(version[7] or b"") for _, version in item.versions)
