"""Audits a store file besides its log: pages, schema, and every projection against what the log says.

The hash chain is checked above the port, the same way for every store; this is what only the SQLite
store can know. A check that cannot be carried out is a finding, and the others are still carried out.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator
from itertools import zip_longest
from typing import Any

import apsw
import msgspec

from stator.errors import StatorError
from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.log.query import Finding
from stator.model.records.types import SessionRecord
from stator.model.values.ids import from_bytes, to_bytes
from stator.store.compress import decompress
from stator.store.drafts import in_project
from stator.store.sqlite import connection as opening
from stator.store.sqlite.bookmarks import PREFIX as NOTES
from stator.store.sqlite.bookmarks import unpacked
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.log_scan import READ_ERRORS
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
from stator.store.sqlite.space import MARK, TRACES

RESTORE = "what the log says is right; restore a backup, or see: stator doctor"
REBUILD = "rebuild the indexes: stator doctor --rebuild"
MESSAGES_MAX = 100
META = ("store", "created", "blob_key", "epoch", opening.SEAL, MARK, TRACES)
"""What this release writes into the table `meta`."""
_PAGE = re.compile(r"page (\d+)(?: cell (\d+))?")
_TREE = re.compile(r"Tree (\d+)\b")


def audit(db: apsw.Connection, skip: Collection[str] = ()) -> Iterator[Finding]:
    """Everything wrong with a store besides its log, one finding each.

    Sessions to `skip` have a damaged log: their indexes are compared with nothing.
    """
    yield from _pages(db)
    yield from _guarded("schema", _schema(db))
    yield from _guarded("meta", _meta(db))
    for what, check, sql in _STRAYS:
        yield from _guarded(check, _strays(db, what, check, sql))
    made = opening.scratch(db.pragma("user_version"))
    remade = _Remade(made, set(skip))
    try:
        for s, session in _sessions(db):
            yield from _session(db, remade, s, session)
        left_out, uses = remade.left_out, remade.uses
        for check, sql in _ROWS.items():
            yield from _guarded(check, _index(db, made, check, sql, left_out))
        yield from _guarded("ids", _slots(db, left_out))
        yield from _guarded("blobs", _blob_uses(db, uses, left_out))
    finally:
        made.close()


def _guarded(check: str, found: Iterator[Finding], session: str = "") -> Iterator[Finding]:
    """The findings of one check; if it cannot be carried out, that is a finding, and the others still are."""
    try:
        yield from found
    except READ_ERRORS as error:
        what = error.what if isinstance(error, StatorError) else "damaged pages or values"
        yield Finding(
            what=f"the table of {check} cannot be read: {what}",
            check=check,
            session=session,
            hint=RESTORE if check in ("session", "meta", "schema", "log") else REBUILD,
        )


def _schema(db: apsw.Connection) -> Iterator[Finding]:
    if opening.fingerprint(db) != opening.expected_fingerprint(db.pragma("user_version")):
        yield Finding(what="tables, views or triggers that are not ours", check="schema")


def _meta(db: apsw.Connection) -> Iterator[Finding]:
    """What the store says of itself: its id, its key, the counter of epochs."""
    found = dict(many(db, "SELECT key, value FROM meta"))
    for name, kind in (("store", str), ("blob_key", bytes), ("epoch", int), ("created", int)):
        if not isinstance(found.get(name), kind):
            yield Finding(
                what=f"the store's own {name} is missing or of another type",
                check="meta",
                hint="restore a backup",
            )
    if opening.SEAL in found and found[opening.SEAL] != opening.seal_of(found):
        yield Finding(
            what="the store's id, key or time of creation is not what it was created with",
            check="meta",
            hint="restore a backup: grants of people are bound to the store's id",
        )
    notes = {str(name) for name in found if str(name).startswith(NOTES)}
    for name in sorted(notes):
        if unpacked(name, found[name]) is None:
            yield Finding(
                what=f"the note {name[:80]!r} of how far a source was read is damaged",
                check="meta",
                hint="nothing is lost: the source is read from its beginning the next time",
            )
    unknown = sorted(str(name) for name in found if name not in META and name not in notes)
    if unknown:
        yield Finding(
            what=f"the store says of itself what this release does not know: {', '.join(unknown)[:80]}",
            check="meta",
            hint="if no newer release wrote it, restore a backup",
        )


def _sessions(db: apsw.Connection) -> Iterator[tuple[int, str]]:
    """(ordinal, id) of every session; the id is empty where it cannot be read."""
    ordinals: list[int] = []
    with contextlib.suppress(
        *READ_ERRORS
    ):  # what is left of the table is read; `_pages` reports it
        for (s,) in db.execute("SELECT s FROM session ORDER BY s"):
            ordinals.append(s)
    for s in ordinals:
        try:
            yield s, from_bytes(one(db, SQL["session_id"], (s,))[0], "session")
        except READ_ERRORS:
            yield s, ""


# -- pages ----------------------------------------------------------------------------------------


def _pages(db: apsw.Connection) -> Iterator[Finding]:
    """What SQLite finds wrong with the file, each with what lies on the page."""
    try:
        messages = [str(row[0]) for row in many(db, f"PRAGMA integrity_check({MESSAGES_MAX})")]
    except READ_ERRORS as error:
        messages = [f"the pages cannot be checked: {error}"]
    wrong = [line for message in messages for line in message.splitlines() if line != "ok"]
    if not wrong:
        return
    trees, pages = _trees(db), _log_pages(db)
    for line in dict.fromkeys(wrong):
        tree, page = _TREE.search(line), _PAGE.search(line)
        name = trees.get(int(tree[1]), "") if tree else ""
        held: range = pages.get(int(page[1]), range(0)) if page else range(0)
        keys = _log_keys(db, held)
        if page and page[2] and int(page[2]) < len(keys):
            keys = [keys[int(page[2])]]
        session, seq = _place_of(db, keys[0]) if keys else ("", 0)
        what = f"{line} (in {name})" if name else line
        if len(keys) > 1:
            _, last = _place_of(db, keys[-1])
            what += f"; the page holds commits from this one to @{last}"
        yield Finding(
            what=what, check="pages", session=session, seq=seq, hint="restore a backup or a bundle"
        )


def _trees(db: apsw.Connection) -> dict[int, str]:
    with contextlib.suppress(*READ_ERRORS):
        sql = "SELECT rootpage, type || ' ' || name FROM sqlite_schema WHERE rootpage > 0"
        return dict(many(db, sql))
    return {}


def _log_pages(db: apsw.Connection) -> dict[int, range]:
    """Which rows of the log, counted from the first, lie on which page."""
    found: dict[int, range] = {}
    start = 0
    with contextlib.suppress(*READ_ERRORS):
        for page, kind, size in db.execute(
            "SELECT pageno, pagetype, ncell FROM dbstat WHERE name = 'log' ORDER BY path"
        ):
            if kind == "leaf":
                found[page] = range(start, start + size)
                start += size
            elif kind == "overflow":  # listed behind its leaf: the row is one of that page
                found[page] = next(reversed(found.values()), range(0))
            else:
                found[page] = range(start, start + 1)
    return found


def _log_keys(db: apsw.Connection, rows: range) -> list[int]:
    if not rows:
        return []
    with contextlib.suppress(*READ_ERRORS):
        sql = "SELECT k FROM log LIMIT ? OFFSET ?"
        return [k for (k,) in db.execute(sql, (len(rows), rows.start))]
    return []


def _place_of(db: apsw.Connection, k: int) -> tuple[str, int]:
    """The session and seq of a log row; the session is empty where its row cannot be read."""
    with contextlib.suppress(*READ_ERRORS):
        found = one(db, SQL["session_id"], (k >> SEQ_BITS,))
        if found is not None:
            return from_bytes(found[0], "session"), k & SEQ_MASK
    return "", k & SEQ_MASK


# -- rows -----------------------------------------------------------------------------------------


def _strays(db: apsw.Connection, what: str, check: str, sql: str) -> Iterator[Finding]:
    """Rows that belong to nothing; `sql` gives the row and the key of its commit, if it has one."""
    for found, k in many(db, sql):
        session, seq = _place_of(db, k) if isinstance(k, int) else ("", 0)
        yield Finding(what=f"{what} ({found})", check=check, session=session, seq=seq, hint=RESTORE)


_STRAYS = (
    (
        "commits of a session that has no row",
        "log",
        "SELECT DISTINCT k >> 40, NULL FROM log WHERE k >> 40 NOT IN (SELECT s FROM session)",
    ),
    (
        "an alias of a session that has no row",
        "alias",
        "SELECT s, NULL FROM alias WHERE s NOT IN (SELECT s FROM session)",
    ),
    (
        "a blob that no commit needs",
        "blobs",
        "SELECT k, NULL FROM blob WHERE k NOT IN (SELECT blob FROM blob_use)",
    ),
    (
        "a blob is missing",
        "blobs",
        "SELECT blob, log FROM blob_use WHERE blob NOT IN (SELECT k FROM blob)",
    ),
    (
        "a blob of a commit that is missing",
        "blobs",
        "SELECT blob, log FROM blob_use WHERE log NOT IN (SELECT k FROM log)",
    ),
    (
        "an epoch beyond the store's counter",
        "session",
        "SELECT epoch, s << 40 FROM session WHERE epoch > (SELECT value FROM meta WHERE key = 'epoch')",
    ),
)


def _blob_uses(
    db: apsw.Connection, uses: set[tuple[int, int]], left_out: set[int]
) -> Iterator[Finding]:
    """Which commit needs which blob, and how long a blob is."""
    noted = {(b, k) for b, k in db.execute("SELECT blob, log FROM blob_use")}
    wrong = {(b, k) for b, k in noted ^ uses if k >> SEQ_BITS not in left_out}
    for _, k in sorted(wrong)[:1]:
        session, seq = _place_of(db, k)
        what = "the blobs noted for a commit are not those it needs"
        yield Finding(what=what, check="blobs", session=session, seq=seq, hint=RESTORE)
    for k, size, data in db.execute("SELECT k, size, data FROM blob"):
        with contextlib.suppress(
            *READ_ERRORS
        ):  # one that cannot be unpacked is found with its commit
            if len(decompress(data)) != size:
                user = one(db, "SELECT min(log) FROM blob_use WHERE blob = ?", (k,))
                session, seq = _place_of(db, user[0] or 0)
                what = "the size noted for a blob is not its size"
                yield Finding(what=what, check="blobs", session=session, seq=seq, hint=RESTORE)


class _Remade:
    """The indexes as the log makes them, in a private store, and what the logs need and say on the way."""

    def __init__(self, made: apsw.Connection, skip: set[str]) -> None:
        self.made = made
        self.skip = skip
        """Sessions whose log cannot be relied on; their forks cannot be compared either."""
        self.left_out: set[int] = set()
        """The ordinals of those."""
        self.uses: set[tuple[int, int]] = set()
        """(key of a blob, key of a commit that needs it)."""


class _Last:
    """The last commit that the log holds of a session, and its time."""

    record: SessionRecord | None = None
    seq = 0
    times: tuple[int, ...] = ()
    """When it was appended, which is what 0.3 noted as the last change, and when it was used."""

    def watch(
        self, commits: Iterable[Commit], s: int, slots: list[int], uses: set[tuple[int, int]]
    ) -> Iterator[Commit]:
        for commit in commits:
            self.seq, self.times = commit.seq, (commit.at, commit.used)
            uses.update((slot, lineage.key(s, commit.seq)) for slot in slots)
            slots.clear()
            for op in commit.delta:
                if isinstance(op, Put) and isinstance(op.record, SessionRecord):
                    self.record = op.record
            yield commit


def _session(db: apsw.Connection, remade: _Remade, s: int, session: str) -> Iterator[Finding]:
    """Make a session's indexes again, and compare its row with its log."""
    if session == "" or session in remade.skip:
        remade.left_out.add(s)
        return
    try:
        place = places.load_place(db, session)
        if any(part.session in remade.skip for part in place.record.lineage):
            remade.left_out.add(s)
            return
        ledger, last = _make(db, remade, s, place)
    except READ_ERRORS as error:
        remade.skip.add(session)
        remade.left_out.add(s)
        what = error.what if isinstance(error, StatorError) else "its row is damaged"
        yield Finding(what=what, check="session", session=session, hint=RESTORE)
        return
    yield from _guarded("session", _compare(db, remade.made, s, place, ledger, last), session)


