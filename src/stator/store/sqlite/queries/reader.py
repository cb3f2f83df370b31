"""Reading: every question a SQLite store answers, over one connection and one consistent snapshot
of it.

A session is read through its `Place`: the stretches of log its lineage lends it, its own stretch,
and the tail of its own stretch that no projection holds yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import apsw
import msgspec

from stator.errors import BadQuery, NotFound, StoreCorrupt
from stator.model.log.chain import GENESIS, put_item
from stator.model.log.commit import Commit, Large
from stator.model.log.delta import (
    Drop,
    Op,
    Put,
    decode_record,
)
from stator.model.log.delta import Version as LogVersion
from stator.model.records.registry import COLLECTIONS, key_of
from stator.model.records.types import KEYLESS, Entry, Record, SessionRecord
from stator.model.sessions.lifecycle import lent_upto
from stator.model.values.ids import from_bytes, is_id, to_bytes
from stator.store.compress import decompress
from stator.store.rows import envelope_of, from_row
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.projection import (
    READ_FROM_LOG,
    SEQ_BITS,
    SEQ_MASK,
    SQL,
    Ledger,
    Tail,
    each_tail,
    find_commit,
    keys_of,
    replayed,
    snapshot_before,
    unpack_ledger,
)
from stator.store.sqlite.versions import (
    CALLS,
    TOOLS,
    Version,
    from_sql,
    key_hash,
    pack_id,
    unpack_id,
)

MAX_SEQ = SEQ_MASK
BATCH = 512
SHORT_RANGE = 64
"""Commits up to which the versions of a range are read from the log itself."""
KNOWN_MAX = 10_000
"""Keys an ingest remembers before it looks them up again."""
RUN = 256
"""Pointers of a snapshot whose rows are fetched together."""
ROWS_A_LOOKUP = 2
"""Rows that are read one after the other in the time that one is looked up (measured)."""
N_BITS = 20
"""Of a row's place as one number: the bits of its n."""

encode_places = msgspec.json.Encoder().encode
decode_session = msgspec.json.Decoder(SessionRecord).decode


class Stretch(msgspec.Struct, frozen=True):
    """Commits `after < seq <= upto` kept under ordinal `s`."""

    s: int
    session: str
    after: int
    upto: int
    erased: frozenset[int] = frozenset()
    """Collections of which this session has erased a record."""
    kept: frozenset[int] = frozenset()
    """Collections of which it has rows; of a session's own stretch, its ledger tells."""


class Place(msgspec.Struct):
    """Where a session's log and projections are."""

    s: int
    record: SessionRecord
    epoch: int
    flushed: int
    dirty: bool
    ledger: Ledger
    stretches: list[Stretch]
    tail: Tail
    holder: bytes | None = None
    updated: int = 0

    @property
    def low(self) -> int:
        """The seq before the session's own first commit."""
        return self.stretches[-1].after

    @property
    def lineage(self) -> list[tuple[int, int]]:
        """(ordinal, upto) of the stretches the session's log continues, oldest first."""
        return [(stretch.s, stretch.upto) for stretch in self.stretches[:-1]]

    def has_erased(self, number: int) -> bool:
        """Whether some record of a collection was erased, here or in the lineage."""
        return number in self.ledger.erased or any(number in s.erased for s in self.stretches)

    def has_rows(self, stretch: Stretch, number: int) -> bool:
        """Whether a stretch can have flushed versions of a collection: most have none of most."""
        return number in (self.ledger.snaps if stretch.s == self.s else stretch.kept)

    def upto(self, at: int | None) -> list[Stretch]:
        """The stretches, oldest first, cut off at a seq."""
        if at is None:
            return self.stretches
        return [
            msgspec.structs.replace(stretch, upto=min(stretch.upto, at))
            for stretch in self.stretches
            if stretch.after < at
        ]


