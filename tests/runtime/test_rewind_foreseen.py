"""What a person is shown of a rewind before it is done: exact over a short way, bounded over a long one."""

from __future__ import annotations

import pytest

import stator
from runtime.test_port_calls import Counted
from stator.runtime.branches import rewind
from stator.runtime.views.ranges import SMALL_RANGE

CALLS_MAX = 8


@stator.tool(effect="write")
def write(n: int) -> int:
    return n


@pytest.fixture(scope="module")
def long_ago(tmp_path_factory):
    """A session with more commits than a short way has, and its id."""
    path = tmp_path_factory.mktemp("foreseen") / "store.db"
    with stator.connect(path, durability="relaxed") as store, store.open("long") as s:
        for n in range(SMALL_RANGE // 5):
            with s.turn(f"request {n}") as t:
                t.call(write, n=n)
                t.fact(f"fact {n}", n)
                t.decide(f"choice {n}", topic=f"topic {n % 3}")
        yield store, s.id


def test_a_short_way_is_foreseen_as_the_rewind_does_it(long_ago):
    store, session = long_ago
    planned = rewind.plan(store.port, session, "t-3")
    assert rewind.foresee(store.port, session, "t-3") == planned
    assert planned.is_whole


def test_a_long_way_names_the_same_turns_and_the_newest_effects(long_ago, monkeypatch):
    store, session = long_ago
    monkeypatch.setattr(rewind, "CALLS_LOOKED_AT", 20)
    planned, foreseen = (do(store.port, session, "t2") for do in (rewind.plan, rewind.foresee))
    assert not foreseen.is_whole
    assert (foreseen.turns, foreseen.again) == (planned.turns, planned.again)
    assert foreseen.effects == planned.effects[-20:]
    assert 0 < foreseen.records <= planned.records


def test_a_long_way_is_foreseen_in_a_few_calls_of_the_port(long_ago):
    store, session = long_ago
    counted = Counted(store.port)
    rewind.foresee(counted, session, "t2")
    assert counted.counted["versions"] == 0
    assert sum(counted.counted.values()) <= CALLS_MAX, counted.counted
