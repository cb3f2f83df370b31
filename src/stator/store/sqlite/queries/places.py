"""Finds where a session lies in the file, and where its records and commits do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import apsw

from stator.errors import NotFound, StoreCorrupt
from stator.model.log.commit import Commit
from stator.model.log.delta import (
    Put,
)
from stator.model.log.delta import Version as LogVersion
from stator.model.records.tables import COLLECTIONS, key_of
from stator.model.records.types import KEYLESS, SessionRecord
from stator.model.values.ids import from_bytes, is_id, to_bytes
from stator.model.values.tagged import has_surrogate
from stator.store.drafts import keys_of
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.projection import (
    KEY_KIND,
    SEQ_BITS,
    SEQ_MASK,
    SQL,
    Tail,
    each_tail,
    find_commit,
    unpack_ledger,
)
from stator.store.sqlite.queries.commits import (
    RecordReader,
    encode_array,
    entry_of,
    read_bare,
    read_segment,
)
from stator.store.sqlite.queries.lineage import (
    MAX_SEQ,
    LogSegment,
    SessionPlace,
    Stamp,
    decode_session,
    key,
)
from stator.store.sqlite.versions import (
    CALLS,
    TOOLS,
    Version,
    from_sql,
    pack_id,
)

KNOWN_MAX = 10_000
"""Keys an ingest remembers before it looks them up again."""


def load_place(connection: apsw.Connection, session: str) -> SessionPlace:
    """A session's place, without its tail (`tails`); `NotFound` if there is no such session."""
    row = None
    if is_id(session, "session"):
        row = one(connection, SQL["session_by_id"], (to_bytes(session),))
    if row is None:
        raise NotFound(f"no session {session}", hint="stator ls lists sessions", session=session)
    return place_of(connection, row)


def place_of(connection: apsw.Connection, row: Any) -> SessionPlace:
    s, record_bytes, epoch, holder, updated, flushed, dirty, ledger = row
    record = decode_session(record_bytes)
    segments, stamps = _segments(connection, s, record)
    return SessionPlace(
        s,
        record,
        epoch,
        flushed,
        bool(dirty),
        unpack_ledger(ledger),
        segments,
        Tail(),
        ((s, flushed, ledger), *stamps),
        holder,
        updated,
    )


def _segments(
    connection: apsw.Connection, s: int, record: SessionRecord
) -> tuple[list[LogSegment], Stamp]:
    """The segments of a session's log, and the stamp of those it inherited."""
    segments: list[LogSegment] = []
    stamps: list[tuple[int, int, bytes]] = []
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
                hint="if stator verify finds the log intact, rebuild them: stator doctor --rebuild",
                session=segment.session,
            )
        stamps.append((row[0], row[5], row[7]))
        ledger = unpack_ledger(row[7])
        erased, kept = frozenset(ledger.erased), frozenset(ledger.snaps)
        segments.append(
            LogSegment(
                row[0], segment.session, segment.after, segment.upto, erased, kept, ledger.keyed
            )
        )
    low = segments[-1].upto if segments else 0
    segments.append(LogSegment(s, record.id, low, MAX_SEQ))
    return segments, tuple(stamps)


def tails(connection: apsw.Connection, place: SessionPlace) -> Iterator[Tail]:
    """The session's whole own log as tails of a bounded size."""

    def key_of_id(collection: str, identifier: str, was: int) -> str:
        return flushed_key(connection, place, collection, identifier, was)

    return each_tail(read_segment(connection, place.segments[-1]), key_of_id)


def resolve_keys(
    connection: apsw.Connection,
    place: SessionPlace,
    commit: Commit,
    known: dict[tuple[str, str], str],
) -> list[str]:
    """The keys of an ingested commit's ops; `known` remembers those of the commits before it."""

    def key_of_id(name: str, identifier: str, was: int) -> str:
        found = known.pop((name, identifier), None)
        return found or dropped_key(connection, place, name, identifier, was)

    keys = keys_of(commit, key_of_id)
    if len(known) > KNOWN_MAX:
        known.clear()
    for op, found in zip(commit.delta, keys, strict=True):
        if isinstance(op, Put):
            known[op.collection, op.id] = found
    return keys


def flushed_key(
    connection: apsw.Connection, place: SessionPlace, collection: str, identifier: str, was: int
) -> str:
    """The key a record had at the seq that touched it, from the flushed versions or the log."""
    number = COLLECTIONS[collection].number
    for segment in place.segments:
        if segment.after < was <= segment.upto:
            row = one(connection, SQL["rec_at"], (segment.s, number, was, pack_id(identifier)))
            if row is not None and row[2]:
                return entry_of(RecordReader(connection), segment, collection, from_sql(row)).key
            return key_in_log(connection, segment, collection, identifier, was)
    return KEYLESS + identifier


