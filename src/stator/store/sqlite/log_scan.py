"""Reads the log for `verify`: row by row, past damaged pages, without trusting indexes or session rows.

Every other reader stops at the first row it cannot decode. This one puts an `Unreadable` in its place and reads on.
"""

from __future__ import annotations

import contextlib
import hmac
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apsw
import msgspec

from stator.errors import StatorError, StoreCorrupt
from stator.model.log import chain
from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.log.log_walk import SessionLog, Unreadable
from stator.model.records.tables import NUMBERED
from stator.model.records.types import SessionRecord
from stator.model.sessions.lifecycle import lent_upto
from stator.model.values.ids import from_bytes
from stator.store.compress import decompress
from stator.store.rows import NOT_A_COMMIT, from_row
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.projection import SEQ_BITS, SEQ_MASK, SQL
from stator.store.sqlite.queries import commits
from stator.store.sqlite.queries.lineage import decode_session, key

READ_ERRORS = (
    apsw.Error,
    StatorError,
    msgspec.MsgspecError,
    ValueError,
    TypeError,
    AttributeError,
    AssertionError,
    LookupError,
    OverflowError,
    MemoryError,
)
"""What reading damaged bytes can raise: SQLite's errors, the decoders', and those of a value of another type."""
BATCH = 512
_HASH = re.compile("[0-9a-f]{64}")
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
_EXTENTS = (
    "SELECT flushed FROM session WHERE s = :s",
    "SELECT max(seq) FROM flush_ix WHERE s = :s",
    "SELECT max(last) FROM turn_ix WHERE s = :s",
    "SELECT max(seq) FROM call_ix WHERE s = :s",
    "SELECT max(seq) FROM rec WHERE s = :s",
)
"""How far a session's log reaches, by what else is in the file."""


class _Row(msgspec.Struct):
    """What a session's row says of it; what cannot be read of it is empty."""

    id: str = ""
    name: str = ""
    record: SessionRecord | None = None
    wrong: str = ""


