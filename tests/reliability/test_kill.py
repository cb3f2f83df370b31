"""kill -9 at any moment loses no acknowledged commit; each outcome is known or recorded as unknown."""

from __future__ import annotations

import random

import pytest

from reliability.support import Worker, answers, findings, recorded_session
from stator.connect import connect
from stator.runtime.base.pages import counts_of

CYCLES_A_STORE = 10
"""The number of kills per store, so that verifying it stays quick."""


def kill_cycles(zygote, folder, cycles: int, durability: str, seed: int) -> dict[str, int]:
    """Kill writers after random numbers of acknowledgements, all of which must be in the log."""
    rng = random.Random(seed)
    total = {"cycles": cycles, "acknowledged": 0, "lost": 0, "damaged": 0}
    for cycle in range(cycles):
        path = folder / f"{seed}-{cycle // CYCLES_A_STORE}.db"
        with connect(path, project="test") as store:
            shared = recorded_session(store, "shared")
        acknowledged = a_kill(zygote, path, shared, durability, rng)
        with connect(path, project="test") as store:
            for session, ids in acknowledged.items():
                there = [commit.id for commit in store.read(session).log(load=False)]
                total["acknowledged"] += len(ids)
                total["lost"] += len(set(ids) - set(there))
        last = (cycle + 1) % CYCLES_A_STORE == 0 or cycle + 1 == cycles
        total["damaged"] += len(findings(path)) if last or cycle % 3 == 0 else 0
    return total


def a_kill(zygote, path, shared: str, durability: str, rng: random.Random) -> dict[str, list[str]]:
    """Start writers and kill each after some acknowledgements; session → acknowledged commits."""
    driver = zygote.start("write_until_killed", path, "driven", durability)
    heard: dict[Worker, list[str]] = {driver: []}
    if rng.random() < 0.7:  # otherwise it may be killed while it opens the store
        heard[driver] += [driver.hear() for _ in range(rng.randint(1, 20))]
    if rng.random() < 0.7:
        sharer = zygote.start("share_until_killed", path, shared, durability)
        heard[sharer] = [sharer.hear() for _ in range(rng.randint(0, 6))]
    acknowledged: dict[str, list[str]] = {}
    for writer, words in sorted(heard.items(), key=lambda _: rng.random()):
        writer.kill()
        words += writer.drain()
        assert all(isinstance(word, str) for word in words), words[-1]
        if words:
            acknowledged.setdefault(words[0], []).extend(words[1:])
    zygote.end(*heard)
    return acknowledged


@pytest.mark.parametrize("part", range(4))
def test_killing_a_writer_loses_no_acknowledged_commit(zygote, tmp_path, part):
    durability = ("full", "barrier", "relaxed", "full")[part]
    total = kill_cycles(zygote, tmp_path, 50, durability, part)
    assert (total["lost"], total["damaged"]) == (0, 0), total
    assert total["acknowledged"] > 0


def test_a_reader_that_stays_outlives_drivers_that_are_killed(zygote, tmp_path):
    """It reads while they write; after each kill it answers as a reader that has just opened the file."""
    path = tmp_path / "store.db"
    with connect(path, project="test"):
        pass
    with connect(path, project="test", read_only=True) as reader:
        for _ in range(6):
            driver = zygote.start("write_until_killed", path, "driven", "relaxed")
            session = driver.hear()
            for _ in range(15):
                driver.hear()
                head = reader.port.head(session).seq
                assert counts_of(reader.port, session).commits >= head
            driver.kill()
            zygote.end(driver)
            with connect(path, project="test", read_only=True) as fresh:
                assert answers(reader) == answers(fresh)


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["full", "barrier", "relaxed"])
def test_thousands_of_kills_lose_no_acknowledged_commit(zygote, tmp_path, durability, capsys):
    total = kill_cycles(zygote, tmp_path, 2000, durability, 4711)
    with capsys.disabled():
        print(f"\nkill -9, {durability}: {total}")
    assert (total["lost"], total["damaged"]) == (0, 0), total


MOMENTS = {
    "before the intent": (None, None, 0),
    "before the effect": ("in doubt", "cancelled", 0),
    "during the effect": ("in doubt", "cancelled", 1),
    "before the outcome": ("in doubt", "cancelled", 1),
    "after the outcome": ("ok", "ok", 1),
}
"""Moment → what a write's call is afterwards, what a read's is, and how often the effect has run."""


@pytest.fixture
def died(zygote, path, tmp_path, request):
    """A store whose driver was killed at a moment of a call, and the file its effect writes to."""
    effect, moment = request.param
    effects = tmp_path / "effects"
    effects.touch()
    worker = zygote.start("call_and_stop", path, effect, moment, effects)
    said = worker.hear()
    assert isinstance(said, str), said
    worker.kill()
    yield effect, moment, effects
    zygote.end(worker)


CASES = [(effect, moment) for effect in ("write", "read", "idempotent") for moment in MOMENTS]


@pytest.mark.parametrize("died", CASES, ids=" ".join, indirect=True)
def test_reopening_records_the_outcome_of_an_open_call(died, store):
    effect, moment, _ = died
    write, read, _ = MOMENTS[moment]
    expected = write if effect == "write" else read
    with store.open("main") as session:
        statuses = [call.status for call in session.calls()]
    assert statuses == ([] if expected is None else [expected])


@pytest.mark.parametrize("died", CASES, ids=" ".join, indirect=True)
def test_reopening_runs_no_effect(died, store):
    _, moment, effects = died
    with store.open("main"):
        pass
    assert effects.read_text().count("done") == MOMENTS[moment][2]


@pytest.mark.parametrize("died", [("write", "during the effect")], ids=" ".join, indirect=True)
def test_a_write_in_doubt_names_its_cause(died, store):
    with store.open("main") as session:
        (call,) = session.calls(status="in doubt")
    assert call.cause == "process died"


@pytest.mark.parametrize("died", [("write", "during the effect")], ids=" ".join, indirect=True)
def test_a_write_in_doubt_stays_open_in_the_state(died, store):
    with store.open("main") as session:
        statuses = [getattr(entry.record, "status", "") for entry in session.entries("calls")]
    assert statuses == ["in doubt"]


@pytest.mark.parametrize("died", [("write", "during the effect")], ids=" ".join, indirect=True)
def test_the_turn_of_a_dead_driver_is_interrupted(died, store):
    with store.open("main") as session:
        assert [turn.status for turn in session.turns()] == ["interrupted"]


@pytest.mark.parametrize("died", [("write", "during the effect")], ids=" ".join, indirect=True)
def test_reading_the_session_of_a_dead_driver_writes_nothing(died, store):
    view = store.read("main")
    before = view.head
    assert (view.status, view.calls()[0].status, view.head) == ("interrupted", "in doubt", before)
