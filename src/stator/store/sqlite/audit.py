"""Auditing a store file: pages, schema, and every projection against what the log says.

The hash chain is checked above the port, the same way for every store; this is what only the SQLite
store can know.
"""

from __future__ import annotations

from collections.abc import Iterator

import apsw

from stator.model.ids import from_bytes, to_bytes
from stator.model.query import Finding
from stator.store.sqlite import connection as opening
from stator.store.sqlite import reader
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.projection import (
    SQL,
    Ledger,
    Tail,
    counts,
    live_pointers,
    snapshot_before,
)
from stator.store.sqlite.reader import Place

REBUILD = "the log is intact; make the indexes again with: stator doctor --rebuild"


def audit(db: apsw.Connection, path: str) -> Iterator[Finding]:
    """Everything wrong with a store, one finding each."""
    for (message,) in many(db, "PRAGMA integrity_check(20)"):
        if message != "ok":
            yield Finding(
                what=str(message), check="pages", hint="restore a copy; see: stator doctor"
            )
    if opening.fingerprint(db) != opening.expected_fingerprint(db.pragma("user_version")):
        yield Finding(what="tables, views or triggers that are not ours", check="schema")
    yield from _strays(db)
    for s, identifier in many(db, SQL["session_ids"]):
        place = reader.load_place(db, from_bytes(identifier, "session"), with_tail=False)
        yield from _session(db, s, place)


def _strays(db: apsw.Connection) -> Iterator[Finding]:
    """Rows that belong to no session."""
    known = {s for s, _ in many(db, SQL["session_ids"])}
    for (s,) in many(db, "SELECT DISTINCT k >> 40 FROM log"):
        if s not in known:
            yield Finding(what=f"commits of a session that has no row (ordinal {s})", check="log")


def _session(db: apsw.Connection, s: int, place: Place) -> Iterator[Finding]:
    session = place.record.id
    ledger = Ledger()
    flushed = place.flushed
    for tail in reader.tails(db, place):
        done = _within(tail, flushed)
        if len(done):
            yield from _versions(db, s, session, done)
            yield from _ids(db, s, session, done)
            ledger = done.counted(ledger)
    if counts(ledger) != counts(place.ledger) or ledger.erased != place.ledger.erased:
        yield Finding(
            what=f"counts {counts(place.ledger)}, the log has {counts(ledger)}",
            check="counts",
            session=session,
            hint=REBUILD,
        )
    yield from _snapshots(db, s, place)


def _within(tail: Tail, flushed: int) -> Tail:
    done = Tail()
    for item in tail.commits:
        if item.seq <= flushed:
            done.add(item)
    return done


def _versions(db: apsw.Connection, s: int, session: str, tail: Tail) -> Iterator[Finding]:
    after, upto = tail.commits[0].seq - 1, tail.commits[-1].seq
    expected = {
        (number, version[0], version[1]): version
        for item in tail.commits
        for number, version in item.versions
    }
    rows = db.execute(
        "SELECT c, seq, n, op, was, turn, id, key, body FROM rec "
        "WHERE s = ? AND c BETWEEN 1 AND 99 AND seq > ? AND seq <= ?",
        (s, after, upto),
    )
    actual = {(c, row[0], row[1]): tuple(row) for c, *row in rows}
    for place in sorted(expected.keys() | actual.keys()):
        if expected.get(place) != actual.get(place):
            yield Finding(
                what="a state row does not match the log",
                check="state",
                session=session,
                seq=place[1],
                hint=REBUILD,
            )
            return


def _ids(db: apsw.Connection, s: int, session: str, tail: Tail) -> Iterator[Finding]:
    for item in tail.commits:
        row = one(db, SQL["commit_find"], (item.id,))
        if row is None or row[0] != reader.key(s, item.seq):
            yield Finding(
                what="the index of commit ids does not match the log",
                check="ids",
                session=session,
                seq=item.seq,
                hint=REBUILD,
            )
            return
    for turn, _, last, _, _ in tail.turns():
        row = one(db, SQL["turn_range"], (s, turn - 1, turn))
        if row is None or row[2] < last:
            yield Finding(
                what=f"the index of turns does not match the log at t{turn}",
                check="turns",
                session=session,
                seq=last,
                hint=REBUILD,
            )
            return
    intents, _ = tail.calls()
    for intent, _ in intents:
        row = one(db, "SELECT call, tool FROM call_ix WHERE s = ? AND seq = ?", (s, intent.seq))
        if row is None or row != (to_bytes(intent.call), intent.tool):
            yield Finding(
                what="the index of calls does not match the log",
                check="calls",
                session=session,
                seq=intent.seq,
                hint=REBUILD,
            )
            return


def _snapshots(db: apsw.Connection, s: int, place: Place) -> Iterator[Finding]:
    """Each snapshot must be what the one before it and the versions since make."""
    rows = many(db, "SELECT c, seq FROM snap WHERE s = ? ORDER BY c, seq", (s,))
    for number, seq in rows:
        _, stored = snapshot_before(db, s, number, seq - 1, seq)
        if stored != live_pointers(db, s, number, place.low, seq, before=seq):
            yield Finding(
                what="a snapshot does not match the log",
                check="snapshots",
                session=place.record.id,
                seq=seq,
                hint=REBUILD,
            )
            return


def usage(db: apsw.Connection) -> dict[str, int]:
    """Bytes by what they are for."""
    page = int(db.pragma("page_size"))
    found = {
        "file": page * int(db.pragma("page_count")),
        "free": page * int(db.pragma("freelist_count")),
        "log": int(one(db, SQL["bytes_log"])[0]),
        "blobs": int(one(db, SQL["bytes_blob"])[0]),
    }
    found["indexes"] = max(0, found["file"] - found["free"] - found["log"] - found["blobs"])
    return found