class LogScan:
    """The logs of a store file, each with what can be read of it."""

    def __init__(self, db: apsw.Connection, blob_key: bytes) -> None:
        """`blob_key` is the store's own; empty where it cannot be read, and then blobs are checked by hash alone."""
        self._db = db
        self._blob_key = blob_key
        self._tenant = ""
        self._bad_blobs: list[str] = []
        self.strange_key = False
        """Whether a blob that is right is not under its digest: then the store's own key is damaged."""
        self._seqs: dict[int, array[int]] = {}
        for k in keys(db):
            self._seqs.setdefault(k >> SEQ_BITS, array("q")).append(k & SEQ_MASK)
        self._rows = _session_rows(db, self._seqs)
        self._found: dict[int, tuple[str, SessionRecord | None, str]] = {}
        self._homes: dict[str, int] = {}
        self._indexed: dict[int, int] = {}
        """The last seq of each session in the index of ids."""
        with contextlib.suppress(*READ_ERRORS):
            for s, last in db.execute("SELECT k >> 40, max(k) FROM commit_ix GROUP BY k >> 40"):
                self._indexed[s] = last & SEQ_MASK

    def logs(self, session: str | None = None) -> Iterator[SessionLog]:
        """Every session's log, or that of one session and of those it was forked from."""
        ordinals = sorted(self._seqs.keys() | self._rows.keys())
        self._found = {s: self._identity(s) for s in ordinals}
        wanted = self._family(session) if session is not None else None
        homes = Counter(found[0] for found in self._found.values())
        self._homes = {self._found[s][0]: s for s in self._seqs}
        for s in ordinals:
            identifier = self._found[s][0]
            if wanted is not None and identifier not in wanted:
                continue
            if s not in self._seqs and homes[identifier] > 1:
                continue  # only its row: the log is under another number, where this is reported
            yield self._log(s)

    def _family(self, session: str) -> set[str]:
        records = [record for _, record, _ in self._found.values() if record is not None]
        parts = {part.session for r in records if r.id == session for part in r.lineage}
        return {session} | parts

    def _identity(self, s: int) -> tuple[str, SessionRecord | None, str]:
        """A session's id, its record, and what is wrong with its row.

        The id is in three places: in the row, in the row's record and in the log's. Two that agree are right.
        """
        row = self._rows.get(s, _Row(wrong="it has no row"))
        logged = self._logged_record(s)
        votes = Counter(
            filter(None, (logged and logged.id, row.record and row.record.id, row.id))
        ).most_common(1)
        identifier = str(votes[0][0]) if votes else ""
        records = [r for r in (logged, row.record) if r is not None and r.id == identifier]
        first = min(self._seqs.get(s, ()), default=0)
        fitting = [record for record in records if lent_upto(record.lineage) == first - 1]
        wrong = row.wrong
        if not wrong and row.id != identifier:
            wrong = f"its row has the id {row.id}"
        return identifier, next(iter(fitting + records), None), wrong

    def _logged_record(self, s: int) -> SessionRecord | None:
        """The session's record as its first commits have it."""
        for seq in sorted(self._seqs.get(s, ()))[:3]:
            with contextlib.suppress(*READ_ERRORS):
                row = one(self._db, SQL["log_one"], (key(s, seq),))
                for op in from_row("", seq, b"", row, None).delta:
                    if isinstance(op, Put) and isinstance(op.record, SessionRecord):
                        return op.record
        return None

    def _log(self, s: int) -> SessionLog:
        identifier, record, wrong = self._found[s]
        lineage = tuple(record.lineage) if record is not None else ()
        low = lent_upto(lineage)
        prev = chain.GENESIS
        joint = None
        row = self._rows.get(s)
        if lineage:
            joint = self._hash(lineage[-1].session, low)
            known = (record, row.record if row is not None else None)
            told = [r.parent.hash for r in known if r is not None and r.parent is not None]
            hashes = Counter(h for h in (*told, joint) if h and _HASH.fullmatch(h))
            prev = hashes.most_common(1)[0][0] if hashes else prev
        name = record.name if record is not None else row.name if row is not None else ""
        tenant = record.tenant if record is not None else ""
        return SessionLog(
            session=identifier,
            name=name,
            place=f"number {s} in the file",
            rows=self._read(s, identifier, low, prev, tenant),
            low=low,
            prev=prev,
            lineage=lineage,
            joint=joint,
            row=wrong,
            held=lambda first, last: held(self._db, s, first, last),
        )

    def _hash(self, session: str, seq: int) -> str | None:
        with contextlib.suppress(*READ_ERRORS):
            place = (key(self._homes[session], seq),)
            return bytes(one(self._db, SQL["log_hash"], place)[0]).hex()
        return None

    # -- rows -------------------------------------------------------------------------------------

    def _read(
        self, s: int, session: str, low: int, prev: str, tenant: str
    ) -> Iterator[Commit | Unreadable]:
        """The log of one session: commits in order, and what is not there or cannot be read."""
        seqs = self._seqs.get(s, array("q"))
        before: bytes | None = bytes.fromhex(prev)
        expected = low + 1
        counted = Counter(seqs)
        self._tenant = tenant
        for seq, row in self._stored(s, sorted(counted)):
            if counted[seq] > 1:
                yield Unreadable(seq, seq, "two rows of the log have its place")
            if seq < expected:
                yield Unreadable(
                    seq, seq, "it lies before the commit that the session was forked from"
                )
                continue
            if seq > expected:
                yield Unreadable(expected, seq - 1, "missing")
                before = None
            expected = seq + 1
            if isinstance(row, str):
                yield Unreadable(seq, seq, f"cannot be read: {row}")
                before = None
                continue
            try:
                yield self._commit(session, seq, before, row)
            except READ_ERRORS as error:
                yield Unreadable(seq, seq, f"cannot be read: {_words(error)}")
            before = row[1] if isinstance(row[1], bytes) and len(row[1]) == 32 else None
        last = _extent(self._db, s, self._indexed.get(s))
        if last >= expected:
            yield Unreadable(expected, last, "missing")
        elif expected == low + 1:
            yield Unreadable(expected, expected, "no commit of it is in the log")

    def _commit(self, session: str, seq: int, before: bytes | None, row: Any) -> Commit:
        self._bad_blobs.clear()
        commit = from_row(session, seq, before or b"", row, self._blob)
        if self._bad_blobs:
            if chain.rehash(commit) != commit.hash:
                raise StoreCorrupt(f"its blob {self._bad_blobs[0]} is damaged")
            self.strange_key = True
        return commit

    def _blob(self, digest: bytes) -> bytes:
        data = commits.blob(self._db, digest)
        if self._blob_key:
            secret = self._blob_key + self._tenant.encode()
            if hmac.digest(secret, decompress(data), "sha256") != digest:
                self._bad_blobs.append(digest.hex()[:16])
        return data

    def _stored(self, s: int, seqs: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """(seq, columns) of every row; a text instead of the columns says why they cannot be read."""
        for start in range(0, len(seqs), BATCH):
            wanted = seqs[start : start + BATCH]
            rows: list[Any] = []
            with contextlib.suppress(*READ_ERRORS):
                bounds = (key(s, wanted[0]) - 1, key(s, wanted[-1]), len(wanted) + 1)
                rows = many(self._db, SQL["log_range"], bounds)
            if [row[0] & SEQ_MASK for row in rows] == wanted:
                yield from ((row[0] & SEQ_MASK, row[1:]) for row in rows)
            else:  # one by one, so that a bad row hides no other
                yield from ((seq, self._single(s, seq)) for seq in wanted)

    def _single(self, s: int, seq: int) -> Any:
        try:
            return (
                one(self._db, SQL["log_one"], (key(s, seq),)) or "its row is not found by its key"
            )
        except READ_ERRORS as error:
            return _words(error)


def _words(error: BaseException) -> str:
    if isinstance(error, StatorError):
        return str(error.ids.get("reason", error.what))
    if isinstance(error, apsw.Error):
        return f"a page of the file is damaged ({type(error).__name__})"
    return NOT_A_COMMIT


def keys(db: apsw.Connection) -> Iterator[int]:
    """The key of every row of the log, in the order they lie in the file; pages that cannot be read are skipped."""
    after = LOWEST
    while True:
        start = after
        try:
            for (k,) in db.execute("SELECT k FROM log WHERE k > ?", (after,)):
                yield k
                after = k
            return
        except READ_ERRORS:
            beyond = _beyond(db, max(start, after))
        if beyond is None:
            return
        after = beyond


def _beyond(db: apsw.Connection, after: int) -> int | None:
    """The nearest key behind a page that cannot be read from which reading can continue."""

    def is_readable(k: int) -> bool:
        try:
            one(db, "SELECT k FROM log WHERE k > ? LIMIT 1", (k,))
        except READ_ERRORS:
            return False
        return True

    step = 1
    while after + step < HIGHEST and not is_readable(after + step):
        step *= 2
    if after + step >= HIGHEST:
        return None
    low, high = after + step // 2, after + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_readable(middle) else (middle, high)
    return high


def _session_rows(db: apsw.Connection, ordinals: Iterable[int]) -> dict[int, _Row]:
    """What the table of sessions says; where it cannot be read as a whole, row by row."""
    known = set(ordinals)
    with contextlib.suppress(*READ_ERRORS):
        for (s,) in db.execute("SELECT s FROM session"):
            known.add(s)
    found: dict[int, _Row] = {}
    for s in known:
        try:
            row = one(db, "SELECT id, name, record FROM session WHERE s = ?", (s,))
        except READ_ERRORS as error:
            found[s] = _Row(wrong=f"its row cannot be read: {_words(error)}")
            continue
        if row is not None:
            found[s] = _decoded(*row)
    return found


def _decoded(identifier: Any, name: Any, record: Any) -> _Row:
    row = _Row(name=name if isinstance(name, str) else "")
    try:
        row.id = from_bytes(identifier, "session")
    except READ_ERRORS:
        row.wrong = "its row has no id that can be read"
    try:
        row.record = decode_session(record)
    except READ_ERRORS:
        row.wrong = "its row does not hold a record that can be read"
    return row


def _extent(db: apsw.Connection, s: int, indexed: int | None) -> int:
    """The last seq that at least two other parts of the file know of: one alone may be what is damaged."""
    found = [] if indexed is None else [indexed]
    for sql in _EXTENTS:
        with contextlib.suppress(*READ_ERRORS):
            row = one(db, sql, {"s": s})
            if row is not None and isinstance(row[0], int):
                found.append(row[0])
    return sorted(found)[-2] if len(found) > 1 else 0


def held(db: apsw.Connection, s: int, first: int, last: int) -> dict[str, int]:
    """How many records of those commits the indexes still hold, by collection, and how many calls."""
    found: dict[str, int] = {}
    span = (s, first, last)
    with contextlib.suppress(*READ_ERRORS):
        for number, size in many(
            db,
            "SELECT c, count(*) FROM rec WHERE s = ? AND seq BETWEEN ? AND ? AND body IS NOT NULL "
            "GROUP BY c",
            span,
        ):
            found[NUMBERED[number].name] = size
    with contextlib.suppress(*READ_ERRORS):
        sql = "SELECT count(*) FROM call_ix WHERE s = ? AND seq BETWEEN ? AND ?"
        (calls,) = one(db, sql, span)
        if calls:
            found["calls"] = found.get("calls", 0) + calls
    return found
