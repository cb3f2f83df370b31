"""A primary and its standby, which change places: the standby is promoted, and the old primary follows it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from campaigns.postgres import programs
from campaigns.postgres.server import DATABASE, Server

Replication = Literal["synchronous", "asynchronous"]


class Pair:
    """Two servers. `synchronous`: a commit is acknowledged when both have it on disk."""

    def __init__(self, servers: Sequence[Server], replication: Replication) -> None:
        self.servers = tuple(servers)
        self.primary, self.standby = servers
        self.replication = replication

    def make(self, *, role: str) -> None:
        """Start both, with an empty database of a role that is no superuser."""
        self.primary.make()
        self.primary.start()
        self.primary.ask(f"CREATE ROLE {role} LOGIN")
        self.primary.ask(f"CREATE DATABASE {DATABASE} OWNER {role}")
        self.standby.follow(self.primary)
        self.replicate()

    def replicate(self) -> None:
        """Wait until the standby has everything; from then on commits wait for it, if that is wanted."""
        self.catch_up()
        if self.replication == "synchronous":
            self.primary.set("synchronous_standby_names", f'"{self.standby.name}"')
            programs.eventually(self._is_synchronous, "the standby is synchronous")

    def _is_synchronous(self) -> bool:
        rows = self.primary.ask("SELECT application_name, sync_state FROM pg_stat_replication")
        return (self.standby.name, "sync") in rows

    def catch_up(self) -> None:
        """Wait until the standby has applied everything that the primary has written."""
        upto = self.primary.position()
        programs.eventually(lambda: self.standby.position() >= upto, "the standby catches up")

    def fail_over(self) -> None:
        """Promote the standby. The old primary is left as it is: dead, stopped, cut off or running; if it runs,
        it still waits for its standby before it acknowledges anything."""
        self.standby.promote()
        # It is alone: until the other follows it, commits wait for nothing but its own disk.
        self.standby.set("synchronous_standby_names", "")
        self.primary, self.standby = self.standby, self.primary

    def rejoin(self, *, rewind: bool) -> None:
        """The old primary follows the new one."""
        self.standby.follow(self.primary, rewind=rewind)
        self.replicate()

    def url(self, role: str, *hosts: tuple[str, int], **options: str) -> str:
        """Where clients connect: both servers, of which the one that writes is chosen."""
        named = hosts or [(server.host, server.port) for server in self.servers]
        given = {"target_session_attrs": "read-write", "connect_timeout": "2", **options}
        places = ",".join(f"{host}:{port}" for host, port in named)
        query = "&".join(f"{name}={value}" for name, value in given.items())
        return f"postgresql://{role}@{places}/{DATABASE}?{query}"

    def local_url(self, role: str) -> str:
        """The same over sockets in the file system, which no partition cuts."""
        hosts = ",".join(str(server.folder) for server in self.servers)
        ports = ",".join(str(server.port) for server in self.servers)
        return (
            f"postgresql://{role}@/{DATABASE}?host={hosts}&port={ports}"
            "&target_session_attrs=read-write&connect_timeout=2"
        )

    def stop(self) -> None:
        for server in self.servers:
            server.go_on()
            server.kill()


@contextlib.contextmanager
def pair(replication: Replication = "synchronous", *, role: str = "app") -> Iterator[Pair]:
    """Two servers on the loopback, ended and removed afterwards."""
    with programs.folder() as folder:
        ports = programs.free_ports(2)
        made = Pair([Server(folder, n, p) for n, p in zip("ab", ports, strict=True)], replication)
        try:
            made.make(role=role)
            yield made
        finally:
            made.stop()


def log_of(folder: Path) -> str:
    """What the servers wrote, for a failure's report."""
    return "\n".join(path.read_text()[-2000:] for path in sorted(folder.glob("*/log")))
