"""kill -9 of a copy, a push or a pull at any moment: run again, it continues, and nothing is doubled or lost."""

from __future__ import annotations

import random

import pytest

from reliability.support import findings, populate
from runtime.exchange_fixtures import heads, logs, turn
from stator.connect import connect

KILLS = 12


@pytest.fixture
def source(tmp_path):
    """A store with sessions, forks and an erasure."""
    path = tmp_path / "here.db"
    with connect(path, project="shop") as store:
        populate(store, turns=4)
        for n in range(12):
            turn(store, f"session {n}", n)
        for n in range(1, 4):
            store.fork("main", f"t{n}", as_name=f"fork {n}")
        store.erase(store.erasing("session 3", record=("facts", "value")))
        store.prefer("indent", "tabs")
    return path


def killed(zygote, rng: random.Random, *task: object) -> None:
    """Start a task and kill it after some of its work."""
    worker = zygote.start(*task)
    for _ in range(rng.randint(0, 120)):
        said = worker.hear()
        if not isinstance(said, int):
            break
    zygote.end(worker)


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_that_was_killed_many_times_is_the_whole_store(zygote, tmp_path, source, seed):
    rng, target = random.Random(seed), tmp_path / "there.db"
    for _ in range(KILLS):
        killed(zygote, rng, "copy_store", source, target)
    zygote.run("copy_store", source, target)
    with connect(source) as here, connect(target) as there:
        assert logs(there) == logs(here)
        assert here.copy_to(there).commits == 0
    assert findings(target) == []


@pytest.mark.parametrize("seed", range(3))
def test_an_erasure_between_killed_copies_takes_the_content_away_there(
    zygote, tmp_path, source, seed
):
    rng, target = random.Random(seed), tmp_path / "there.db"
    zygote.run("copy_store", source, target)
    with connect(source, project="shop") as here:
        here.erase(here.erasing("main"))
        turn(here, "main", "after it")
    for _ in range(KILLS):
        killed(zygote, rng, "copy_store", source, target)
    zygote.run("copy_store", source, target)
    with connect(source) as here, connect(target) as there:
        assert logs(there) == logs(here)
    assert findings(target) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_push_that_was_killed_many_times_has_every_session_once(zygote, tmp_path, source, seed):
    rng, target = random.Random(seed), tmp_path / "team.db"
    for _ in range(KILLS):
        killed(zygote, rng, "push_store", source, target)
    zygote.run("push_store", source, target)
    with connect(source, project="shop") as here, connect(target) as there:
        own = {row.id for row in there.sessions().rows if row.record.mode == "project"}
        mine = {
            s: h for s, h in heads(here).items() if here.port.session(s).record.mode != "project"
        }
        assert {s: h for s, h in heads(there).items() if s not in own} == mine
        assert here.push_to(there).commits == 0
    assert findings(target) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_pull_that_was_killed_left_nothing_or_the_whole_session(zygote, tmp_path, source, seed):
    rng, target = random.Random(seed), tmp_path / "mine.db"
    with connect(source, project="shop") as there:
        expected = heads(there)[there.read("main").id]
    for _ in range(KILLS):
        killed(zygote, rng, "pull_session", source, target, "main")
        with connect(target, project="shop") as here:
            assert set(heads(here).values()) & {expected} or not here.sessions().rows
    session = zygote.run("pull_session", source, target, "main")
    with connect(target, project="shop") as here:
        assert heads(here)[session] == expected
    assert findings(target) == []