def load_place(connection: apsw.Connection, session: str, *, with_tail: bool = True) -> Place:
    """A session's place, its tail read from the log; `NotFound` if there is no such session."""
    row = None
    if is_id(session, "session"):
        row = one(connection, SQL["session_by_id"], (to_bytes(session),))
    if row is None:
        raise NotFound(
            f"no session {session}", hint="stator ls shows what there is", session=session
        )
    return place_of(connection, row, with_tail=with_tail)


def place_of(connection: apsw.Connection, row: Any, *, with_tail: bool = True) -> Place:
    s, record_bytes, epoch, holder, updated, flushed, dirty, ledger = row
    record = decode_session(record_bytes)
    place = Place(
        s,
        record,
        epoch,
        flushed,
        bool(dirty),
        unpack_ledger(ledger),
        _stretches(connection, s, record),
        Tail(),
        holder,
        updated,
    )
    if with_tail and dirty:
        load_tail(connection, place)
    return place


def _stretches(connection: apsw.Connection, s: int, record: SessionRecord) -> list[Stretch]:
    stretches: list[Stretch] = []
    for segment in record.lineage:
        row = one(connection, SQL["session_by_id"], (to_bytes(segment.session),))
        if row is None:
            raise StoreCorrupt(
                f"session {record.id} continues {segment.session}, which is not in this store",
                session=record.id,
            )
        if row[5] < segment.upto:
            raise StoreCorrupt(
                f"the indexes of session {segment.session} end before the fork {record.id}",
                hint="the log is intact; make them again with: stator doctor --rebuild",
                session=segment.session,
            )
        ledger = unpack_ledger(row[7])
        erased, kept = frozenset(ledger.erased), frozenset(ledger.snaps)
        stretches.append(
            Stretch(row[0], segment.session, segment.after, segment.upto, erased, kept)
        )
    low = stretches[-1].upto if stretches else 0
    stretches.append(Stretch(s, record.id, low, MAX_SEQ))
    return stretches


def load_tail(connection: apsw.Connection, place: Place) -> None:
    """Read what the log holds beyond the flushed projections."""
    own = place.stretches[-1]
    commits = list(read_stretch(connection, msgspec.structs.replace(own, after=place.flushed)))

    def key_of_id(collection: str, identifier: str, was: int) -> str:
        return flushed_key(connection, place, collection, identifier, was)

    place.tail = replayed(commits, key_of_id)


def tails(connection: apsw.Connection, place: Place) -> Iterator[Tail]:
    """The session's whole own log as tails of a bounded size."""

    def key_of_id(collection: str, identifier: str, was: int) -> str:
        return flushed_key(connection, place, collection, identifier, was)

    return each_tail(read_stretch(connection, place.stretches[-1]), key_of_id)


def resolve_keys(
    connection: apsw.Connection, place: Place, commit: Commit, known: dict[tuple[str, str], str]
) -> list[str]:
    """The keys of an ingested commit's ops; `known` remembers those of the commits before it."""

    def key_of_id(name: str, identifier: str, was: int) -> str:
        found = known.pop((name, identifier), None)
        return found or _dropped_key(connection, place, name, identifier, was)

    keys = keys_of(commit, key_of_id)
    if len(known) > KNOWN_MAX:
        known.clear()
    for op, found in zip(commit.delta, keys, strict=True):
        if isinstance(op, Put):
            known[op.collection, op.id] = found
    return keys


def flushed_key(
    connection: apsw.Connection, place: Place, collection: str, identifier: str, was: int
) -> str:
    """The key a record had at the seq that touched it, from the flushed versions or the log."""
    number = COLLECTIONS[collection].number
    for stretch in place.stretches:
        if stretch.after < was <= stretch.upto:
            row = one(connection, SQL["rec_at"], (stretch.s, number, was, pack_id(identifier)))
            if row is not None and row[2]:
                return _entry(connection, stretch, collection, from_sql(row)).key
            return _key_in_log(connection, stretch, collection, identifier, was)
    return KEYLESS + identifier


