"""pgbouncer in transaction mode, in front of whichever server is the primary."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg

from campaigns.postgres import programs
from campaigns.postgres.server import DATABASE, Server

SETTINGS = """
[databases]
{database} = host={host} port={port} dbname={database}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = 10
server_login_retry = 1
server_connect_timeout = 2
server_lifetime = 5
query_timeout = 0
ignore_startup_parameters = extra_float_digits,options
admin_users = postgres
pidfile = {folder}/pid
logfile = {folder}/log
"""


class Pooler:
    """One pgbouncer. It is pointed at another server as an operator does: new settings, and `RELOAD`. Clients reach it
    on the loopback of its namespace."""

    def __init__(self, folder: Path, port: int, role: str, namespace: str = "") -> None:
        self.folder, self.port, self._role = folder / "pgbouncer", port, role
        self._namespace = namespace
        self.folder.mkdir()
        programs.own(self.folder)

    def start(self, server: Server) -> None:
        self._write(server)
        self._process = programs.start(
            "pgbouncer",
            self.folder / "settings",
            log=self.folder / "out",
            namespace=self._namespace,
        )
        programs.eventually(self._answers, "pgbouncer answers")

    def _write(self, server: Server) -> None:
        # Every client is this role on the server: pgbouncer checks no password here.
        text = SETTINGS.format(
            database=DATABASE, host=server.host, port=f"{server.port} user={self._role}",
            own=self.port, folder=self.folder,
        )  # fmt: skip
        (self.folder / "settings").write_text(text)

    def point(self, server: Server) -> None:
        """Send everyone to another server; connections to the old one are given up."""
        self._write(server)
        with self._admin() as admin:
            admin.execute("RELOAD")
            with contextlib.suppress(psycopg.Error):
                admin.execute(f"KILL {DATABASE}".encode())
            admin.execute(f"RESUME {DATABASE}".encode())

    def _admin(self) -> psycopg.Connection[tuple[object, ...]]:
        # The console understands only simple queries.
        return psycopg.connect(
            f"host={self.folder} port={self.port} user=postgres dbname=pgbouncer",
            autocommit=True,
            connect_timeout=2,
            cursor_factory=psycopg.ClientCursor,
        )

    def _answers(self) -> bool:
        try:
            self._admin().close()
        except psycopg.OperationalError:
            return False
        return True

    @property
    def url(self) -> str:
        return f"postgresql://{self._role}@127.0.0.1:{self.port}/{DATABASE}?connect_timeout=2"

    def stop(self) -> None:
        programs.kill_all(self._process.pid)
        self._process.wait()


@contextlib.contextmanager
def pooler(folder: Path, server: Server, role: str, namespace: str = "") -> Iterator[Pooler]:
    made = Pooler(folder, programs.free_ports(1)[0], role, namespace)
    made.start(server)
    try:
        yield made
    finally:
        made.stop()
