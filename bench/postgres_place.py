"""A PostgreSQL server for the bench, with fsync on, and what it is asked about itself: CPU, WAL, round trips."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from bench.process import ROOT

sys.path.append(str(ROOT / "tests"))
from postgres_server import PostgresServer
from postgres_wire import WireCounter as WireCounter

SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "30min",
}
"""As a server that is meant to keep things, with checkpoints outside of the measures."""
TICKS = os.sysconf("SC_CLK_TCK")


class Place:
    """The server, and a connection that watches it."""

    def __init__(self, folder: Path) -> None:
        # A server that root starts runs as another user, who must reach its files.
        reachable = os.geteuid() != 0 or all(
            parent.stat().st_mode & 0o001
            for parent in (folder.resolve(), *folder.resolve().parents)
        )
        if reachable:
            tempfile.tempdir = str(folder)
        else:
            print(f"the server's files are in {tempfile.gettempdir()}", file=sys.stderr)
        self.server = PostgresServer(**SETTINGS)
        self.url = self.server.database()
        self.watch = psycopg.connect(self.url, autocommit=True)
        self._postmaster = int((self.server.data / "postmaster.pid").read_text().split()[0])

    def close(self) -> None:
        self.watch.close()
        self.server.remove()

    def one(self, text: str, *values: Any) -> Any:
        row = self.watch.execute(text, values).fetchone()  # type: ignore[arg-type]
        assert row is not None
        return row[0]

    @property
    def version(self) -> str:
        return str(self.one("SHOW server_version"))

    def wal(self) -> int:
        """Bytes of WAL so far."""
        return int(self.one("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"))

    def cpu(self) -> float:
        """Seconds of CPU of the server so far, with processes that have ended."""
        total = 0
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:  # it has ended
                    continue
                if int(entry.name) == self._postmaster:
                    total += sum(map(int, fields[11:15]))
                elif int(fields[1]) == self._postmaster:
                    total += sum(map(int, fields[11:13]))
        return total / TICKS

    def statements(self) -> int:
        return int(self.one("SELECT sum(xact_commit) FROM pg_stat_database"))
