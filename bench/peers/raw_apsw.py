"""The limit: the same bytes in as many transactions, inserted raw. It can answer nothing."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from bench.peers.base import FULL, RELAXED, Peer, check_durability, package_versions
from bench.workload import Turn, records

CHECKPOINT_PAGES = 1_000
PAGE_BYTES = 4_096
BUSY_MS = 60_000
SESSION_BITS = 40  # key = session << 40 | number of the record

SCHEMA = """
CREATE TABLE IF NOT EXISTS session(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS log(id INTEGER PRIMARY KEY, body BLOB);
"""


class RawApsw(Peer):
    name = "raw apsw (limit)"
    version = f"{package_versions('apsw')}, SQLite {apsw.sqlite_lib_version()}"
    note = (
        "One table keyed by an integer, JSON bytes encoded before the clock starts, 8 transactions "
        "a turn; WAL kept and grown beforehand, checkpoint every 1,000 pages, as ours."
    )
    durabilities = frozenset({FULL, RELAXED})

    def open(self, directory: Path, durability: str = FULL, **options: Any) -> None:
        check_durability(self, durability)
        self._path = directory / "raw.db"
        fresh = not self._path.exists()
        self._db = apsw.Connection(str(self._path))
        self._db.set_busy_timeout(BUSY_MS)
        self._db.execute("PRAGMA journal_mode=WAL").fetchall()
        self._db.execute(f"PRAGMA synchronous={'FULL' if durability == FULL else 'NORMAL'}")
        keep_wal(self._db)
        if fresh:
            grow_wal(self._db)
        self._db.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}").fetchall()
        self._db.execute(SCHEMA)
        self._next: dict[str, int] = {}

    def new(self, session: str) -> None:
        self._db.execute("INSERT INTO session(name) VALUES(?)", (session,))

    def prepare(self, turn: Turn) -> list[bytes]:
        return [json.dumps(r, separators=(",", ":")).encode() for r in records(turn)]

    def append(self, session: str, turn: Any) -> None:
        key = self._next.get(session) or self._find_next(session)
        for body in turn:
            self._db.execute("INSERT INTO log VALUES(?, ?)", (key, body))
            key += 1
        self._next[session] = key

    def _find_next(self, session: str) -> int:
        number: int = self._one("SELECT id FROM session WHERE name = ?", (session,))
        low, high = number << SESSION_BITS, (number + 1) << SESSION_BITS
        last: int | None = self._one(
            "SELECT max(id) FROM log WHERE id >= ? AND id < ?", (low, high)
        )
        return (last or low) + 1

    def _one(self, sql: str, values: tuple[Any, ...]) -> Any:
        row = self._db.execute(sql, values).fetchone()
        assert row is not None
        return row[0]

    def leave(self, session: str) -> None:
        self._next.pop(session, None)

    def close(self) -> None:
        self._db.close()

    def files(self) -> Sequence[Path]:
        return [self._path]


def keep_wal(db: apsw.Connection) -> None:
    """Closing must not delete the WAL: commits then overwrite it instead of growing it."""
    on = ctypes.c_int(1)
    db.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(on))


def grow_wal(db: apsw.Connection) -> None:
    """Give a new WAL its final size, since an fsync that grows a file also writes metadata.

    A transaction too large for the cache spills into the WAL; rolled back, it leaves the main
    file as it was and the WAL large.
    """
    db.execute("PRAGMA cache_size=10").fetchall()
    db.execute("BEGIN; CREATE TABLE filler(bytes)")
    size = CHECKPOINT_PAGES * PAGE_BYTES * 11 // 10  # a checkpoint may come a transaction late
    db.execute(f"INSERT INTO filler VALUES(zeroblob({size}))")
    db.execute("ROLLBACK")
    db.execute("PRAGMA cache_size=-2000").fetchall()
