"""Auditing a store file: pages, schema, and every projection against what the log says.

The hash chain is checked above the port, the same way for every store; this is what only the SQLite
store can know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import apsw

from stator.errors import StoreCorrupt
from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.log.query import Finding
from stator.model.records.types import SessionRecord
from stator.model.values.ids import from_bytes, to_bytes
from stator.store.sqlite import connection as opening
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.live_session import in_project
from stator.store.sqlite.projection import (
    KEY_KIND,
    SEQ_BITS,
    SEQ_MASK,
    SQL,
    Ledger,
    Tail,
    counts,
    each_tail,
    find_commit,
    flush,
    live_pointers,
    snapshot_before,
)
from stator.store.sqlite.queries import commits, lineage, places
from stator.store.sqlite.queries.lineage import SessionPlace
from stator.store.sqlite.queries.state import exact_ledger

RESTORE = "what the log says is right; restore a backup, or see: stator doctor"
REBUILD = "the log is intact; make the indexes again with: stator doctor --rebuild"


def audit(db: apsw.Connection, path: str) -> Iterator[Finding]:
    """Everything wrong with a store, one finding each."""
    for (message,) in many(db, "PRAGMA integrity_check(20)"):
        if message != "ok":
            yield Finding(
                what=str(message), check="pages", hint="restore a backup; see: stator doctor"
            )
    if opening.fingerprint(db) != opening.expected_fingerprint(db.pragma("user_version")):
        yield Finding(what="tables, views or triggers that are not ours", check="schema")
    yield from _strays(db)
    made = opening.scratch(db.pragma("user_version"))
    try:
        for s, identifier in many(db, SQL["session_ids"]):
            session = from_bytes(identifier, "session")
            try:
                place = places.load_place(db, session, with_tail=False)
            except StoreCorrupt as error:
                yield Finding(what=error.what, check="session", session=session, hint=error.hint)
                continue
            yield from _session(db, made, s, place)
        yield from _indexes(db, made)
        yield from _slots(db)
    finally:
        made.close()


def _strays(db: apsw.Connection) -> Iterator[Finding]:
    """Rows that belong to nothing."""
    for what, sql in _STRAYS:
        for (found,) in many(db, sql):
            yield Finding(what=f"{what} ({found})", check="log")


_STRAYS = (
    (
        "commits of a session that has no row",
        "SELECT DISTINCT k >> 40 FROM log WHERE k >> 40 NOT IN (SELECT s FROM session)",
    ),
    (
        "an alias of a session that has no row",
        "SELECT s FROM alias WHERE s NOT IN (SELECT s FROM session)",
    ),
    (
        "a blob that no commit needs",
        "SELECT k FROM blob WHERE k NOT IN (SELECT blob FROM blob_use)",
    ),
    ("a blob is missing", "SELECT blob FROM blob_use WHERE blob NOT IN (SELECT k FROM blob)"),
    (
        "a blob of a commit that is missing",
        "SELECT blob FROM blob_use WHERE log NOT IN (SELECT k FROM log)",
    ),
    (
        "an epoch beyond the store's counter",
        "SELECT epoch FROM session WHERE epoch > (SELECT value FROM meta WHERE key = 'epoch')",
    ),
)


class _Last:
    """The last commit that the log holds of a session, and its time."""

    record: SessionRecord | None = None
    seq = 0
    times: tuple[int, ...] = ()
    """When it was appended, which is what 0.3 noted as the last change, and when it was used."""

    def watch(self, commits: Iterable[Commit]) -> Iterator[Commit]:
        for commit in commits:
            self.seq, self.times = commit.seq, (commit.at, commit.used)
            for op in commit.delta:
                if isinstance(op, Put) and isinstance(op.record, SessionRecord):
                    self.record = op.record
            yield commit


def _session(
    db: apsw.Connection, made: apsw.Connection, s: int, place: SessionPlace
) -> Iterator[Finding]:
    """Make a session's indexes again, in `made`, and hold its row against its log."""

    def key_of_id(collection: str, identifier: str, was: int) -> str:
        return places.flushed_key(db, place, collection, identifier, was)

    ledger, last = Ledger(exact=True), _Last()
    watched = last.watch(commits.read_segment(db, place.segments[-1]))
    cuts = frozenset(seq for (seq,) in many(db, "SELECT seq FROM flush_ix WHERE s = ?", (s,)))
    for tail in each_tail(watched, key_of_id, cuts):
        done = _within(tail, place.flushed)
        if len(done):
            made.executemany(
                "INSERT INTO log VALUES (?, ?, x'', x'', x'')",
                [(lineage.key(s, item.seq), item.id) for item in done.commits],
            )
            ledger = flush(made, s, done, ledger, place.low, place.lineage)
    session = place.record.id
    kept = exact_ledger(db, place)
    if counts(ledger) != counts(kept) or ledger.erased != place.ledger.erased:
        yield Finding(
            what=f"counts {counts(kept)}, the log has {counts(ledger)}",
            check="counts",
            session=session,
            hint=REBUILD,
        )
    if (
        ledger.snaps.keys() != place.ledger.snaps.keys()
    ):  # a collection that is not there is not read
        yield Finding(
            what="which collections its log has touched is not what its row says",
            check="counts",
            session=session,
            hint=REBUILD,
        )
    # A session that only releases before 0.6 have written has no index of keys yet.
    if place.ledger.keyed >= place.flushed and _keys(db, s) != _keys(made, s):
        yield Finding(
            what="the index of keys does not match the log",
            check="keys",
            session=session,
            hint=REBUILD,
        )
    for what in _row(db, s, place, last):
        yield Finding(what=what, check="session", session=session, seq=last.seq, hint=RESTORE)
    yield from _snapshots(db, s, place)