def _put_in_log(
    connection: apsw.Connection, stretch: Stretch, collection: str, identifier: str, seq: int
) -> LogVersion | None:
    """The last put of a record by the commit at a seq."""
    commit = read_bare(connection, stretch, seq)
    for n, op in reversed(list(enumerate(commit.delta))):
        if isinstance(op, Put) and op.id == identifier and op.collection == collection:
            return LogVersion(
                seq, n, commit.turn, key_of(COLLECTIONS[collection], op.record, identifier), op
            )
    return None


def _key_in_log(
    connection: apsw.Connection, stretch: Stretch, collection: str, identifier: str, was: int
) -> str:
    found = _put_in_log(connection, stretch, collection, identifier, was)
    return KEYLESS + identifier if found is None else found.key


# -- the log --------------------------------------------------------------------------------------


def key(s: int, seq: int) -> int:
    return s << SEQ_BITS | seq


def blob(connection: apsw.Connection, digest: bytes) -> bytes:
    """A blob's compressed bytes; its slot is found by probing from 63 bits of its digest."""
    slot = int.from_bytes(digest[:8], "big") >> 1
    for probe in range(16):
        row = one(connection, SQL["blob_get"], (slot + probe,))
        if row is None:
            break
        if row[0] == digest:
            data: bytes = row[1]
            return data
    raise StoreCorrupt(f"blob {digest.hex()[:16]} is missing", hint="run: stator verify")


def read_stretch(
    connection: apsw.Connection,
    stretch: Stretch,
    *,
    load: bool = True,
    limit: int | None = None,
) -> Iterator[Commit]:
    """Commits of a stretch in order, a batch at a time."""
    low, high = key(stretch.s, stretch.after), key(stretch.s, min(stretch.upto, MAX_SEQ))
    prev = _prev(connection, stretch)
    fetch = (lambda digest: blob(connection, digest)) if load else None
    left = high - low if limit is None else min(limit, high - low)
    while left > 0:
        size = min(BATCH, left)
        rows = many(connection, SQL["log_range"], (low, high, size))
        for low, *row in rows:
            commit = from_row(stretch.session, low & SEQ_MASK, prev, tuple(row), fetch)
            yield commit if load else _with_records(connection, commit)
            prev = row[1]
        if len(rows) < size:
            return
        left = min(left - size, high - low)


def _with_records(connection: apsw.Connection, commit: Commit) -> Commit:
    """A commit read without its blobs, but for the records of its delta that are in some."""
    large = {name: item for name, item in commit.content.items() if isinstance(item, Large)}
    if not large:
        return commit
    delta: list[Op] = []
    for n, op in enumerate(commit.delta):
        item = large.get(put_item(n))
        if item is not None and isinstance(op, Put):
            data = decompress(blob(connection, item.digest))
            op = msgspec.structs.replace(op, record=decode_record(op.collection, data))
        delta.append(op)
    return msgspec.structs.replace(commit, delta=delta)


def _prev(connection: apsw.Connection, stretch: Stretch) -> bytes:
    """The hash before a stretch's first commit: of the row before, or of the commit it was forked from."""
    if stretch.after <= 0:
        return bytes.fromhex(GENESIS)
    row = one(connection, SQL["log_hash"], (key(stretch.s, stretch.after),))
    if row is not None:
        before: bytes = row[0]
        return before
    found = one(connection, "SELECT record FROM session WHERE s = ?", (stretch.s,))
    if found is None:
        return bytes.fromhex(GENESIS)
    record = decode_session(found[0])
    parent = record.parent
    first = lent_upto(record.lineage)
    if parent is not None and record.lineage and stretch.after == first:
        return bytes.fromhex(parent.hash)
    return bytes.fromhex(GENESIS)


def read_one(
    connection: apsw.Connection, stretch: Stretch, seq: int, *, load: bool = True
) -> Commit:
    narrow = Stretch(stretch.s, stretch.session, seq - 1, seq)
    for commit in read_stretch(connection, narrow, load=load, limit=1):
        return commit
    raise no_commit(stretch, seq)


def read_bare(connection: apsw.Connection, stretch: Stretch, seq: int) -> Commit:
    """A commit without its blobs and without the hash before it: what state is read from."""
    row = one(connection, SQL["log_one"], (key(stretch.s, seq),))
    if row is None:
        raise no_commit(stretch, seq)
    return _with_records(connection, from_row(stretch.session, seq, b"", row, None))


