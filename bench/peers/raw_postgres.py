"""The limit over PostgreSQL: the same bytes in as many transactions, inserted with psycopg. It can answer nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from bench.peers.base import FULL, RELAXED, Peer, check_durability, package_versions
from bench.workload import Turn, records

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS raw_session (s bigserial PRIMARY KEY, name text)",
    "CREATE TABLE IF NOT EXISTS raw_log (s bigint, seq bigint, body bytea, PRIMARY KEY (s, seq))",
)


class RawPostgres(Peer):
    name = "raw psycopg (limit)"
    version = package_versions("psycopg")
    note = (
        "One table keyed by session and number, JSON bytes encoded before the clock starts, 8 transactions a turn "
        "(autocommit, one round trip each), the statement prepared."
    )
    durabilities = frozenset({FULL, RELAXED})

    def open(self, directory: Path, durability: str = FULL, **options: Any) -> None:
        check_durability(self, durability)
        self._db = psycopg.connect(options["url"], autocommit=True)
        for text in SCHEMA:
            self._db.execute(text)
        self._db.execute(f"SET synchronous_commit = {'on' if durability == FULL else 'off'}")
        self._next: dict[str, tuple[int, int]] = {}

    def new(self, session: str) -> None:
        made = self._db.execute(
            "INSERT INTO raw_session (name) VALUES (%s) RETURNING s", (session,)
        ).fetchone()
        assert made is not None
        self._next[session] = (made[0], 1)

    def prepare(self, turn: Turn) -> list[bytes]:
        return [json.dumps(r, separators=(",", ":")).encode() for r in records(turn)]

    def append(self, session: str, turn: Any) -> None:
        s, seq = self._next[session]
        for body in turn:
            self._db.execute("INSERT INTO raw_log VALUES (%s, %s, %b)", (s, seq, body))
            seq += 1
        self._next[session] = (s, seq)

    def close(self) -> None:
        self._db.close()

    def files(self) -> Sequence[Path]:
        return []
