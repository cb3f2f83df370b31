"""A file beside the store that holds an index, with nothing in it that the log does not say.

It can be deleted at any time. Whoever asks it a question updates it first, in transactions of moderate size, so that
several may at once. A file that is broken, of another store or of another release is emptied in place: unlinking it
would pull it away under another process. Where no file can be kept beside the store, the same is made in a private
temporary one, and is gone with the process.

How far it knows each session is compared with the store in chunks of sessions, so that the comparison of ten
thousand sessions reads one line a chunk, and the sessions of those chunks alone that differ.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import threading
from collections.abc import Iterator
from typing import Any, ClassVar, Protocol

import apsw

from stator.errors import StoreFailed
from stator.store.port import IndexLost
from stator.store.sqlite import space
from stator.store.sqlite.connection import Patience, many, one, publish, translate, use_wal
from stator.store.sqlite.store_lock import WriteLock

CACHE_KIB = 32 * 1024
UNKNOWN_CHUNK = -1
"""Of a session that an index was told of before it saw it in the store."""


class Log(Protocol):
    """What an index is compared with: the head of each session of the store."""

    def chunk_heads(self, chunk: int | None = None) -> list[tuple[str, int, int]]:
        """Every session, or those of a chunk: id, the seq of its head, and when that was appended."""
        ...

    def head_sums(self) -> dict[int, str]:
        """By chunk, what differs as soon as its `chunk_heads` do; empty where that is not known."""
        ...


MADE_AS = "SELECT value FROM meta WHERE key = 'made'"
BROKEN = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError)
"""What SQLite says of a file that is not the one it should be, or not any more."""
TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE chunk (c INTEGER PRIMARY KEY, sum TEXT NOT NULL) STRICT;
"""