def no_commit(stretch: Stretch, seq: int) -> NotFound:
    return NotFound(f"no commit @{seq} in session {stretch.session}", session=stretch.session)


def read_commits(
    connection: apsw.Connection,
    place: Place,
    *,
    after: int,
    upto: int | None,
    newest_first: bool,
    limit: int,
    load: bool,
) -> list[Commit]:
    """Commits with `after < seq <= upto` across the lineage."""
    wanted = [
        msgspec.structs.replace(stretch, after=max(stretch.after, after))
        for stretch in place.upto(upto)
        if stretch.upto > after
    ]
    found: list[Commit] = []
    if not newest_first:
        for stretch in wanted:
            found += read_stretch(connection, stretch, load=load, limit=limit - len(found))
            if len(found) >= limit:
                break
        return found
    for stretch in reversed(wanted):
        last = last_seq(connection, stretch)
        first = max(stretch.after, last - (limit - len(found)))
        window = msgspec.structs.replace(stretch, after=first)
        found += reversed(list(read_stretch(connection, window, load=load)))
        if len(found) >= limit:
            break
    return found


def last_seq(connection: apsw.Connection, stretch: Stretch) -> int:
    """The seq of the last commit in a stretch, or the one before it if it is empty."""
    row = one(
        connection,
        SQL["head"],
        {
            "low": key(stretch.s, stretch.after),
            "high": key(stretch.s, min(stretch.upto, MAX_SEQ)) + 1,
        },
    )
    return stretch.after if row is None else int(row[0]) & SEQ_MASK


def used_at(row: tuple[object, ...]) -> int:
    """`Commit.used` of the commit in a log row (k, id, hash, salts, body)."""
    body = row[4]
    assert isinstance(body, bytes)
    envelope = envelope_of(body)
    return envelope.at + min(0, envelope.happened)


def locate(connection: apsw.Connection, text: str, session: str | None) -> list[tuple[str, int]]:
    """(session, seq) of commits by the end of their id or the start of their hash."""
    digits = text[2:] if text.startswith("k_") else text
    if not 4 <= len(digits) <= 64 or not set(digits) <= set("0123456789abcdef"):
        return []
    if session is not None:
        place = load_place(connection, session, with_tail=is_id(text, "commit"))
        if is_id(text, "commit"):  # the whole id: there is an index of those
            return _locate_id(connection, place, to_bytes(text))
        return _locate_in(connection, place.stretches, digits)
    found: list[tuple[str, int]] = []
    for s, identifier in many(connection, SQL["session_ids"]):
        own = Stretch(s, from_bytes(identifier, "session"), -1, MAX_SEQ)
        found += _locate_in(connection, [own], digits)
        if len(found) >= 10:
            break
    return found[:10]


def _locate_id(
    connection: apsw.Connection, place: Place, identifier: bytes
) -> list[tuple[str, int]]:
    seq = place.tail.ids.get(identifier)
    if seq is not None:
        return [(place.record.id, seq)]
    found = find_commit(connection, identifier)
    s, seq = (0, 0) if found is None else (found >> SEQ_BITS, found & SEQ_MASK)
    return [(part.session, seq) for part in place.stretches if part.s == s and 0 < seq <= part.upto]


def _locate_in(
    connection: apsw.Connection, stretches: Sequence[Stretch], digits: str
) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for stretch in stretches:
        bounds = {
            "low": key(stretch.s, 0) + max(stretch.after, 0),
            "high": key(stretch.s, stretch.upto) + 1,
        }
        rows = many(connection, SQL["log_match"], {**bounds, "digits": digits})
        found += ((stretch.session, k & SEQ_MASK) for (k,) in rows)
    return found[:10]


# -- state ----------------------------------------------------------------------------------------


