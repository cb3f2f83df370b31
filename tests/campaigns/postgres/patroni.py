"""Two servers that Patroni keeps, with its decisions in etcd: what promotes a standby where nobody is at hand.

Each server and its Patroni are in a network namespace of their own, and so is etcd: a machine can be cut off from both.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from campaigns.postgres import programs
from campaigns.postgres.network import Network, network
from campaigns.postgres.pair import Pair
from campaigns.postgres.server import DATABASE, OWNER, Server

NODE = """
scope: campaign
name: {name}
restapi: {{listen: '{host}:{rest}', connect_address: '{host}:{rest}'}}
etcd: {{host: '{etcd}'}}
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
  listen: '{host}:{port}'
  connect_address: '{host}:{port}'
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
    - host all all 10.0.0.0/8 trust
    - host replication all 10.0.0.0/8 trust
"""


CLIENT, PEER, REST, SERVER = 2379, 2380, 8008, 5432
"""Ports: of etcd, and of each machine with a server."""
MACHINES = ("a", "b")
ETCD, CLIENTS = "e", "c"
LINES = 120
"""Lines of a log that a failure's report shows."""
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Etcd:
    """One etcd, which keeps who leads. Patroni asks it with its older interface: over the newer one Patroni 3.0 writes
    the lock without a comparison, and a machine that was paused takes it back from its successor."""

    def __init__(self, folder: Path, host: str, namespace: str) -> None:
        self.address = f"{host}:{CLIENT}"
        self._own, self._peer = f"http://{self.address}", f"http://{host}:{PEER}"
        self._namespace = namespace
        self._folder = folder / "etcd"
        self._folder.mkdir()
        programs.own(self._folder)

    def start(self) -> None:
        own, peer = self._own, self._peer
        self._process = programs.start(
            "etcd", "--data-dir", self._folder / "data",
            "--listen-client-urls", own, "--advertise-client-urls", own,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"default={peer}", "--enable-v2",
            log=self._folder / "log", namespace=self._namespace,
        )  # fmt: skip

    def stop(self) -> None:
        programs.kill_all(self._process.pid)
        self._process.wait()


class PatroniPair(Pair):
    """Two servers, each under a Patroni of its own. Which of them is the primary is not ours to decide."""

    def __init__(self, folder: Path, net: Network) -> None:
        places = [(name, net.addresses[name], net.namespace(name)) for name in MACHINES]
        servers = [Server(folder, name, SERVER, host=at, namespace=ns) for name, at, ns in places]
        super().__init__(servers, "synchronous")
        self.folder, self.network = folder, net
        self._etcd = Etcd(folder, net.addresses[ETCD], net.namespace(ETCD))
        self._stopped: list[int] = []
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def make(self, *, role: str) -> None:
        self._etcd.start()
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
                host=server.host,
                rest=REST,
                etcd=self._etcd.address,
                port=server.port,
                folder=server.folder,
                owner=OWNER,
                binaries=programs.BINARIES[-1],
            )
        )
        self._processes[server.name] = programs.start(
            "patroni",
            settings,
            log=server.folder / "patroni.log",
            namespace=server.namespace,
            PYTHONPATH="",
        )

    def kill_patroni(self, server: Server) -> None:
        """The Patroni of a server dies, and the server with it: its machine is gone."""
        process = self._processes.pop(server.name)
        server.kill()
        programs.kill_all(process.pid)
        process.wait()
        server.kill()  # one that Patroni had just started

    def pause_machine(self, server: Server) -> None:
        """The server and its Patroni stop, and neither notices."""
        self._stopped = programs.stop_all(self._processes[server.name].pid)
        server.pause()

    def continue_machine(self, server: Server) -> None:
        server.go_on()
        programs.signal_all(self._stopped, signal.SIGCONT)
        self._stopped = []

    def switch_over(self) -> None:
        """An operator asks the leader to hand over."""
        names = {"leader": self.primary.name, "candidate": self.standby.name}
        self._ask(self.primary, "switchover", json.dumps(names).encode())

    def _ask(self, server: Server, what: str, sent: bytes | None = None) -> bytes:
        """Ask the Patroni of a server, from the machine of the clients."""

        def ask() -> bytes:
            url = f"http://{server.host}:{REST}/{what}"
            with DIRECT.open(url, sent, timeout=2 if sent is None else 60) as answer:
                found: bytes = answer.read()
            return found

        return programs.inside(self.network.namespace(CLIENTS), ask)

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
        for server in self.servers:
            with contextlib.suppress(OSError, ValueError):
                members = json.loads(self._ask(server, "cluster"))["members"]
                return {
                    each["name"]: each["role"] for each in members if each["state"] == "running"
                }
        return {}

    def leader_other_than(self, old: Server) -> Server:
        """Wait until another server leads."""
        other = next(server for server in self.servers if server is not old)
        programs.eventually(lambda: self._leads(other), "the other server leads", within_s=60)
        return other

    def _leads(self, server: Server) -> bool:
        with contextlib.suppress(Exception):
            return server.is_primary()
        return False

    def status(self) -> dict[str, list[str]]:
        """The end of what each Patroni wrote, for a failure's report."""
        logs = {s.name: s.folder / "patroni.log" for s in self.servers}
        lines = {n: path.read_text().splitlines() for n, path in logs.items() if path.exists()}
        return {
            name: [line for line in written if "no action" not in line][-LINES:]
            for name, written in lines.items()
        }

    def stop(self) -> None:
        for process in self._processes.values():
            programs.kill_all(process.pid)
            process.wait()
        super().stop()
        self._etcd.stop()


@contextlib.contextmanager
def patroni_pair(*, role: str = "app") -> Iterator[PatroniPair]:
    """Etcd and two servers under Patroni, in namespaces, ended and removed afterwards."""
    with programs.folder() as folder, network(*MACHINES, CLIENTS, ETCD) as net:
        made = PatroniPair(folder, net)
        try:
            made.make(role=role)
            yield made
        except TimeoutError as error:
            error.add_note(json.dumps(made.status(), indent=1))
            raise
        finally:
            made.stop()