def _make(
    db: apsw.Connection, remade: _Remade, s: int, place: SessionPlace
) -> tuple[Ledger, _Last]:
    def key_of_id(collection: str, identifier: str, was: int) -> str:
        return places.flushed_key(db, place, collection, identifier, was)

    made, slots = remade.made, list[int]()
    ledger, last = Ledger(exact=True), _Last()
    rows = commits.read_segment(db, place.segments[-1], slots=slots)
    watched = last.watch(rows, s, slots, remade.uses)
    cuts = frozenset(seq for (seq,) in many(db, "SELECT seq FROM flush_ix WHERE s = ?", (s,)))
    for tail in each_tail(watched, key_of_id, cuts):
        done = _within(tail, place.flushed)
        if len(done):
            made.executemany(
                "INSERT INTO log VALUES (?, ?, x'', x'', x'')",
                [(lineage.key(s, item.seq), item.id) for item in done.commits],
            )
            ledger = flush(made, s, done, ledger, place.low, place.lineage)
    return ledger, last


def _counted(ledger: Ledger) -> Ledger:
    """What a ledger counts: without what is compared by itself, and without collections it counts none of."""
    live = {number: n for number, n in ledger.live.items() if n}
    return msgspec.structs.replace(ledger, snaps={}, keyed=0, exact=True, live=live)


