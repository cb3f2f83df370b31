"""Opens a SQLite store: refuses foreign files, sets pragmas, and guards every acknowledgement.

Nothing here opens the database file but SQLite itself: one `open`/`close` of it elsewhere in the
process would drop SQLite's POSIX locks. `store_lock` has locks that nothing drops; still, files are
only ever `stat`ed.
"""

from __future__ import annotations

import contextlib
import os
import random
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import apsw
import msgspec

from stator.errors import (
    NewerStore,
    NotAStore,
    SchemaChanged,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreReadOnly,
    StoreReplaced,
)
from stator.model.values.digest import sha256
from stator.store.sql import script
from stator.store.sqlite import lock_holders, shared_memory
from stator.store.sqlite.shared_memory import identity

APPLICATION_ID = 0x53544154
"""'STAT': in the file's header, so that a store is distinguishable from any other SQLite file."""
SCHEMA = 1
"""The schema this release writes; newer files are refused for writing, older ones migrated on first write."""
SCHEMA_FILES = {1: "sqlite_schema_1.sql"}
FINGERPRINTS = {1: "0579fb20b84e049d975e32826b887d42b75ee1121d8d8552fc9e7a63b529e4d5"}

SEAL = "seal"
"""The key in `meta` of a digest over what never changes there; stores of 0.6 and later have one."""

BUSY_SECONDS = 60.0
"""How long a writer waits for another process. A transaction takes milliseconds, rewriting a file takes seconds."""
OPEN_S = 5.0
"""How long opening a session waits for one. A program that starts should say that it cannot, rather than hang."""
SUSPENDED_S = 3.0
"""How long any writer waits for a process that is suspended inside a transaction."""
CHECKPOINT_PAGES = 1000
CACHE_KIB = 8 * 1024

Access = Literal["write", "read"]


def library_is_safe(version: str) -> bool:
    """Whether a SQLite of this version is free of the WAL-reset corruption bug (3.7.0–3.51.2, two backports)."""
    parts = tuple(int(part) for part in version.split(".")[:3])
    return parts >= (3, 51, 3) or (3, 50, 7) <= parts < (3, 51) or (3, 44, 6) <= parts < (3, 45)


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """SQLite's errors as ours, each with what to do."""
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, AssertionError) as error:
        # A column of another type, a text that is none: what is stored is not what was written.
        raise StoreCorrupt(f"{path}: {error}", hint="run: stator doctor", store=path) from error


def translate(error: apsw.Error, path: str) -> StoreError:
    """One of SQLite's errors as one of ours."""
    if isinstance(error, apsw.IOError) and _is_cut(error) and _is_vacant(path):
        return StoreFailed(
            f"{path}-wal was removed while a program had the store open",
            hint="that program still has the newest commits: let it write once more or end in order, then try again",
            store=path,
        )
    for kind, ours, hint in _TRANSLATIONS:
        if isinstance(error, kind):
            return ours(f"{path}: {error}", hint=hint, store=path)
    return StoreFailed(f"{path}: {error}", store=path)


def _is_cut(error: apsw.Error) -> bool:
    """Whether a part of a file that should be there is not."""
    return getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHORT_READ


def _is_vacant(path: str) -> bool:
    """Whether the log of a store is missing or was made anew and is empty."""
    try:
        return os.stat(path + "-wal").st_size == 0
    except FileNotFoundError:
        return True


_TRANSLATIONS: tuple[tuple[type[apsw.Error], type[StoreError], str], ...] = (
    (apsw.NotADBError, NotAStore, "this is not a Stator store; nothing was changed"),
    (apsw.CorruptError, StoreCorrupt, "run: stator doctor"),
    (apsw.FullError, StoreFull, "free some space; reading still works, writing resumes by itself"),
    (apsw.ReadOnlyError, StoreReadOnly, "the file or its folder cannot be written"),
    (
        apsw.BusyError,
        StoreBusy,
        "another process holds the store; try again, or see: stator doctor",
    ),
    (apsw.CantOpenError, NotAStore, "the file cannot be opened"),
    (apsw.IOError, StoreFailed, "the disk reported an error; nothing was acknowledged"),
)


