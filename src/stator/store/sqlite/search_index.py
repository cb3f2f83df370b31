"""The search index: a SQLite file of its own beside the store, with nothing in it that the log does not say.

An inverted index without the texts (FTS5, contentless), a row a commit for what can be filtered by, a
row a session for how far it is known. A search updates it first, in transactions of
moderate size, so that several may at once. A file that is broken, of another store or of another
release is emptied in place: unlinking it would pull it away under somebody else.

Where no file can be kept beside the store, the same is made in a private temporary one, and is gone
with the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import apsw

from stator.errors import StoreFailed
from stator.model.views.search import (
    Advance,
    Mark,
    SearchQuery,
    Term,
)
from stator.store.port import IndexLost
from stator.store.sqlite import space
from stator.store.sqlite.connection import Patience, many, one, publish, translate, use_wal
from stator.store.sqlite.store_lock import INDEXING, WriteLock
from stator.store.sqlite.writer import PATIENCE_S

SUFFIX = "-search"
APPLICATION_ID = 0x53544153
"""'STAS': a search index, and not a store."""
VERSION = 3
"""Of the tables, and of what `tokenizer` and `search_text` make of a commit: raise it with either."""
CACHE_KIB = 32 * 1024


class Log(Protocol):
    """What an index is compared with: the head of each session of the store."""

    def heads(self) -> list[tuple[str, int, int]]:
        """Every session: id, the seq of its head, and when that was appended."""
        ...

    def heads_stamp(self) -> str:
        """What differs as soon as `heads` does; empty where that is not known."""
        ...


SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE session (
  s       INTEGER PRIMARY KEY,
  id      TEXT NOT NULL UNIQUE,
  project TEXT NOT NULL,
  agent   TEXT NOT NULL,
  seq     INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  hash    TEXT NOT NULL
) STRICT;
CREATE TABLE doc (
  d    INTEGER PRIMARY KEY,
  s    INTEGER NOT NULL,
  seq  INTEGER NOT NULL,
  at   INTEGER NOT NULL,
  tie  INTEGER NOT NULL,
  kind TEXT NOT NULL,
  tool TEXT NOT NULL
) STRICT;
CREATE INDEX doc_place ON doc (s, seq);
CREATE VIRTUAL TABLE word USING fts5
  (body, paths, content='', contentless_delete=1, tokenize='ascii');
"""
_MATCHING = """
FROM word JOIN doc ON doc.d = word.rowid
WHERE word MATCH :match
  AND (:tool IS NULL OR doc.tool = :tool)
  AND (:since IS NULL OR doc.at >= :since)
  AND (:until IS NULL OR doc.at <= :until)
  AND (:kinds IS NULL OR doc.kind IN (SELECT value FROM json_each(:kinds)))
  AND (:scoped IS NULL OR doc.s IN (
    SELECT s FROM session
    WHERE (:project IS NULL OR project = :project) AND (:agent IS NULL OR agent = :agent)
  ))
  AND (:segments IS NULL OR EXISTS (
    SELECT 1 FROM json_each(:segments)
    WHERE (SELECT id FROM session WHERE s = doc.s) = value ->> 0
      AND doc.seq > value ->> 1 AND (value ->> 2 = 0 OR doc.seq <= value ->> 2)
  ))
"""
BEST = f"""
SELECT (SELECT id FROM session WHERE s = found.s), seq FROM (
  SELECT doc.s, doc.seq {_MATCHING}
  ORDER BY CAST(printf('%.2g', bm25(word)) AS REAL), doc.at DESC, doc.tie, doc.seq DESC LIMIT :limit
) AS found
"""  # noqa: S608
NEWEST = f"""
SELECT (SELECT id FROM session WHERE s = found.s), seq FROM (
  SELECT doc.s, doc.seq {_MATCHING} ORDER BY doc.at DESC, doc.tie, doc.seq DESC LIMIT :limit
) AS found
"""  # noqa: S608
"""Two statements for every question: nothing that was typed is ever part of them."""
MADE_AS = "SELECT value FROM meta WHERE key = 'made'"
BROKEN = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError)
"""What SQLite says of a file that is not the one it should be, or not any more."""
RANKED_MAX = 10_000
"""Commits that match and are ranked: a more common word does not narrow the search, and the newest come first."""
MADE = [made.strip() for made in SCHEMA.split(";") if " TABLE " in made]
"""The tables as SQLite repeats them. Those of FTS5 are its own: another release of SQLite may differ."""
TABLES = ["doc", "meta", "session", "word", "word_config", "word_data", "word_docsize", "word_idx"]


def beside(path: str) -> str:
    """Where the index of a store is."""
    return path + SUFFIX


