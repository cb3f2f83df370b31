"""A store loses answers at every write of a program; the program is run again to its end and its effects are counted.

Laws, for any lost answers:

    a write happens once, and what is not known of one is listed as in doubt;
    nothing that was recorded is lost, and no commit, turn, session or outcome is doubled;
    the error says that it is not known whether it landed, and of which session.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reliability.lost_answers import Campaign, faults_of, verified, writes_of
from stator.model.calls.unanswered import TRIES
from stator.store.contract.distance.faulty_store import (
    FOREVER,
    NOT_ASKED,
    WRITES,
    FaultPlan,
    When,
)
from stator.store.memory import MemoryStore
from stator.store.port import StorePort
from stator.store.sqlite import SqliteStore, create

WHEN: tuple[When, ...] = ("before", "after", "late")
LASTING = (1, TRIES, FOREVER)
"""One answer is lost; so many that the run gives up and the store is back; all, until the process ends."""
APIS = ("sync", "async")
READS = frozenset(
    name
    for name, member in vars(StorePort).items()
    if callable(member) and name[0] != "_" and name not in WRITES | NOT_ASKED
)
"""Every method of the port that only reads."""
STEP = 9
"""Of all places where an answer can be lost, the quick test tries every ninth, with another remainder for each way."""


def judged(store: StorePort, plan: FaultPlan, api: str) -> tuple[Campaign, list[str]]:
    campaign = Campaign(store, plan, api=api).run()
    found = faults_of(campaign) + ([] if verified(store) else ["the log does not verify"])
    return campaign, found


def judge_all(plans: Iterator[FaultPlan], api: str) -> list[tuple[Any, ...]]:
    found = []
    for plan in plans:
        faults = judged(MemoryStore(), plan, api)[1]
        found += [(plan.at, plan.when, plan.faults, faults)] if faults else []
    return found


@pytest.mark.parametrize("api", APIS)
def test_answers_lost_at_some_writes_lose_and_double_nothing(api: str) -> None:
    ways = enumerate(itertools.product(WHEN, LASTING))
    plans = (
        FaultPlan(at=at, when=when, faults=faults)
        for n, (when, faults) in ways
        for at in range(1 + n, writes_of(MemoryStore, api=api) + 1, STEP * 2)
    )
    assert judge_all(plans, api) == []


def test_answers_lost_at_reads_lose_and_double_nothing() -> None:
    plans = (
        FaultPlan(at=at, faults=faults, methods=READS)
        for n, faults in enumerate(LASTING)
        for at in range(1 + 7 * n, 400, 37)
    )
    assert judge_all(plans, "sync") == []


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("method", sorted(READS))
def test_after_an_approved_tool_ran_its_outcome_is_recorded_whichever_read_is_lost(
    method: str, api: str
) -> None:
    plan = FaultPlan(faults=FOREVER, methods=frozenset({method}))

    class Losing(Campaign):
        """From the moment that the approved tool has run, a read gets no answer until the process ends."""

        def _act(self, what: str) -> str:
            if what == "approved":
                plan.at = plan.counted + 1
            return super()._act(what)

    campaign = Losing(MemoryStore(), plan, api=api).run()
    assert (faults_of(campaign), campaign.doubted) == ([], set())


def test_answers_of_a_real_file_lost_at_some_writes_lose_and_double_nothing(
    tmp_path: Path,
) -> None:
    for n, (when, faults) in enumerate(itertools.product(WHEN, LASTING[1:])):
        path = str(tmp_path / f"{n}.db")
        create(path)
        with SqliteStore(path, durability="relaxed") as store:
            plan = FaultPlan(at=5 + 6 * n, when=when, faults=faults)
            assert judged(store, plan, "sync")[1] == [], plan


def test_without_faults_the_campaign_has_no_doubt_and_no_error() -> None:
    campaign, found = judged(MemoryStore(), FaultPlan(), "sync")
    assert (found, campaign.errors, campaign.doubted) == ([], [], set())


def test_an_effect_without_a_recorded_outcome_is_listed_as_in_doubt() -> None:
    """Somewhere in the campaign a process ends right after an effect: that call must be among the doubts."""
    doubted = set()
    for at in range(1, writes_of(MemoryStore) + 1, 3):
        campaign = Campaign(MemoryStore(), FaultPlan(at=at, faults=FOREVER)).run()
        doubted |= campaign.doubted
        assert campaign.unsaid == []
    assert doubted


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("lasting", LASTING)
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("api", APIS)
def test_answers_lost_at_every_write_lose_and_double_nothing(
    api: str, when: When, lasting: int
) -> None:
    plans = (
        FaultPlan(at=at, when=when, faults=lasting)
        for at in range(1, writes_of(MemoryStore, api=api) + 1)
    )
    assert judge_all(plans, api) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("lasting", LASTING)
def test_answers_lost_at_every_read_lose_and_double_nothing(lasting: int) -> None:
    counting = FaultPlan(methods=READS)
    Campaign(MemoryStore(), counting).run()
    plans = (
        FaultPlan(at=at, faults=lasting, methods=READS) for at in range(1, counting.counted + 1)
    )
    assert judge_all(plans, "sync") == []