def check_collection(collection: str) -> int:
    """The number of a collection, or `BadQuery`."""
    if collection not in COLLECTIONS:
        raise BadQuery(
            f"no collection {collection!r:.40}", hint=f"one of: {', '.join(COLLECTIONS)}"
        )
    return COLLECTIONS[collection].number


def read_entries(
    connection: apsw.Connection, place: Place, collection: str, at: int | None, limit: int | None
) -> list[Entry]:
    """Live records at a seq, last touched first."""
    number = check_collection(collection)
    if number in (CALLS, TOOLS) and limit is not None:
        return read_entries(connection, place, collection, at, None)[:limit]
    upto = MAX_SEQ if at is None else at
    standing = _Standing(connection, collection, limit)
    own = place.stretches[-1]
    if standing.offer(own, map(_brief, reversed(place.tail.versions(number, place.flushed, upto)))):
        return standing.found
    for stretch in reversed(place.upto(at)):
        between = map(_brief, _between_flushes(connection, place, stretch, number))
        if standing.offer(stretch, between):
            return standing.found
        if place.has_rows(stretch, number) and _offer_stretch(
            connection, stretch, number, standing
        ):
            return standing.found
    if number in (CALLS, TOOLS):  # what a flush left no row of came out of turn
        standing.found.sort(key=lambda entry: entry.seq, reverse=True)
    return standing.found


Brief = tuple[int, int, int, int, bytes | str, bytes | None]
"""(seq, n, op, turn, id, body): what of a version, or of a row, its record is read from."""


def _brief(version: Version) -> Brief:
    seq, n, op, _, turn, identifier, _, body = version
    return seq, n, op, turn, identifier, body


class _Standing:
    """Live records of a collection, found among versions that are offered newest first."""

    def __init__(self, connection: apsw.Connection, collection: str, limit: int | None) -> None:
        self.connection = connection
        self.collection = COLLECTIONS[collection]
        self.limit = limit
        self.found: list[Entry] = []
        self._seen: set[str] = set()

    def offer(self, stretch: Stretch, versions: Iterable[Brief]) -> bool:
        """Take what is the newest of its record; whether there are enough now."""
        seen, found, spec, limit = self._seen, self.found, self.collection, self.limit
        name = spec.name
        for seq, n, op, turn, packed, body in versions:
            identifier = unpack_id(packed)
            if identifier in seen:
                continue
            seen.add(identifier)
            if op:
                record = (
                    decode_record(name, body)
                    if body is not None
                    else _record_in_log(self.connection, stretch, seq, n)
                )
                key = key_of(spec, record, identifier)
                found.append(Entry(name, identifier, key, seq, turn, record))
                if len(found) == limit:
                    return True
        return False


def _between_flushes(
    connection: apsw.Connection, place: Place, stretch: Stretch, number: int
) -> list[Version]:
    """Versions a flush left no row of that count at the end of a stretch, newest first."""
    if number not in (CALLS, TOOLS) or (stretch.s == place.s and stretch.upto >= place.flushed):
        return []
    found = one(connection, SQL["flush_before"], (stretch.s, stretch.upto))
    start = max(found[0] or 0, stretch.after)
    if start >= stretch.upto:
        return []
    if number == TOOLS:
        window = msgspec.structs.replace(stretch, after=start)
        tail = replayed(read_stretch(connection, window, load=False), lambda *_: KEYLESS)
        return tail.versions(number, start, stretch.upto)[::-1]
    rows = many(connection, SQL["call_standing"], (stretch.s, start, stretch.upto, stretch.upto))
    versions: list[Version] = []
    for (seq,) in rows:
        commit = read_one(connection, stretch, seq, load=False)
        identifier = commit.delta[0].id
        # A call that has a row was more than put and dropped: its rows tell how it stood.
        if one(connection, SQL["rec_at"], (stretch.s, CALLS, seq, pack_id(identifier))) is None:
            versions.append((seq, 0, 1, 0, commit.turn, identifier, None, None))
    return versions


