"""Network namespaces: each server and the clients in one of their own, joined by a bridge, cut and joined again.

Nothing leaves this machine: the bridge is in a namespace too, and has no other link.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence

from campaigns.postgres import programs


class Network:
    """Hosts on one bridge. Needs root."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._prefix = f"st{os.getpid() % 100000}"
        self._hub = f"{self._prefix}hub"
        self.addresses = {host: f"10.213.7.{n}" for n, host in enumerate(hosts, start=2)}

    def namespace(self, host: str) -> str:
        return f"{self._prefix}{host}"

    def make(self) -> None:
        _ip("netns", "add", self._hub)
        _ip("-n", self._hub, "link", "add", "hub", "type", "bridge")
        _ip("-n", self._hub, "link", "set", "hub", "up")
        for host, address in self.addresses.items():
            space = self.namespace(host)
            _ip("netns", "add", space)
            _ip("-n", space, "link", "set", "lo", "up")
            _ip(
                "-n",
                self._hub,
                "link",
                "add",
                f"to{host}",
                "type",
                "veth",
                "peer",
                "eth0",
                "netns",
                space,
            )
            _ip("-n", self._hub, "link", "set", f"to{host}", "master", "hub", "up")
            _ip("-n", space, "address", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")

    def cut(self, host: str) -> None:
        """From now on nothing reaches the host or leaves it, and nothing says so."""
        _ip("-n", self._hub, "link", "set", f"to{host}", "down")

    def join(self, host: str) -> None:
        _ip("-n", self._hub, "link", "set", f"to{host}", "up")

    def remove(self) -> None:
        for space in (*map(self.namespace, self.addresses), self._hub):
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", space)


def _ip(*arguments: str) -> None:
    subprocess.run([programs.program("ip"), *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def network(*hosts: str) -> Iterator[Network]:
    """Namespaces for these hosts, removed afterwards."""
    made = Network(hosts)
    try:
        made.make()
        yield made
    finally:
        made.remove()