def open_connection(
    path: str, access: Access, synchronous: str = "FULL", patience: Patience | None = None
) -> apsw.Connection:
    """A checked connection to an existing store, or a typed refusal that leaves the file untouched."""
    if not library_is_safe(apsw.sqlite_lib_version()):
        raise StoreError(
            f"SQLite {apsw.sqlite_lib_version()} can corrupt a WAL database",
            hint="install apsw 3.54 or newer",
        )
    check_path(path)
    with translated(path):
        connection = _connect(path, access)
        try:
            check_schema(connection, path, access)
            _configure(connection, access, synchronous)
            if patience is not None:
                connection.set_busy_handler(patience)
        except BaseException:
            connection.close()
            raise
    return connection


def one(db: apsw.Connection, sql: str, values: Any = ()) -> Any:
    """The first row of an answer as a tuple, or None. SQLite rows have no static types; callers name theirs."""
    return db.execute(sql, values).fetchone()


def many(db: apsw.Connection, sql: str, values: Any = ()) -> list[Any]:
    """All rows of an answer as tuples."""
    return db.execute(sql, values).fetchall()


def check_path(path: str) -> None:
    """Refuse what cannot be a store without opening it: a FIFO would block, a device would be written to."""
    if not path or "\0" in path:
        raise NotAStore("a store needs a path", hint="for example: stator.db")
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise NotAStore(f"{path}: there is no store here", hint="create one: stator init") from None
    except OSError as error:
        raise NotAStore(f"{path}: {error.strerror}", store=path) from None
    if not stat.S_ISREG(found.st_mode):
        raise NotAStore(f"{path}: not a regular file", store=path)
    if found.st_size == 0:
        raise NotAStore(
            f"{path}: the file is empty",
            hint="restore it from a backup, or move it away to create a new store",
            store=path,
        )


def open_to_audit(path: str) -> apsw.Connection:
    """A connection that reads a damaged store as far as it can be read; whether it is one is for the audit to say."""
    check_path(path)
    with translated(path):
        if identity(path + "-wal") is None and identity(path + "-shm") is not None:
            # Its log was removed. Opened in the usual way, SQLite would make an empty one, and nobody could tell.
            connection = _as_it_is(path)
        else:
            connection = _patient(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY))
        try:
            # With this, SQLite passes over definitions it cannot parse. Nothing is written: it opens to read only.
            connection.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1)
            if connection.pragma("application_id") != APPLICATION_ID:
                raise NotAStore(
                    f"{path}: a SQLite database, but not a Stator store",
                    hint="nothing was changed",
                    store=path,
                )
            _configure(connection, "read", "FULL")
            # Checked cells make a page with one bad cell unreadable as a whole. The audit wants the others.
            connection.pragma("cell_size_check", 0)
        except BaseException:
            connection.close()
            raise
    return connection


def _connect(path: str, access: Access) -> apsw.Connection:
    if access == "write":
        return _patient(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE))
    try:
        connection = _patient(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY))
        connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
        return connection
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        if os.access(os.path.dirname(path) or ".", os.W_OK):
            raise  # not for want of rights to the folder: out of descriptors, for example
        if os.path.exists(path + "-wal") and os.path.getsize(path + "-wal"):
            raise StoreReadOnly(
                f"{path}: its folder cannot be written and the newest commits are in {path}-wal",
                hint="copy store and -wal to a folder you can write, and open the copy",
            ) from None
    # Even to read, a WAL database needs a -shm file beside it. Where none can be made and no WAL is left,
    # nothing can change the file: SQLite may read it as it is.
    return _as_it_is(path)


def _as_it_is(path: str) -> apsw.Connection:
    """A connection to the store file alone, which nothing may change meanwhile."""
    address = "file:" + _quoted(path) + "?immutable=1"
    return _patient(
        apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    )