def can_be_kept(path: str) -> bool:
    """Whether an index may be kept beside a store: in a folder of our own, and not in place of something else."""
    if not os.access(os.path.dirname(path) or ".", os.W_OK):
        return False
    try:
        found = os.lstat(beside(path))
    except FileNotFoundError:
        # In somebody else's folder, a file of ours would be in the owner's way.
        return _is_ours(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and os.access(beside(path), os.R_OK | os.W_OK)


def is_out_of_reach(path: str) -> bool:
    """Whether another user owns the index, so that we cannot write it."""
    index = beside(path)
    return os.path.isfile(index) and not os.path.islink(index) and not can_be_kept(path)


def _is_ours(path: str) -> bool:
    try:
        return os.stat(path).st_uid == os.geteuid()
    except OSError:
        return False


def _make(path: str) -> None:
    """An empty file that only its owner can read, like the store.

    Made under another name: closing a descriptor of a file drops the locks SQLite has on it.
    """
    draft = f"{path}.new-{secrets.token_hex(6)}"
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        publish(draft, path)
    except OSError as error:
        raise StoreFailed(f"{path}: cannot be created: {error.strerror}", store=path) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)


class SearchIndex:
    """See `store.port.Index` for what each method promises."""

    def __init__(self, path: str, store: str, log: Log, *, in_memory: bool = False) -> None:
        """`path` is the index's own file, "" for a temporary one; `store` the id of the store it is of.
        `in_memory`: a temporary one that needs no disk."""
        self._name = ":memory:" if in_memory else path
        self.kept = bool(path)
        self._path = path
        self._store = store
        self._log = log
        self._lock = threading.RLock()
        self._emptied = False
        self._made: Any = None
        """Which index `behind` looked at: another process may recreate it at any time."""
        self._patience = Patience()
        self._locked = WriteLock(path.removesuffix(SUFFIX), INDEXING, path) if path else None
        """Where the index is kept: held by each write, as for the store itself."""
        self._db = self._open()
        with contextlib.suppress(IndexLost), self._guarded():
            self._prepare()

    def close(self) -> None:
        with self._lock:
            self._db.close()
            if self._locked is not None:
                self._locked.close()

    # -- the file ---------------------------------------------------------------------------------

    def _open(self) -> apsw.Connection:
        if self.kept and not os.path.exists(self._path):
            _make(self._path)
        try:
            db = apsw.Connection(self._name, flags=apsw.SQLITE_OPEN_READWRITE)
        except apsw.Error as error:
            raise translate(error, self._path) from error
        db.set_busy_handler(self._patience)
        return db

    def _prepare(self) -> None:
        db = self._db
        db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        db.pragma("cache_size", -CACHE_KIB)
        db.pragma("secure_delete", 1)
        db.pragma("synchronous", "normal")
        if db.pragma("application_id") == APPLICATION_ID and self._is_right():
            return
        if one(db, "SELECT count(*) FROM sqlite_schema")[0] or db.pragma("application_id"):
            self._empty()
        if self.kept:
            use_wal(db)
        with self._writing():
            if db.pragma("application_id") != APPLICATION_ID:
                db.execute(SCHEMA)
                db.execute("INSERT INTO meta VALUES ('store', ?)", (self._store,))
                db.execute("INSERT INTO meta VALUES ('made', random())")
                db.pragma("user_version", VERSION)
                db.pragma("application_id", APPLICATION_ID)
            if self._emptied:
                # The old content stays in the file until the WAL has been copied over it.
                space.mark(db)
        self._emptied = False

    def _is_right(self) -> bool:
        db = self._db
        if db.pragma("user_version") != VERSION:
            return False
        tables = dict(many(db, "SELECT name, sql FROM sqlite_schema WHERE type = 'table'"))
        if sorted(tables) != TABLES or not set(MADE) <= set(tables.values()):
            return False
        row = one(db, "SELECT value FROM meta WHERE key = 'store'")
        return row is not None and row[0] == self._store

    def _empty(self) -> None:
        """Turn the file into an empty database, regardless of its content; processes that have it open notice."""
        db = self._db
        self._emptied = True
        db.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
        try:
            with self._alone():
                db.execute("VACUUM")
        finally:
            db.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 0)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[apsw.Connection]:
        """The connection, for one at a time; a file that turns out to be broken is emptied."""
        with self._lock:
            try:
                try:
                    yield self._db
                except BROKEN as error:
                    self._rescue(error)
            except apsw.Error as error:
                raise translate(error, self._path) from error

    def _rescue(self, cause: apsw.Error) -> None:
        """Start again in the same file, or in a new file where that fails. A missing table may mean that
        another process is doing the same.
        """
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if not isinstance(cause, apsw.SQLError):
                self._empty()
            self._prepare()
        except BROKEN:
            self._db.close()
            for name in ("", "-wal", "-shm", "-journal"):
                with contextlib.suppress(OSError):
                    os.unlink(self._path + name)
            self._db = self._open()
            self._prepare()
        raise IndexLost from cause

    @contextlib.contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        """A transaction that is the only one."""
        with self._alone():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the index's write lock. SQLite's own can be dropped by any code that reads the file."""
        if self._locked is None:
            yield
            return
        try:
            self._locked.acquire(self._patience.seconds)
            yield
        finally:
            self._locked.release()

    # -- filling ----------------------------------------------------------------------------------

    def behind(self) -> tuple[list[str], list[str]]:
        stamp = self._log.heads_stamp()
        with self._guarded() as db:
            self._made = one(db, MADE_AS)
            seen = one(db, "SELECT value FROM meta WHERE key = 'stamp'")
        if stamp and seen == (stamp,):
            return [], []
        heads = self._log.heads()
        with self._guarded() as db:
            rows = many(db, "SELECT id, seq, updated FROM session")
        known = {session: (seq, updated) for session, seq, updated in rows}
        moved = [
            (updated, session)
            for session, seq, updated in heads
            if known.pop(session, None) != (seq, updated)
        ]
        if stamp and not moved and not known:
            with self._guarded(), self._writing() as db:
                db.execute("INSERT OR REPLACE INTO meta VALUES ('stamp', ?)", (stamp,))
        return [session for _, session in sorted(moved)], [*known]

    def mark(self, session: str) -> Mark:
        with self._guarded() as db:
            return self._mark(db, session)

    @staticmethod
    def _mark(db: apsw.Connection, session: str) -> Mark:
        row = one(db, "SELECT seq, updated, hash FROM session WHERE id = ?", (session,))
        return Mark() if row is None else Mark(*row)

    def put(self, advances: Sequence[Advance]) -> None:
        with self._guarded(), self._writing() as db:
            for advance in advances:
                if self._mark(db, advance.session) == advance.before:
                    self._put(db, advance)

    def _put(self, db: apsw.Connection, advance: Advance) -> None:
        to = advance.after
        if advance.anew:
            self._forget(db, advance.session)
        (s,) = one(
            db,
            "INSERT INTO session (id, project, agent, seq, updated, hash) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET project = excluded.project, agent = excluded.agent,"
            " seq = excluded.seq, updated = excluded.updated, hash = excluded.hash RETURNING s",
            (advance.session, advance.project, advance.agent, to.seq, to.updated, to.hash),
        )
        # Of what happened at once: the same order in every index.
        tie = int(advance.session[-12:], 16)
        for document in advance.documents:
            db.execute(
                "INSERT INTO doc (s, seq, at, tie, kind, tool) VALUES (?, ?, ?, ?, ?, ?)",
                (s, document.seq, document.at, tie, document.kind, document.tool),
            )
            db.execute(
                "INSERT INTO word (rowid, body, paths) VALUES (?, ?, ?)",
                (db.last_insert_rowid(), document.body, document.paths),
            )

    def drop(self, sessions: Sequence[str]) -> None:
        with self._guarded(), self._writing() as db:
            for session in sessions:
                self._forget(db, session)

    @staticmethod
    def _forget(db: apsw.Connection, session: str) -> None:
        row = one(db, "SELECT s FROM session WHERE id = ?", (session,))
        if row is None:
            return
        if one(db, "SELECT 1 FROM doc WHERE s = ? LIMIT 1", row) is not None:
            space.mark(db)
        db.execute("DELETE FROM word WHERE rowid IN (SELECT d FROM doc WHERE s = ?)", row)
        db.execute("DELETE FROM doc WHERE s = ?", row)
        db.execute("DELETE FROM session WHERE s = ?", row)

    def scrub(self) -> bool:
        with self._guarded() as db:
            if not space.is_marked(db):
                return True
            # Deleting marks rows as deleted; their words leave when what they stand in is written anew.
            with self._writing():
                db.execute("INSERT INTO word (word) VALUES ('optimize')")
            with self._alone():
                return space.finish(db, self._patience, PATIENCE_S, whole=True)

    # -- finding ----------------------------------------------------------------------------------

    def find(self, query: SearchQuery, *, limit: int) -> list[tuple[str, int]]:
        values = {
            "match": _match(query),
            "project": query.project,
            "agent": query.agent,
            "scoped": None if query.project is None and query.agent is None else 1,
            "tool": query.tool,
            "since": query.since or None,
            "until": query.until or None,
            "kinds": _listed(query.kinds),
            "segments": _listed([(one.session, one.after, one.upto) for one in query.stretches]),
            "limit": limit,
        }
        with self._guarded() as db:
            (matching,) = one(
                db, "SELECT count(*) FROM word WHERE word MATCH ?", (values["match"],)
            )
            found = many(db, BEST if matching <= RANKED_MAX else NEWEST, values)
            if self._made is not None and one(db, MADE_AS) != self._made:
                raise IndexLost  # and there may be less in the new one than was told to the old
            return found


def _listed(values: Sequence[Any]) -> str | None:
    return json.dumps(values) if values else None


def _match(query: SearchQuery) -> str:
    """The terms of a query in the syntax of FTS5. Words hold letters and digits only, and each is quoted."""
    wanted = " AND ".join(_expression(term) for term in query.terms)
    made = f"{{body}} : ({wanted})"
    if query.path:
        made = f"({made}) AND ({{paths}} : {_phrase(query.path)})"
    for term in query.without:
        made = f"({made}) NOT ({{body}} : {_expression(term)})"
    return made


def _expression(term: Term) -> str:
    star = " *" if term.prefix else ""
    whole = _phrase(term.words) + star
    return f"({whole} OR {_phrase(term.parts)}{star})" if term.parts else whole


def _phrase(words: Sequence[str]) -> str:
    return f'"{" ".join(words)}"'