def _keys(db: apsw.Connection, s: int) -> list[Any]:
    sql = "SELECT source, foreign_id, attempt, seq FROM origin_ix WHERE s = ? AND kind = ?"
    return many(db, sql + " ORDER BY source, foreign_id, attempt", (s, KEY_KIND))


def _row(db: apsw.Connection, s: int, place: SessionPlace, last: _Last) -> Iterator[str]:
    """Where the session's row disagrees with its log."""
    if not place.dirty and place.flushed != last.seq:
        yield f"its indexes reach to @{place.flushed} and claim to be whole; the log to @{last.seq}"
    if not place.dirty and place.updated not in last.times:
        yield "its time of last change is not that of its last commit"
    record = last.record
    if record is None:  # erased, or no commit of its own yet
        return
    record = in_project(record, place.record.project)  # a session from elsewhere may be in another
    if record != place.record:
        yield "its row does not say what its log says of it"
    parent = to_bytes(record.parent.session) if record.parent else None
    told = (to_bytes(record.id), record.tenant, record.project, record.name, record.agent)
    columns = (
        "SELECT id, tenant, project, name, agent, mode, status, parent FROM session WHERE s = ?"
    )
    if one(db, columns, (s,)) != (*told, record.mode, record.status, parent):
        yield "a column of its row is not what its log says"
    aliases = many(db, "SELECT tenant, source, foreign_id FROM alias WHERE s = ?", (s,))
    if set(aliases) != {(record.tenant, *alias) for alias in record.aliases}:
        yield "its aliases are not those its log says"


def _within(tail: Tail, flushed: int) -> Tail:
    done = Tail()
    for item in tail.commits:
        if item.seq <= flushed:
            done.add(item)
    return done


_ROWS = {
    "state": ("SELECT s, seq, c, n, op, was, turn, id, key, body FROM rec ORDER BY s, c, seq, n"),
    "ids": "SELECT k >> 40, k & 1099511627775 FROM commit_ix ORDER BY k",
    "flushes": "SELECT s, seq FROM flush_ix ORDER BY s, seq",
    "origins": (
        "SELECT s, seq, kind, source, foreign_id, attempt FROM origin_ix WHERE kind <> 'turn key' "
        "ORDER BY s, kind, source, foreign_id, attempt"
    ),
    "turns": "SELECT s, last, turn, first, at, status FROM turn_ix ORDER BY s, turn",
    "calls": (
        "SELECT s, seq, call, tool, effect, status, cause, attempt, outcome, turn, at FROM call_ix "
        "ORDER BY s, seq"
    ),
}
"""Each index as rows that begin with (session ordinal, seq)."""


def _indexes(db: apsw.Connection, made: apsw.Connection) -> Iterator[Finding]:
    """The first row of each index that is not the one the log makes."""
    for check, sql in _ROWS.items():
        for mine, right in zip_longest(db.execute(sql), made.execute(sql)):
            if mine != right:
                s, seq = (right or mine)[:2]  # of a damaged row, anything may be missing
                found = one(db, SQL["session_id"], (s,))
                yield Finding(
                    what=f"the index of {check} does not match the log",
                    check=check,
                    session=from_bytes(found[0], "session") if found else "",
                    seq=seq if isinstance(seq, int) else 0,
                    hint=REBUILD,
                )
                break


def _slots(db: apsw.Connection) -> Iterator[Finding]:
    """Every commit must be found by its id."""
    for k, identifier in db.execute("SELECT k, log.id FROM commit_ix JOIN log USING (k)"):
        if find_commit(db, identifier) != k:
            found = one(db, SQL["session_id"], (k >> SEQ_BITS,))
            yield Finding(
                what="a commit is not found by its id",
                check="ids",
                session=from_bytes(found[0], "session") if found else "",
                seq=k & SEQ_MASK,
                hint=REBUILD,
            )
            return


def _snapshots(db: apsw.Connection, s: int, place: SessionPlace) -> Iterator[Finding]:
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