def can_be_kept(path: str, suffix: str) -> bool:
    """Whether an index may be kept beside a store: in a folder of our own, and not in place of something else."""
    if not os.access(os.path.dirname(path) or ".", os.W_OK):
        return False
    try:
        found = os.lstat(path + suffix)
    except FileNotFoundError:
        # In another user's folder, a file of ours would be in the owner's way.
        return _is_ours(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and os.access(path + suffix, os.R_OK | os.W_OK)


def is_out_of_reach(path: str, suffix: str) -> bool:
    """Whether another user owns the index, so that we cannot write it."""
    index = path + suffix
    return os.path.isfile(index) and not os.path.islink(index) and not can_be_kept(path, suffix)


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


class IndexFile:
    """The file of an index: opening, guarding and rescuing it, and how far it knows each session."""

    SUFFIX: ClassVar[str]
    """What its name ends in, after that of the store."""
    APPLICATION_ID: ClassVar[int]
    VERSION: ClassVar[int]
    """Of its tables, and of what is made of a commit: raised with either."""
    SCHEMA: ClassVar[str]
    """Its tables beside those that every index has. One is `session`, with the columns id, c (its chunk), seq and
    updated."""
    LOCK: ClassVar[int]
    """The byte of the store's lock file that is held by each write."""
    JUDGES: ClassVar[bool] = False
    """Whether it holds what is trusted, which is another thing where the store is foreign."""
    SHADOWS: ClassVar[tuple[str, ...]] = ()
    """Tables that SQLite adds by itself."""

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
        self._locked = WriteLock(path.removesuffix(self.SUFFIX), self.LOCK, path) if path else None
        """Where the index is kept: held by each write, as for the store itself."""
        self._chunks: dict[str, int] = {}
        """The chunk of each session that `behind` saw."""
        self._late: dict[int, tuple[str, set[str]]] = {}
        """By chunk: what the store had as its sum, and the sessions of it that the index must still be told of."""
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
        if db.pragma("application_id") == self.APPLICATION_ID and self._is_right():
            return
        if one(db, "SELECT count(*) FROM sqlite_schema")[0] or db.pragma("application_id"):
            self._empty()
        if self.kept:
            use_wal(db)
        with self._writing():
            if db.pragma("application_id") != self.APPLICATION_ID:
                db.execute(TABLES + self.SCHEMA)
                db.execute("INSERT INTO meta VALUES ('store', ?)", (self._store,))
                db.execute("INSERT INTO meta VALUES ('made', random())")
                db.pragma("user_version", self.VERSION)
                db.pragma("application_id", self.APPLICATION_ID)
            if self._emptied:
                # The old content stays in the file until the WAL has been copied over it.
                space.mark(db)
        self._emptied = False

    def _is_right(self) -> bool:
        db = self._db
        if db.pragma("user_version") != self.VERSION:
            return False
        tables = dict(many(db, "SELECT name, sql FROM sqlite_schema WHERE type = 'table'"))
        made = [one.strip() for one in (TABLES + self.SCHEMA).split(";") if " TABLE " in one]
        # Those of FTS5 are its own: another release of SQLite may differ.
        names = sorted(
            [*(made_one.split()[2 + ("VIRTUAL" in made_one)] for made_one in made), *self.SHADOWS]
        )
        if sorted(tables) != names or not set(made) <= set(tables.values()):
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

    # -- keeping up -------------------------------------------------------------------------------

    def behind(self) -> tuple[list[str], list[str]]:
        """Sessions whose log it does not know, or not to its end, oldest first; sessions it knows that are gone."""
        sums = self._log.head_sums()
        with self._guarded() as db:
            self._made = one(db, MADE_AS)
            seen = dict(many(db, "SELECT c, sum FROM chunk"))
            told = one(db, "SELECT 1 FROM session WHERE c = ? LIMIT 1", (UNKNOWN_CHUNK,))
        whole = not sums or told is not None
        moved: list[tuple[int, str]] = []
        gone: list[str] = []
        same: dict[int, str] = {}
        self._late = {}
        for chunk in sorted({*sums, *seen}) if not whole else [*(sums or {0: ""})]:
            if not whole and sums.get(chunk) == seen.get(chunk):
                continue
            late, lost = self._compare(chunk if sums else None, chunk)
            moved += late
            gone += lost
            if sums and (late or lost):
                self._late[chunk] = sums.get(chunk, ""), {*lost, *(session for _, session in late)}
            elif sums:
                same[chunk] = sums.get(chunk, "")
        if whole:
            gone += self._strangers(gone)
        if same:
            self._remember(same)
        return [session for _, session in sorted(moved)], gone

    def _compare(self, asked: int | None, chunk: int) -> tuple[list[tuple[int, str]], list[str]]:
        """The sessions of a chunk that are behind, with when each was used, and those that are gone."""
        heads = self._log.chunk_heads(asked)
        self._chunks.update(dict.fromkeys((head[0] for head in heads), chunk))
        with self._guarded() as db:
            rows = many(db, "SELECT id, seq, updated FROM session WHERE c = ?", (chunk,))
            known = {session: (seq, updated) for session, seq, updated in rows}
            for session, _, _ in heads:
                if session not in known and (row := _row(db, session)) is not None:
                    known[session] = row
        moved = [
            (updated, session)
            for session, seq, updated in heads
            if known.pop(session, None) != (seq, updated)
        ]
        return moved, [*known]

    def _strangers(self, gone: list[str]) -> list[str]:
        """Sessions that it was told of and that no chunk of the store holds; those that one does get their chunk."""
        with self._guarded() as db:
            rows = many(db, "SELECT id FROM session WHERE c = ?", (UNKNOWN_CHUNK,))
        placed = [
            (self._chunks[session], session) for (session,) in rows if session in self._chunks
        ]
        if placed:
            with self._guarded(), self._writing() as db:
                for chunk, session in placed:
                    db.execute("UPDATE session SET c = ? WHERE id = ?", (chunk, session))
        return [id for (id,) in rows if id not in self._chunks and id not in gone]

    def _remember(self, sums: dict[int, str]) -> None:
        with self._guarded(), self._writing() as db:
            for chunk, known in sums.items():
                _keep_sum(db, chunk, known)

    def _caught_up(self, db: apsw.Connection, session: str) -> None:
        """Note that the index was told of a session, or lost it. With the last one of a chunk it is at least where the
        store was when `behind` asked; logs only grow, so that the sum is the same again only if it still is there."""
        chunk = self._chunk_of(session)
        for at in [chunk] if chunk != UNKNOWN_CHUNK else list(self._late):
            if at in self._late:
                known, left = self._late[at]
                left.discard(session)
                if not left:
                    del self._late[at]
                    _keep_sum(db, at, known)

    def _chunk_of(self, session: str) -> int:
        return self._chunks.get(session, UNKNOWN_CHUNK)

    def _must_be_the_same(self, db: apsw.Connection) -> None:
        """Raise if another process recreated the index since `behind` looked at it: it may hold less by now."""
        if self._made is not None and one(db, MADE_AS) != self._made:
            raise IndexLost


def _keep_sum(db: apsw.Connection, chunk: int, known: str) -> None:
    if known:
        db.execute("INSERT OR REPLACE INTO chunk VALUES (?, ?)", (chunk, known))
    else:
        db.execute("DELETE FROM chunk WHERE c = ?", (chunk,))


def _row(db: apsw.Connection, session: str) -> tuple[int, int] | None:
    found: tuple[int, int] | None = one(
        db, "SELECT seq, updated FROM session WHERE id = ?", (session,)
    )
    return found
