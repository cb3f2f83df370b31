"""One PostgreSQL server: made, started, killed, stopped, promoted, and made a standby again."""

from __future__ import annotations

import contextlib
import shutil
import signal
from pathlib import Path
from typing import Any

import psycopg

from campaigns.postgres import programs

DATABASE = "stator"
OWNER = "postgres"
SETTINGS = """
listen_addresses = '{host}'
unix_socket_directories = '{folder}'
port = {port}
cluster_name = '{name}'
max_connections = 80
shared_buffers = 32MB
wal_level = replica
wal_log_hints = on
wal_keep_size = 512MB
max_wal_size = 1GB
max_wal_senders = 8
wal_sender_timeout = 5s
wal_receiver_timeout = 5s
wal_retrieve_retry_interval = 100ms
hot_standby = on
synchronous_commit = on
log_min_messages = warning
logging_collector = off
autovacuum_naptime = 5s
"""
TRUSTED = """
local all all trust
host all all 127.0.0.1/32 trust
host all all 10.0.0.0/8 trust
local replication all trust
host replication all 127.0.0.1/32 trust
host replication all 10.0.0.0/8 trust
"""
"""Who may connect, without a password: the servers listen on the loopback or in namespaces of the campaign's own."""


class Server:
    """A server with its data, in a folder of its own."""

    def __init__(
        self, folder: Path, name: str, port: int, *, host: str = "127.0.0.1", namespace: str = ""
    ) -> None:
        self.name, self.port, self.host, self.namespace = name, port, host, namespace
        self.folder = folder / name
        self.folder.mkdir()
        programs.own(self.folder)
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self._stopped: list[int] = []

    # -- its life ---------------------------------------------------------------------------------

    def make(self) -> None:
        """Make an empty cluster."""
        programs.run(
            "initdb", "-D", self.data, "-U", OWNER, "-A", "trust", "-E", "UTF8",
            "--no-sync", "--locale=C.UTF-8",
        )  # fmt: skip
        self._configure()

    def _configure(self) -> None:
        text = SETTINGS.format(folder=self.folder, host=self.host, port=self.port, name=self.name)
        (self.data / "campaign.conf").write_text(text)
        own = self.data / "postgresql.conf"
        if "campaign.conf" not in own.read_text():
            own.write_text(own.read_text() + "\ninclude 'campaign.conf'\n")
        (self.data / "pg_hba.conf").write_text(TRUSTED)

    def start(self) -> None:
        programs.run(
            "pg_ctl", "start", "-w", "-s", "-D", self.data, "-l", self.log, namespace=self.namespace
        )

    def stop(self) -> None:
        """Shut down in order, or by force where that is not possible; nothing if it does not run."""
        if self.is_up():
            self.go_on()
            with contextlib.suppress(RuntimeError):
                programs.run("pg_ctl", "stop", "-w", "-s", "-m", "fast", "-t", 10, "-D", self.data)
        self.kill()

    def kill(self) -> None:
        """End all its processes at once, as a machine dies."""
        if self.is_up():
            programs.kill_all(self.pid)
        self._stopped = []
        # What a dead server leaves keeps the next from starting for as long as its process is not reaped.
        for left in (*self.folder.glob(".s.PGSQL.*"), self.data / "postmaster.pid"):
            left.unlink(missing_ok=True)

    def pause(self) -> None:
        """Stop all its processes; the kernel keeps their connections."""
        self._stopped = programs.stop_all(self.pid)

    def go_on(self) -> None:
        """Continue after a pause."""
        programs.signal_all(self._stopped, signal.SIGCONT)
        self._stopped = []

    def promote(self) -> None:
        programs.run("pg_ctl", "promote", "-w", "-s", "-D", self.data)

    def follow(self, primary: Server, *, rewind: bool = False) -> None:
        """Become a standby of another: by rewinding what it has, or from a copy of the other."""
        self.stop()
        done = rewind and self._rewind(primary)
        if not done:
            shutil.rmtree(self.data, ignore_errors=True)
            programs.run(
                "pg_basebackup", "-D", self.data, "-d", primary.dsn("postgres"), "-c", "fast",
                "--no-sync",
            )  # fmt: skip
        self._configure()
        target = (
            f"host={primary.host} port={primary.port} user={OWNER} application_name={self.name}"
        )
        (self.data / "postgresql.auto.conf").write_text(f"primary_conninfo = '{target}'\n")
        (self.data / "standby.signal").touch()
        programs.own(self.data / "standby.signal")
        self.start()

    def _rewind(self, primary: Server) -> bool:
        """Take back what the other does not have. False where that is not possible: then a copy is made."""
        # Before its first checkpoint a promoted server shows its old timeline, and nothing would be taken back.
        primary.ask("CHECKPOINT")
        try:
            programs.run(
                "pg_rewind", "-D", self.data, "--source-server", primary.dsn("postgres"), "-N"
            )
        except RuntimeError:
            return False
        return True

    @property
    def pid(self) -> int:
        """The first process of the server."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def is_up(self) -> bool:
        with contextlib.suppress(OSError, ValueError, IndexError):
            return programs.is_alive(self.pid)
        return False

    # -- asking it, over its socket in the file system ---------------------------------------------

    def dsn(self, database: str = DATABASE) -> str:
        return f"host={self.folder} port={self.port} user={OWNER} dbname={database}"

    def connect(self, database: str = DATABASE, **options: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn(database), autocommit=True, connect_timeout=5, **options)

    def ask(self, query: str, *values: Any, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement as the owner; its rows."""
        with self.connect(database) as connection:
            cursor = connection.execute(query.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def set(self, name: str, value: str) -> None:
        """Change a setting of the running server."""
        self.ask(f"ALTER SYSTEM SET {name} = '{value}'")
        self.ask("SELECT pg_reload_conf()")
        programs.eventually(
            lambda: self.ask("SELECT current_setting(%s)", name)[0][0] == value, f"{name} is set"
        )

    def is_primary(self) -> bool:
        return not self.ask("SELECT pg_is_in_recovery()")[0][0]

    def position(self) -> int:
        """How far its log reaches: what it wrote as a primary, or applied as a standby."""
        where = "pg_current_wal_flush_lsn()" if self.is_primary() else "pg_last_wal_replay_lsn()"
        return int(self.ask(f"SELECT coalesce({where} - '0/0', 0)")[0][0])

    def tables(self) -> dict[str, tuple[int, Any]]:
        """Every table of the database: how many rows, and a checksum of them."""
        with self.connect() as connection:
            names = connection.execute(
                "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
                " WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"
            ).fetchall()
            found = {}
            for (name,) in names:
                row = connection.execute(
                    f"SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM {name} t".encode()
                ).fetchone()
                assert row is not None
                found[name] = (row[0], row[1])
            return found