def _compare(
    db: apsw.Connection,
    made: apsw.Connection,
    s: int,
    place: SessionPlace,
    ledger: Ledger,
    last: _Last,
) -> Iterator[Finding]:
    session = place.record.id
    noted, kept = place.ledger, exact_ledger(db, place)
    if _counted(ledger) != _counted(kept):
        yield Finding(
            what=f"counts {counts(kept)}, the log has {counts(ledger)}",
            check="counts",
            session=session,
            hint=REBUILD,
        )
    if ledger.snaps != noted.snaps:  # a collection that is not there is not read
        yield Finding(
            what="which collections its log has touched, and how often, is not what its row says",
            check="counts",
            session=session,
            hint=REBUILD,
        )
    cuts = {seq for (seq,) in many(db, "SELECT seq FROM flush_ix WHERE s = ?", (s,))}
    if noted.keyed not in cuts | {0, place.flushed}:
        yield Finding(
            what=f"its keys are indexed up to @{noted.keyed}, which is no end of what was indexed",
            check="keys",
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
        "SELECT id, tenant, project, name, agent, mode, status, parent, created FROM session "
        "WHERE s = ?"
    )
    if one(db, columns, (s,)) != (*told, record.mode, record.status, parent, record.created):
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
        "SELECT s, seq, kind, source, foreign_id, attempt FROM origin_ix "  # noqa: S608 - a constant of ours
        f"WHERE kind <> '{KEY_KIND}' ORDER BY s, kind, source, foreign_id, attempt"
    ),
    "turns": "SELECT s, last, turn, first, at, status FROM turn_ix ORDER BY s, turn",
    "calls": (
        "SELECT s, seq, call, tool, effect, status, cause, attempt, outcome, turn, at FROM call_ix "
        "ORDER BY s, seq"
    ),
}
"""Each index as rows that begin with (session ordinal, seq)."""


def _index(
    db: apsw.Connection, made: apsw.Connection, check: str, sql: str, left_out: set[int]
) -> Iterator[Finding]:
    """The first row of an index that is not the one the log makes."""
    kept = (row for row in db.execute(sql) if row[0] not in left_out)
    right_rows = (row for row in made.execute(sql) if row[0] not in left_out)
    for mine, right in zip_longest(kept, right_rows):
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
            return


def _slots(db: apsw.Connection, left_out: set[int]) -> Iterator[Finding]:
    """Every commit must be found by its id."""
    for k, identifier in db.execute("SELECT k, log.id FROM commit_ix JOIN log USING (k)"):
        if k >> SEQ_BITS not in left_out and find_commit(db, identifier) != k:
            session, seq = _place_of(db, k)
            yield Finding(
                what="a commit is not found by its id",
                check="ids",
                session=session,
                seq=seq,
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
