"""Two real processes and one session: displaced drivers, pause requests, and open calls."""

from __future__ import annotations

import signal

import pytest

from reliability.crash import World
from reliability.support import findings
from stator.connect import connect
from stator.runtime.driving import lifecycle


@pytest.fixture
def world(tmp_path):
    return World(str(tmp_path / "effects"))


@pytest.fixture
def effects(tmp_path):
    return tmp_path / "effects"


@pytest.fixture
def stopped(zygote, path, effects, request):
    """A driver suspended during a write, before its effect."""
    worker = zygote.start("act_when_told", path, effects, getattr(request, "param", ""))
    assert worker.hear() == "in act"
    worker.signal(signal.SIGSTOP)
    yield worker
    zygote.end(worker)


def test_a_suspended_driver_is_not_treated_as_dead(stopped, zygote, path):
    worker = zygote.start("try_open", path, "main", "fail")
    assert worker.drain()[-1]["error"] == "E_BUSY"
    zygote.end(worker)


def test_the_open_write_of_a_displaced_driver_is_in_doubt(stopped, path):
    with connect(path, project="test") as store, store.open("main", busy="take") as session:
        (doubt,) = session.in_doubt
        assert (doubt.tool, doubt.cause) == ("act", "driver displaced")
        assert session.recovery.interrupted


@pytest.mark.parametrize("stopped", ["not_done"], indirect=True)
def test_the_open_write_of_a_displaced_driver_is_never_run_again(
    stopped, zygote, path, effects, world
):
    with connect(path, project="test") as store, store.open("main", busy="take"):
        pass
    worker = zygote.start("act_when_told", path, effects, "not_done")
    assert worker.result()["status"] == "in doubt"
    zygote.end(worker)
    assert world.count("act") == 0


def test_a_displaced_driver_that_resumes_cannot_record_its_outcome(stopped, path, world):
    with connect(path, project="test") as store, store.open("main", busy="take") as session:
        stopped.say("go on")
        stopped.signal(signal.SIGCONT)
        assert stopped.drain()[-1]["error"] == "E_LEASE"
        assert world.count("act") == 1  # it happened, but only a person can record that
        assert [call.status for call in session.calls()] == ["in doubt"]
    assert findings(path) == []


def test_a_person_can_settle_the_open_write_of_a_displaced_driver(
    stopped, zygote, path, effects, world
):
    with connect(path, project="test") as store, store.open("main", busy="take") as session:
        stopped.say("go on")
        stopped.signal(signal.SIGCONT)
        stopped.drain()
        session.in_doubt[0].settle("done", "as the receipt says")
    with connect(path, project="test") as store, store.open("main") as session:
        assert session.in_doubt == []
    assert world.count("act") == 1


def test_a_driver_asked_to_pause_stops_before_its_next_call_and_continues_there(
    zygote, path, effects, world
):
    worker = zygote.start("calls_until_paused", path, effects)
    assert worker.hear() == "ready"
    worker.say("go")
    assert worker.hear() == "ready"
    with connect(path, project="test") as store:
        session = store.read("main").id
        moved = lifecycle.pause(store.port, store.context, session, by="local:boss")
        assert moved.asked is not None
        assert moved.asked.pid == worker.pid
    worker.say("go")
    assert worker.result() == {"made": [False], "paused": "user"}
    assert world.count("act") == 1
    with connect(path, project="test") as store:
        view = store.read("main")
        assert view.status == "paused"
        assert [call.status for call in view.calls()] == ["cancelled", "ok"]
    again = zygote.start("calls_until_paused", path, effects)
    for _ in range(3):
        assert again.hear() == "ready"
        again.say("go")
    assert again.result() == {"made": [True, False, False], "paused": ""}
    zygote.end(worker, again)
    assert world.count("act") == 3
    assert findings(path) == []


def test_a_waiting_process_gets_the_session_when_its_driver_dies(zygote, path, effects):
    first = zygote.start("act_when_told", path, effects, "")
    assert first.hear() == "in act"
    waiting = zygote.start("try_open", path, "main", "wait")
    first.kill()
    assert waiting.result().startswith("s_")
    zygote.end(first, waiting)
