"""Two servers that Patroni keeps, with its decisions in etcd: what promotes a standby where nobody is at hand."""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from campaigns.postgres import programs
from campaigns.postgres.pair import Pair
from campaigns.postgres.server import DATABASE, OWNER, Server

NODE = """
scope: campaign
name: {name}
restapi: {{listen: '127.0.0.1:{rest}', connect_address: '127.0.0.1:{rest}'}}
etcd3: {{host: '127.0.0.1:{etcd}'}}
bootstrap:
  dcs:
    ttl: 8
    loop_wait: 1
    retry_timeout: 3
    primary_start_timeout: 0
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
      use_slots: false
      parameters: {{wal_log_hints: 'on', wal_keep_size: 512MB, max_wal_senders: 8, max_connections: 80}}
  initdb: [{{encoding: UTF8}}, {{auth: trust}}, {{locale: C.UTF-8}}]
postgresql:
  listen: '127.0.0.1:{port}'
  connect_address: '127.0.0.1:{port}'
  data_dir: {folder}/data
  bin_dir: {binaries}
  pgpass: {folder}/pgpass
  authentication:
    superuser: {{username: {owner}}}
    replication: {{username: {owner}}}
    rewind: {{username: {owner}}}
  parameters: {{unix_socket_directories: '{folder}', shared_buffers: 32MB, cluster_name: '{name}'}}
  pg_hba:
    - local all all trust
    - host all all 127.0.0.1/32 trust
    - host replication all 127.0.0.1/32 trust
"""


class Etcd:
    """One etcd, which keeps who leads."""

    def __init__(self, folder: Path) -> None:
        self.port, self._peer = programs.free_ports(2)
        self._folder = folder / "etcd"
        self._folder.mkdir()
        programs.own(self._folder)

    def start(self) -> None:
        own, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self._peer}"
        self._process = programs.start(
            "etcd", "--data-dir", self._folder / "data",
            "--listen-client-urls", own, "--advertise-client-urls", own,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"default={peer}",
            log=self._folder / "log",
        )  # fmt: skip

    def stop(self) -> None:
        programs.kill_all(self._process.pid)
        self._process.wait()


class PatroniPair(Pair):
    """Two servers, each under a Patroni of its own. Which of them is the primary is not ours to decide."""

    def __init__(self, folder: Path, etcd: Etcd) -> None:
        self._folder = folder
        ports = programs.free_ports(4)
        servers = [Server(folder, name, port) for name, port in zip("ab", ports, strict=False)]
        self._rest = dict(zip("ab", ports[2:], strict=True))
        super().__init__(servers, "synchronous")
        self._etcd = etcd
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def make(self, *, role: str) -> None:
        for server in self.servers:
            self.start_patroni(server)
            if server is self.servers[0]:
                programs.eventually(lambda: self._leads(self.servers[0]), "the first server leads")
        self.settle()
        self.primary.ask(f"CREATE ROLE {role} LOGIN")
        self.primary.ask(f"CREATE DATABASE {DATABASE} OWNER {role}")

    def start_patroni(self, server: Server) -> None:
        settings = server.folder / "patroni.yml"
        settings.write_text(
            NODE.format(
                name=server.name,
                rest=self._rest[server.name],
                etcd=self._etcd.port,
                port=server.port,
                folder=server.folder,
                owner=OWNER,
                binaries=programs.BINARIES[-1],
            )
        )
        self._processes[server.name] = programs.start(
            "patroni", settings, log=server.folder / "patroni.log", PYTHONPATH=""
        )

    def kill_patroni(self, server: Server) -> None:
        """The Patroni of a server dies, and the server with it: its machine is gone."""
        process = self._processes.pop(server.name)
        server.kill()
        programs.kill_all(process.pid)
        process.wait()
        server.kill()  # one that Patroni had just started

    def restore_patroni(self) -> None:
        """Every server has a Patroni again."""
        for server in self.servers:
            if server.name not in self._processes:
                self.start_patroni(server)

    def settle(self) -> None:
        """Wait until one leads and the other is its synchronous standby."""
        programs.eventually(self._is_settled, "one leads and the other follows", within_s=90)

    def _is_settled(self) -> bool:
        """As Patroni has it in etcd: a standby that is not written down as synchronous is not promoted."""
        roles = self._roles()
        if sorted(roles.values()) != ["leader", "sync_standby"]:
            return False
        self.primary, self.standby = sorted(self.servers, key=lambda server: roles[server.name])
        return self._leads(self.primary)

    def _roles(self) -> dict[str, str]:
        for port in self._rest.values():
            with contextlib.suppress(OSError, ValueError):
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{port}/cluster", timeout=2
                ) as answer:
                    members = json.load(answer)["members"]
                return {
                    each["name"]: each["role"] for each in members if each["state"] == "running"
                }
        return {}

    def leader_other_than(self, old: Server) -> None:
        """Wait until another server leads."""
        other = next(server for server in self.servers if server is not old)
        programs.eventually(lambda: self._leads(other), "the other server leads", within_s=60)

    def _leads(self, server: Server) -> bool:
        with contextlib.suppress(Exception):
            return server.is_primary()
        return False

    def status(self) -> dict[str, str]:
        """The end of what each Patroni wrote, for a failure's report."""
        logs = {s.name: s.folder / "patroni.log" for s in self.servers}
        return {name: path.read_text()[-800:] for name, path in logs.items() if path.exists()}

    def stop(self) -> None:
        for process in self._processes.values():
            programs.kill_all(process.pid)
            process.wait()
        super().stop()


@contextlib.contextmanager
def patroni_pair(*, role: str = "app") -> Iterator[PatroniPair]:
    """Etcd and two servers under Patroni on the loopback, ended and removed afterwards."""
    with programs.folder() as folder:
        etcd = Etcd(folder)
        etcd.start()
        made = PatroniPair(folder, etcd)
        try:
            made.make(role=role)
            yield made
        except TimeoutError as error:
            error.add_note(json.dumps(made.status(), indent=1))
            raise
        finally:
            made.stop()
            etcd.stop()
