"""What breaks, round after round: each scenario makes its servers and says what one round of it does."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from campaigns.postgres import programs
from campaigns.postgres.campaign import Campaign
from campaigns.postgres.network import Network, network
from campaigns.postgres.pair import Pair, Replication, pair
from campaigns.postgres.patroni import PatroniPair, patroni_pair
from campaigns.postgres.pooler import Pooler, pooler
from campaigns.postgres.server import Server
from campaigns.postgres.stores import make_tables
from reliability.support import Zygote

ROLE = "app"
DRIVERS = "campaigns.postgres.driver"
STALE_S = 1.5
"""How long, at most, an old primary runs beside the new one."""


@contextlib.contextmanager
def drivers(folder: Path) -> Iterator[Zygote]:
    zygote = Zygote(folder, DRIVERS)
    try:
        yield zygote
    finally:
        zygote.close()


@contextlib.contextmanager
def on_loopback(
    kind: str, folder: Path, *, replication: Replication = "synchronous", pooled: bool = False
) -> Iterator[tuple[Campaign, Pooler | None]]:
    """A campaign over two servers on the loopback. `pooled`: every third driver goes through pgbouncer."""
    with contextlib.ExitStack() as held:
        servers = held.enter_context(pair(replication, role=ROLE))
        zygote = held.enter_context(drivers(folder))
        make_tables(kind, servers.local_url(ROLE))
        urls, pool = [servers.url(ROLE)], None
        if pooled:
            pool = held.enter_context(
                pooler(servers.servers[0].folder.parent, servers.primary, ROLE)
            )
            urls = [*urls, servers.url(ROLE), pool.url]
        look = servers.local_url(ROLE)
        yield Campaign(servers, zygote, folder, kind=kind, urls=urls, look=look), pool


def _fail_over(servers: Pair, pool: Pooler | None) -> None:
    servers.fail_over()
    if pool is not None:
        pool.point(servers.primary)


def killed(kind: str, folder: Path, rounds: int) -> Campaign:
    """The primary dies, its standby is promoted."""
    with on_loopback(kind, folder, pooled=True) as (campaign, pool):
        servers = campaign.pair

        def fault() -> None:
            servers.primary.kill()
            campaign.broke()
            _fail_over(servers, pool)

        for number in campaign.numbers(rounds):
            campaign.round(fault, lambda n=number: servers.rejoin(rewind=n % 2 == 0))  # type: ignore[misc]
        return campaign


def paused(kind: str, folder: Path, rounds: int) -> Campaign:
    """The primary stops, its standby is promoted, and the old primary continues as if nothing had been."""
    with on_loopback(kind, folder, pooled=True) as (campaign, pool):
        servers = campaign.pair

        def fault() -> None:
            old = servers.primary
            old.pause()
            campaign.broke()
            _fail_over(servers, pool)
            time.sleep(campaign.random.random() * STALE_S)
            old.go_on()
            time.sleep(campaign.random.random() * STALE_S)
            servers.rejoin(rewind=True)

        for _ in campaign.numbers(rounds):
            campaign.round(fault, lambda: None)
        return campaign


def promoted(kind: str, folder: Path, rounds: int) -> Campaign:
    """The standby is promoted: after an orderly end of the primary, or while it runs on."""
    with on_loopback(kind, folder, pooled=True) as (campaign, pool):
        servers = campaign.pair

        def fault() -> None:
            if campaign.tally.rounds % 2:
                servers.primary.stop()
            campaign.broke()
            _fail_over(servers, pool)
            time.sleep(campaign.random.random() * STALE_S)
            servers.rejoin(rewind=True)

        for _ in campaign.numbers(rounds):
            campaign.round(fault, lambda: None)
        return campaign


def partitioned(kind: str, folder: Path, rounds: int) -> Campaign:
    """The primary is cut off, with a driver beside it that only reaches this server; the other is promoted."""
    with contextlib.ExitStack() as held:
        place = held.enter_context(programs.folder())
        net = held.enter_context(network("a", "b", "c"))
        servers = Pair(
            [
                Server(place, name, 5432, host=net.addresses[name], namespace=net.namespace(name))
                for name in "ab"
            ],
            "synchronous",
        )
        held.callback(servers.stop)
        servers.make(role=ROLE)
        zygote = held.enter_context(drivers(folder))
        make_tables(kind, servers.local_url(ROLE))
        pool = held.enter_context(pooler(place, servers.primary, ROLE, net.namespace("c")))
        campaign = _apart(servers, net, zygote, folder, kind, pool)

        def fault() -> None:
            old = servers.primary.name
            net.cut(old)
            campaign.broke()
            _fail_over(servers, pool)
            time.sleep(campaign.random.random() * STALE_S * 2)
            net.join(old)
            time.sleep(campaign.random.random() * STALE_S)
            servers.rejoin(rewind=True)

        for _ in campaign.numbers(rounds):
            campaign.round(fault, lambda: None)
        return campaign


def _apart(
    servers: Pair, net: Network, zygote: Zygote, folder: Path, kind: str, pool: Pooler
) -> Campaign:
    """A campaign whose drivers are on a machine of their own, every third through pgbouncer, but for those that are
    to stay: these are on the machine of the primary."""
    return Campaign(
        servers, zygote, folder, kind=kind, urls=[servers.url(ROLE)] * 2 + [pool.url],
        look=servers.local_url(ROLE), namespace=net.namespace("c"),
        beside=lambda: net.namespace(servers.primary.name),
    )  # fmt: skip


def patroni(kind: str, folder: Path, rounds: int) -> Campaign:
    """The leader's server dies, its machine stops and continues, is cut off, hands over when asked, or dies, by
    turns; Patroni promotes the other."""
    with contextlib.ExitStack() as held:
        servers: PatroniPair = held.enter_context(patroni_pair(role=ROLE))
        zygote = held.enter_context(drivers(folder))
        make_tables(kind, servers.local_url(ROLE))
        net, clients = servers.network, servers.network.namespace("c")
        pool = held.enter_context(pooler(servers.folder, servers.primary, ROLE, clients))
        campaign = _apart(servers, net, zygote, folder, kind, pool)
        breaks: list[Callable[[Server], object]] = [
            Server.kill,
            servers.pause_machine,
            lambda old: net.cut(old.name),
            lambda _: servers.switch_over(),
            servers.kill_patroni,
        ]

        def fault() -> None:
            old = servers.primary
            breaks[campaign.tally.rounds % len(breaks)](old)
            campaign.broke()
            pool.point(servers.leader_other_than(old))
            time.sleep(campaign.random.random() * STALE_S)
            servers.continue_machine(old)
            net.join(old.name)
            servers.restore_patroni()

        for _ in campaign.numbers(rounds):
            campaign.round(fault, servers.settle)
        return campaign


SCENARIOS: dict[str, Callable[[str, Path, int], Campaign]] = {
    "killed": killed,
    "paused": paused,
    "partitioned": partitioned,
    "promoted": promoted,
    "patroni": patroni,
}


# -- controls ---------------------------------------------------------------------------------------


def lagging(kind: str, folder: Path, rounds: int, replication: Replication) -> Campaign:
    """The primary dies while its standby is half a second behind."""
    with on_loopback(kind, folder, replication=replication) as (campaign, _):
        servers = campaign.pair

        def fault() -> None:
            freeze_sender(servers)
            time.sleep(0.5)
            servers.primary.kill()
            campaign.broke()
            servers.fail_over()

        for _ in campaign.numbers(rounds):
            campaign.round(fault, lambda: servers.rejoin(rewind=False))
        return campaign


def cancelled(kind: str, folder: Path, rounds: int) -> Campaign:
    """The standby is frozen, an operator cancels the waits for it, and then the primary dies."""
    with on_loopback(kind, folder) as (campaign, _):
        servers = campaign.pair

        def fault() -> None:
            freeze_sender(servers)
            for _ in range(10):
                time.sleep(0.05)
                cancel_waits(servers.primary)
            servers.primary.kill()
            campaign.broke()
            servers.fail_over()

        for _ in campaign.numbers(rounds):
            campaign.round(fault, lambda: servers.rejoin(rewind=False))
        return campaign


def freeze_sender(servers: Pair) -> list[int]:
    """Nothing is sent to the standby any more; the processes that were stopped. It is the sender and not the
    standby: what lies in the buffers of a connection would still arrive."""
    pids = [pid for (pid,) in servers.primary.ask("SELECT pid FROM pg_stat_replication")]
    programs.signal_all(pids, signal.SIGSTOP)
    return pids


def cancel_waits(server: Server) -> int:
    """Cancel every commit that waits for the standby; how many there were."""
    return len(
        server.ask(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        )
    )