def _patient(connection: apsw.Connection) -> apsw.Connection:
    """Waits from its first read on: the first read may coincide with a WAL recovery by another process."""
    connection.set_busy_handler(Patience())
    return connection


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def check_schema(connection: apsw.Connection, path: str, access: Access) -> None:
    """Refuse foreign files, newer schemas for writing, and tables, triggers or views that are not ours."""
    application = connection.pragma("application_id")
    version = connection.pragma("user_version")
    if application != APPLICATION_ID:
        raise NotAStore(
            f"{path}: a SQLite database, but not a Stator store",
            hint="nothing was changed",
            store=path,
        )
    # This release has no fingerprint of a later schema, so there is nothing to compare it with.
    if version > SCHEMA:
        if access == "write":
            raise NewerStore(
                f"{path}: written by a newer release (schema {version}, this one writes {SCHEMA})",
                hint="upgrade stator; reading still works",
                store=path,
            )
        return
    if fingerprint(connection) != expected_fingerprint(version):
        raise SchemaChanged(
            f"{path}: its tables, views or triggers are not those of schema {version}",
            hint="another program changed them; copy the data out with: stator export, or restore a backup",
            store=path,
        )


def fingerprint(connection: apsw.Connection) -> str:
    """A digest of everything in the schema."""
    # ANALYZE makes the sqlite_stat tables. They hold no data of ours, and anybody may run it.
    rows = connection.execute(
        "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema "
        "WHERE name NOT LIKE 'sqlite_stat%' ORDER BY type, name"
    )
    lines = ("\t".join(map(str, row)) for row in rows)  # in a damaged file a name may be anything
    return sha256("\n".join(lines).encode()).hexdigest()


def expected_fingerprint(version: int) -> str:
    """The `fingerprint` of an untouched store of that schema; a test creates one and compares."""
    return FINGERPRINTS.get(version, "unknown")


def scratch(version: int) -> apsw.Connection:
    """An empty, private store of that schema, which disappears with its connection."""
    connection = apsw.Connection("")
    connection.execute(script(SCHEMA_FILES.get(version, SCHEMA_FILES[SCHEMA])))
    return connection


def _configure(connection: apsw.Connection, access: Access, synchronous: str) -> None:
    # A store may come from another person: its schema must not run code or damage the file.
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    # Plans do not depend on bound values: else SQLite compiles a query again for each of them.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.pragma("cell_size_check", 1)
    connection.pragma("cache_size", -CACHE_KIB)
    connection.pragma("temp_store", "memory")
    if access == "write":
        # In any other mode a commit acknowledged under synchronous=FULL can be lost to a power cut.
        use_wal(connection)
        # A setting of the connection, not of the file: without it, what this writer erases stays in free pages.
        connection.pragma("secure_delete", 1)
        connection.pragma("synchronous", synchronous)
        connection.wal_autocheckpoint(0)  # the writer's, which holds our locks


