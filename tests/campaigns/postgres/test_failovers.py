"""Primaries are killed, paused, cut off and replaced while sessions are driven; the laws of `laws.py` hold.

    STATOR_FAILOVERS=50 make slow ARGS="tests/campaigns/postgres -k killed -s"

runs 50 rounds of one scenario and prints what was counted. Each round drives three sessions. Needs Debian's
packages postgresql, pgbouncer, patroni, etcd-server and iproute2; namespaces need root.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from campaigns.postgres import programs, scenarios
from campaigns.postgres.campaign import Campaign
from campaigns.postgres.reference_store import FAULTS
from campaigns.postgres.stores import OWN, REFERENCE

ROUNDS = int(os.environ.get("STATOR_FAILOVERS", "5"))
SERVERS = ("initdb", "pg_ctl", "pg_basebackup", "pg_rewind", "setpriv", "pgbouncer")
MISSING = programs.missing(*SERVERS)
NEEDS = {"partitioned": ("ip",), "patroni": ("ip", "patroni", "etcd")}
"""What else a scenario needs. Both are played in network namespaces, which need root."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]


def told(name: str, campaign: Campaign) -> list[str]:
    """The violations; what was counted is printed."""
    print(f"\n{name}: {campaign.tally.line()}")
    return campaign.tally.violations


def lost(campaign: Campaign) -> list[str]:
    return [what for what in campaign.tally.violations if "acknowledged, and lost" in what]


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_a_failover_loses_nothing_acknowledged_and_doubles_nothing(
    name: str, tmp_path: Path
) -> None:
    if reason := programs.missing(*NEEDS.get(name, ())):
        pytest.skip(reason)
    if name in NEEDS and os.geteuid():
        pytest.skip("network namespaces need root")
    assert told(name, scenarios.SCENARIOS[name](OWN, tmp_path, ROUNDS)) == []


def test_waits_that_are_cancelled_before_the_primary_dies_lose_nothing(tmp_path: Path) -> None:
    assert told("cancelled", scenarios.cancelled(OWN, tmp_path, ROUNDS)) == []


def test_a_primary_whose_standby_lags_acknowledges_nothing_it_could_lose(tmp_path: Path) -> None:
    assert told("lagging", scenarios.lagging(OWN, tmp_path, ROUNDS, "synchronous")) == []


# -- controls: the campaign must find what is wrong ----------------------------------------------------


def test_asynchronous_replication_loses_what_was_acknowledged_and_the_campaign_says_so(
    tmp_path: Path,
) -> None:
    campaign = scenarios.lagging(OWN, tmp_path, 2, "asynchronous")
    told("asynchronous", campaign)
    assert lost(campaign)


def test_the_reference_store_keeps_the_laws(tmp_path: Path) -> None:
    assert told("reference", scenarios.killed(REFERENCE, tmp_path, 2)) == []


@pytest.mark.parametrize("fault", FAULTS[:2])
def test_a_store_that_takes_a_cancelled_wait_for_an_answer_is_found_out(
    fault: str, tmp_path: Path
) -> None:
    campaign = scenarios.cancelled(fault, tmp_path, 3)
    told(fault, campaign)
    assert lost(campaign)


def test_a_store_that_does_not_fence_is_found_out(tmp_path: Path) -> None:
    campaign = scenarios.killed(FAULTS[2], tmp_path, 2)
    told(FAULTS[2], campaign)
    assert any("after its displacement" in what for what in campaign.tally.violations)