def put_in_log(
    connection: apsw.Connection, segment: LogSegment, collection: str, identifier: str, seq: int
) -> LogVersion | None:
    """The last put of a record by the commit at a seq."""
    commit = read_bare(connection, segment, seq)
    for n, op in reversed(list(enumerate(commit.delta))):
        if isinstance(op, Put) and op.id == identifier and op.collection == collection:
            return LogVersion(
                seq, n, commit.turn, key_of(COLLECTIONS[collection], op.record, identifier), op
            )
    return None


def key_in_log(
    connection: apsw.Connection, segment: LogSegment, collection: str, identifier: str, was: int
) -> str:
    found = put_in_log(connection, segment, collection, identifier, was)
    return KEYLESS + identifier if found is None else found.key


def locate(
    connection: apsw.Connection, text: str, place: SessionPlace | None
) -> list[tuple[str, int]]:
    """(session, seq) of commits by the end of their id or the start of their hash, in one session or in all."""
    digits = text[2:] if text.startswith("k_") else text
    if not 4 <= len(digits) <= 64 or not set(digits) <= set("0123456789abcdef"):
        return []
    if place is not None:
        if is_id(text, "commit"):  # the whole id: there is an index of those
            return locate_id(connection, place, to_bytes(text))
        return _locate_in(connection, place.segments, digits)
    if is_id(text, "commit") and (known := find_commit(connection, to_bytes(text))) is not None:
        return [_place_of(connection, known)]
    n = len(digits) // 2
    wanted = {
        "digits": digits,
        "n": n,
        "head": bytes.fromhex(digits[: 2 * n]),
        "tail": bytes.fromhex(digits[-2 * n :]),
    }
    rows = many(connection, SQL["log_match_all"], wanted)
    return [_place_of(connection, k) for (k,) in rows]


def with_origins(
    connection: apsw.Connection, place: SessionPlace, origins: Collection[tuple[str, str]]
) -> set[int]:
    """The seqs of the commits that have one of these origins (source, id)."""
    # What cannot be written as UTF-8 is in no index.
    wanted = {
        (source, foreign) for source, foreign in origins if not has_surrogate(source + foreign)
    }
    found = {seq for (_, *origin, _), seq in place.tail.origins.items() if tuple(origin) in wanted}
    for segment in place.segments:
        values = {
            "s": segment.s,
            "origins": encode_array(sorted(wanted)),
            "not_kind": KEY_KIND,
            "after": segment.after,
            "upto": segment.upto,
        }
        found.update(seq for (seq,) in many(connection, SQL["origin_some"], values))
    return found


def _place_of(connection: apsw.Connection, k: int) -> tuple[str, int]:
    identifier = one(connection, SQL["session_id"], (k >> SEQ_BITS,))[0]
    return from_bytes(identifier, "session"), k & SEQ_MASK


def locate_id(
    connection: apsw.Connection, place: SessionPlace, identifier: bytes
) -> list[tuple[str, int]]:
    """(session, seq) of the commit with that id, if the session or its lineage has it."""
    seq = place.tail.ids.get(identifier)
    if seq is not None:
        return [(place.record.id, seq)]
    found = find_commit(connection, identifier)
    s, seq = (0, 0) if found is None else (found >> SEQ_BITS, found & SEQ_MASK)
    return [(part.session, seq) for part in place.segments if part.s == s and 0 < seq <= part.upto]


def _locate_in(
    connection: apsw.Connection, segments: Sequence[LogSegment], digits: str
) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for segment in segments:
        bounds = {
            "low": key(segment.s, 0) + max(segment.after, 0),
            "high": key(segment.s, segment.upto) + 1,
        }
        rows = many(connection, SQL["log_match"], {**bounds, "digits": digits})
        found += ((segment.session, k & SEQ_MASK) for (k,) in rows)
    return found[:10]


def key_put_with(
    connection: apsw.Connection, segment: LogSegment, name: str, drop: Version
) -> str | None:
    """The key of a record that was put and dropped by one commit; `was` says nothing about that put."""
    seq, n, _, was, _, identifier, _, _ = drop
    number = COLLECTIONS[name].number
    if not was:
        return key_in_log(connection, segment, name, identifier, seq)
    if number in (CALLS, TOOLS):
        return None
    row = one(connection, SQL["rec_put_with"], (segment.s, number, seq, pack_id(identifier), n))
    return (
        None
        if row is None
        else entry_of(RecordReader(connection), segment, name, from_sql(row)).key
    )


def dropped_key(
    connection: apsw.Connection, place: SessionPlace, name: str, identifier: str, was: int
) -> str:
    number = COLLECTIONS[name].number
    for version in place.tail.versions(number, was - 1, was):
        if version[5] == identifier:
            return entry_of(RecordReader(connection), place.segments[-1], name, version).key
    return flushed_key(connection, place, name, identifier, was)