class Patience:
    """How long to wait for a lock: short, jittered waits, so that many writers take turns instead of in steps.

    SQLite calls it as its busy handler. A process that is suspended does not release what it holds: with the path of
    a store, waiting ends early if its writer is one.
    """

    def __init__(self, seconds: float | None = None, store: str = "") -> None:
        self.seconds = BUSY_SECONDS if seconds is None else seconds
        self.waited_s = 0.0
        self._store = store
        self._since = 0.0
        self._look = 0.0

    def __call__(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0:
            self._since, self._look = now, now + SUSPENDED_S
        self.waited_s = now - self._since
        if self.waited_s >= self.seconds:
            return False
        if self._store and now >= self._look:
            self._look = now + SUSPENDED_S
            if any(lock_holders.is_suspended(one.pid) for one in lock_holders.writers(self._store)):
                return False
        time.sleep(random.uniform(0.0002, 0.002 * min(tries + 1, 5)))
        return True


def use_wal(connection: apsw.Connection) -> None:
    """Switch the file to a write-ahead log, unless it has one."""
    wait, tries = Patience(), 0
    while connection.pragma("journal_mode") != "wal":
        try:
            connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            # Two connections that switch at once hold each other's read lock: SQLite then refuses one of them
            # at once, without asking its busy handler.
            if not wait(tries):
                raise
            tries += 1


def create(path: str, announce: Callable[[str, os.stat_result], object] | None = None) -> bool:
    """Make a new store, complete before it is visible under its name; False if another was there
    first.

    Built beside its place and then linked there, so that any number of processes may do this at once and none
    ever sees, or overwrites, a half-made file. `announce` is given the id and the file before it has its name, so
    that a kill at any point leaves no store that its maker has not written down.
    """
    if not path or "\0" in path:
        raise NotAStore("a store needs a path", hint="for example: stator.db")
    if os.path.lexists(path):
        return False
    folder = os.path.dirname(os.path.abspath(path))
    draft = os.path.join(folder, f".{os.path.basename(path)}.new-{os.urandom(6).hex()}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise NotAStore(
            f"{path}: cannot be created: {error.strerror}",
            hint="does the folder exist?",
            store=path,
        ) from None
    try:
        with translated(path):
            identifier = _initialise(draft)
        if announce is not None:
            announce(identifier, os.stat(draft))
        return publish(draft, path)
    finally:
        for leftover in (draft, draft + "-wal", draft + "-shm", draft + "-journal"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(leftover)


def _initialise(path: str) -> str:
    """Make an empty store of a file; returns its id."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        # Page size and auto_vacuum are fixed by the first table, so they come before the schema.
        # `space` needs incremental vacuum to shorten a file without rewriting it.
        connection.pragma("page_size", 4096)
        connection.pragma("auto_vacuum", "incremental")
        connection.pragma("secure_delete", 1)
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        with connection:
            connection.execute(script(SCHEMA_FILES[SCHEMA]))
            own: dict[str, str | int | bytes] = {
                "store": os.urandom(16).hex(),
                "created": time.time_ns() // 1000,
                "blob_key": os.urandom(32),
                "epoch": 0,
            }
            own[SEAL] = seal_of(own)
            connection.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", own.items())
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", SCHEMA)
        return str(own["store"])
    finally:
        connection.close()


def seal_of(meta: Mapping[str, Any]) -> bytes:
    """What shows that a store's id, key and time of creation are those it was created with."""
    parts = (meta.get("store"), meta.get("created"), meta.get("blob_key"))
    return sha256(repr(parts).encode()).digest()


def publish(draft: str, path: str) -> bool:
    """Give a complete file its name; False if another was there first."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # a filesystem without hard links: the small race is the best it can do
        if os.path.lexists(path):
            return False
        os.rename(draft, path)
    # The name must survive a power cut too: commits acknowledged from here on are in this file.
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return True


class FileGuard:
    """Whether the files under a connection are still the ones it opened."""

    def __init__(self, path: str) -> None:
        """To be made once the connection has read, which opens all of them."""
        self.path = path
        self.wal = path + "-wal"
        self._store = identity(path)
        self._wal = identity(self.wal)
        self._memory = shared_memory.use(path)
        self.memory_lost = self._memory.is_lost
        """Says whether the shared memory was removed or replaced. Asked before each write: where the log ends, others
        know from a new one, so that this connection would overwrite what they acknowledged."""

    def permit_removal(self) -> None:
        """To be called before a connection is closed that may remove the log."""
        self._memory.permit_removal()

    def close(self) -> None:
        """To be called after the connection was closed."""
        self._memory.leave()

    def is_stale(self) -> bool:
        """Whether another log or other shared memory is in use now. A reader whose log was removed, and not yet
        replaced, still reads what is newest."""
        return self.memory_lost() or identity(self.wal) not in (self._wal, None)

    def is_lost(self) -> bool:
        """Whether nothing may be written through the connection any more."""
        return self.memory_lost() or self.wal_lost()

    def wal_lost(self) -> bool:
        """The WAL was removed or replaced. Asked after each write: what was just written may be in no file that
        anybody reads."""
        return identity(self.wal) != self._wal

    def wal_is_vacant(self) -> bool:
        """Whether nothing was written in place of the WAL that was lost."""
        return _is_vacant(self.path)

    def check_store(self) -> None:
        if identity(self.path) != self._store:
            raise StoreReplaced(
                f"{self.path}: the file was replaced or removed while it was open",
                hint="nothing was acknowledged; close this store and open the file again",
                store=self.path,
            )