def _offer_stretch(
    connection: apsw.Connection, stretch: Stretch, number: int, standing: _Standing
) -> bool:
    """Offer a stretch's versions: back to its last snapshot, then what was live in that."""
    s = stretch.s
    if standing.limit is not None:
        # The newest few are usually among the last rows; a snapshot of many need not be unpacked.
        rows = connection.execute(SQL["rec_back"], (s, number, stretch.after, stretch.upto))
        if standing.offer(stretch, islice(rows, standing.limit * 8)):
            return True
        if next(rows, None) is None:  # those were all
            return False
    start, pointers = snapshot_before(connection, s, number, stretch.after, stretch.upto)
    rows = connection.execute(SQL["rec_back"], (s, number, start, stretch.upto))
    if standing.offer(stretch, rows):
        return True
    return standing.offer(stretch, _rows_at(connection, s, number, pointers[::-1]))


def _rows_at(
    connection: apsw.Connection, s: int, number: int, pointers: Sequence[tuple[int, int]]
) -> Iterator[Brief]:
    """The rows that pointers of a snapshot stand for, newest first.

    Where those of a run lie close, all rows from its first to its last are read one after the other
    and the others left out; elsewhere each is looked up. How close that is depends on how many rows
    the collection has, which the newest tell.
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
            yield from many(connection, SQL["rec_places"], (encode_places(places), s, number))
            continue
        rows = many(connection, SQL["rec_back"], (s, number, low - 1, high))
        rows_a_seq = len(rows) / (high - low + 1)
        if len(rows) == len(run):
            yield from rows
            continue
        wanted = set(places)
        yield from (row for row in rows if row[0] << N_BITS | row[1] in wanted)


def _entry(
    connection: apsw.Connection, stretch: Stretch, collection: str, version: Version
) -> Entry:
    seq, n, _, _, turn, identifier, known, body = version
    record = (
        decode_record(collection, body)
        if body is not None
        else _record_in_log(connection, stretch, seq, n)
    )
    found = known if known is not None else key_of(COLLECTIONS[collection], record, identifier)
    return Entry(collection, identifier, found, seq, turn, record)


def _record_in_log(connection: apsw.Connection, stretch: Stretch, seq: int, n: int) -> Record:
    commit = read_bare(connection, stretch, seq)
    op = commit.delta[n]
    assert isinstance(op, Put), f"op {n} of @{seq} is a put in the index and not in the log"
    assert put_item(n) in commit.content
    return op.record


def find_entry(
    connection: apsw.Connection, place: Place, collection: str, wanted: str, at: int | None
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
    own = place.stretches[-1]
    version = place.tail.latest.get((number, wanted))
    if version is not None and version[0] > upto:
        earlier = place.tail.versions(number, place.flushed, upto)
        version = next((v for v in reversed(earlier) if v[6] == wanted), None)
    if version is not None:
        return _entry(connection, own, collection, version) if version[2] else None
    hashed = key_hash(number, wanted)
    for stretch in reversed(place.upto(at)):
        if not place.has_rows(stretch, number):
            continue
        values = (number, hashed, stretch.s, stretch.after, stretch.upto)
        for row in connection.execute(SQL["rec_find"], values):
            found = _log_version(connection, place, stretch, collection, from_sql(row))
            if found.key != wanted:
                continue  # another key with the same digest
            if not isinstance(found.op, Put):
                return None
            return Entry(collection, found.op.id, wanted, found.seq, found.turn, found.op.record)
    return None


def read_versions(
    connection: apsw.Connection,
    place: Place,
    *,
    after: int,
    upto: int,
    collections: Sequence[str],
) -> list[LogVersion]:
    """Every op of those collections in a range of seqs, in log order."""
    names = {check_collection(name): name for name in collections or COLLECTIONS}
    found: list[LogVersion] = []
    for stretch in place.upto(upto):
        low = max(stretch.after, after)
        if low < stretch.upto:
            found += (
                _log_version(connection, place, stretch, names[number], version)
                for number, version in _flushed_versions(connection, place, stretch, names, low)
            )
    own = place.stretches[-1]
    for number, name in names.items():
        found += (
            _log_version(connection, place, own, name, version)
            for version in place.tail.versions(number, max(after, place.flushed), upto)
        )
    found.sort(key=lambda version: (version.seq, version.n))
    return found


def read_replaced(
    connection: apsw.Connection, place: Place, ops: Sequence[Op]
) -> list[LogVersion | None]:
    """The version that each op put or dropped another in place of; None where there was none."""
    return [_replaced(connection, place, op) if op.was else None for op in ops]


def _replaced(connection: apsw.Connection, place: Place, op: Op) -> LogVersion | None:
    number = check_collection(op.collection)
    stretch = next(x for x in place.stretches if x.after < op.was <= x.upto)
    if op.collection not in READ_FROM_LOG:
        row = one(connection, SQL["rec_at"], (stretch.s, number, op.was, pack_id(op.id)))
        if row is not None and row[7] is not None:
            return _log_version(connection, place, stretch, op.collection, from_sql(row))
    return _put_in_log(connection, stretch, op.collection, op.id, op.was)


def _flushed_versions(
    connection: apsw.Connection, place: Place, stretch: Stretch, numbers: Iterable[int], low: int
) -> Iterator[tuple[int, Version]]:
    """Flushed versions of some collections in a stretch after `low`.

    A short range is read from the log in one go, a long one from the rows of each collection.
    """
    upto = min(stretch.upto, place.flushed) if stretch.s == place.s else stretch.upto
    if upto - low > SHORT_RANGE:
        for number in numbers:
            for version in _stretch_versions(connection, place, stretch, number, low):
                yield number, version
        return
    window = msgspec.structs.replace(stretch, after=low, upto=upto)
    tail = replayed(
        read_stretch(connection, window),
        lambda name, identifier, was: _dropped_key(connection, place, name, identifier, was),
    )
    for number in numbers:
        for version in tail.versions(number, low, upto):
            yield number, version


def _stretch_versions(
    connection: apsw.Connection, place: Place, stretch: Stretch, number: int, low: int
) -> list[Version]:
    """Every flushed version of a collection in a stretch after `low`, from its rows or from the log."""
    if number not in (CALLS, TOOLS):
        rows = many(connection, SQL["rec_forward"], (stretch.s, number, low, stretch.upto))
        return [from_sql(row) for row in rows]
    upto = min(stretch.upto, place.flushed) if stretch.s == place.s else stretch.upto
    window = msgspec.structs.replace(stretch, after=low, upto=upto)
    tail = replayed(read_stretch(connection, window, load=False), lambda *_: KEYLESS)
    return tail.versions(number, low, upto)


def _log_version(
    connection: apsw.Connection, place: Place, stretch: Stretch, name: str, version: Version
) -> LogVersion:
    seq, n, op, was, turn, identifier, known, _ = version
    made: Op
    if op:
        entry = _entry(connection, stretch, name, version)
        made, found = Put(name, identifier, entry.record, was), entry.key
    else:
        made = Drop(name, identifier, was)
        found = (
            known
            or _key_put_with(connection, stretch, name, version)
            or _dropped_key(connection, place, name, identifier, was)
        )
    return LogVersion(seq, n, turn, found, made)


def _key_put_with(
    connection: apsw.Connection, stretch: Stretch, name: str, drop: Version
) -> str | None:
    """The key of a record that was put and dropped by one commit; `was` tells nothing of that put."""
    seq, n, _, was, _, identifier, _, _ = drop
    number = COLLECTIONS[name].number
    if not was:
        return _key_in_log(connection, stretch, name, identifier, seq)
    if number in (CALLS, TOOLS):
        return None
    row = one(connection, SQL["rec_put_with"], (stretch.s, number, seq, pack_id(identifier), n))
    return None if row is None else _entry(connection, stretch, name, from_sql(row)).key


def _dropped_key(
    connection: apsw.Connection, place: Place, name: str, identifier: str, was: int
) -> str:
    number = COLLECTIONS[name].number
    for version in place.tail.versions(number, was - 1, was):
        if version[5] == identifier:
            return _entry(connection, place.stretches[-1], name, version).key
    return flushed_key(connection, place, name, identifier, was)
