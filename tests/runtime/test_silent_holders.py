"""A driver at a distance gives no sign: it is silent, is displaced without `take`, and its writes are a person's."""

from __future__ import annotations

import subprocess
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stator
from stator import machine
from stator.errors import Busy, LeaseLost, StoreUnreachable
from stator.model.calls.known import DISPLACED
from stator.model.log.query import CallQuery, SessionQuery
from stator.model.sessions.silence import SILENT_S, SeenCounter, is_silent, look
from stator.runtime.facade.store import Store
from stator.runtime.runs.processes import start_ticks
from stator.store.contract.distance.faulty_store import FaultPlan, FaultyStore
from stator.store.memory import MemoryStore
from stator.testing import FakeClock, memory_store


class Wire:
    """A store behind a wire, and two machines that use it; each has a clock of its own."""

    def __init__(self) -> None:
        self.behind = MemoryStore()
        self.behind.counts_beats = True
        self.clock = FakeClock(tick_s=0.001)
        self.connection = FaultyStore(self.behind)
        self.here = Store(self.connection, memory_store(self.clock).context)
        self.line = FaultyStore(self.behind)
        self.there = Store(self.line, memory_store().context)

    def shown(self) -> str:
        (row,) = self.here.sessions().rows
        return row.shown

    def never(self, intent: Any) -> str:
        raise AssertionError("a tool was asked about a call of a driver that may still run")


@pytest.fixture
def wire() -> Wire:
    return Wire()


def test_a_driver_whose_counter_moves_is_live(wire):
    session = wire.there.open("a")
    for _ in range(10):
        assert wire.shown() == "active"
        wire.clock.advance(SILENT_S - 1)
        wire.behind.beat(session.id)
    session.pause()


def test_a_driver_whose_counter_stands_still_is_silent(wire):
    wire.there.open("a")
    assert wire.shown() == "active"
    wire.clock.advance(SILENT_S)
    assert wire.shown() == "silent"


def test_one_look_says_nothing_about_silence(wire):
    wire.there.open("a")
    wire.clock.advance(SILENT_S * 10)
    assert wire.shown() == "active"


def test_a_silent_driver_that_gives_a_sign_is_live_again(wire):
    session = wire.there.open("a")
    wire.shown()
    wire.clock.advance(SILENT_S)
    wire.behind.beat(session.id)
    assert wire.shown() == "active"


def test_a_live_driver_is_busy_and_a_silent_one_is_displaced_without_take(wire):
    old = wire.there.open("a")
    with pytest.raises(Busy):
        wire.here.open("a")
    wire.clock.advance(SILENT_S)
    with wire.here.open("a"), pytest.raises(LeaseLost):
        old.turn("late")


def test_waiting_for_a_session_ends_when_its_driver_is_silent(wire):
    wire.there.open("a")
    with wire.here.open("a", busy="wait") as s:
        assert s.id
    assert wire.clock.monotonic() >= SILENT_S


def open_writes(wire: Wire) -> list[tuple[str, str]]:
    (row,) = wire.behind.sessions(SessionQuery()).rows
    calls = wire.behind.calls(CallQuery(session=row.id)).rows
    return [(call.status, call.cause) for call in calls]


def leave_a_write_open(wire: Wire) -> None:
    """Another machine is cut off after the intent of a write."""
    session = wire.there.open("a")
    turn = session.turn("one")
    plan = FaultPlan(at=2, faults=10_000, methods=frozenset({"append"}))
    wire.line.plan = plan
    tool = stator.tool(lambda: "paid", name="pay", reconcile=wire.never)
    with pytest.raises(StoreUnreachable):
        turn.call(tool)


def test_an_open_write_of_a_silent_driver_is_in_doubt_and_no_tool_is_asked(wire):
    leave_a_write_open(wire)
    wire.shown()
    wire.clock.advance(SILENT_S)
    tool = stator.tool(lambda: "paid", name="pay", reconcile=wire.never)
    with wire.here.open("a") as s, s.turn("one") as t:
        assert t.try_call(tool).status == "in doubt"
    assert open_writes(wire) == [("in doubt", DISPLACED)]


def test_a_displacement_whose_answer_was_lost_is_still_one(wire):
    leave_a_write_open(wire)
    wire.shown()
    wire.clock.advance(SILENT_S)
    # The first acquire is busy; the answer to the second, which displaces, is lost.
    wire.connection.plan = FaultPlan(at=2, when="after", methods=frozenset({"acquire"}))
    with wire.here.open("a"):
        pass
    assert open_writes(wire) == [("in doubt", DISPLACED)]


def on_this_machine(wire: Wire) -> None:
    """Both use the same machine, on which every process named here has ended."""
    there = msgspec.structs.replace(wire.there.context, process=lambda: "a process")
    here = msgspec.structs.replace(
        wire.here.context, is_gone=lambda process: process == "a process"
    )
    wire.there = Store(wire.line, there)
    wire.here = Store(wire.connection, here)


def test_a_driver_of_this_machine_that_has_ended_is_not_waited_for(wire):
    on_this_machine(wire)
    wire.there.open("a")
    assert wire.shown() == "interrupted"
    with wire.here.open("a"):
        pass
    assert wire.clock.monotonic() < SILENT_S


def test_an_open_write_of_a_driver_that_has_ended_is_asked_about(wire):
    on_this_machine(wire)
    leave_a_write_open(wire)
    tool = stator.tool(lambda: "paid", name="pay", reconcile=lambda intent: ("done", "it was"))
    with wire.here.open("a") as s, s.turn("one") as t:
        assert t.call(tool) == "it was"
    assert [status for status, _ in open_writes(wire)] == ["ok"]


def test_the_kernel_says_of_a_process_of_this_machine_whether_it_has_ended():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        ours = machine.process()
        boot, space, pid, start = ours.split(":")
        theirs = f"{boot}:{space}:{other.pid}:{start_ticks(other.pid)}"
        assert not machine.is_gone(ours)
        assert not machine.is_gone(theirs)
        assert machine.is_gone(
            f"{boot}:{space}:{pid}:{int(start) - 1}"
        )  # its number was given again
        other.kill()
        other.wait()
        assert machine.is_gone(theirs)


def test_nothing_is_said_of_processes_of_other_machines_boots_and_containers():
    boot, space, _, _ = machine.process().split(":")
    gone = 2**22 - 3
    assert machine.is_gone(f"{boot}:{space}:{gone}:1")
    assert not machine.is_gone(f"{boot}x:{space}:{gone}:1")
    assert not machine.is_gone(f"{boot}:{int(space) + 1}:{gone}:1")
    assert not machine.is_gone("")


def test_a_store_that_asks_the_kernel_is_believed(tmp_path):
    with stator.connect(tmp_path / "a.db") as store, store.open("a"):
        (row,) = store.sessions().rows
        assert row.holder is not None
        assert (row.holder.live, row.holder.beats) == (True, 0)


@given(st.lists(st.tuples(st.floats(0, 60), st.booleans()), min_size=1, max_size=30))
def test_a_holder_is_silent_only_after_its_counter_stood_still_for_that_long(looks):
    now, beats, moved, seen = 0.0, 1, 0.0, None
    for passed, beat in looks:
        now += passed
        if beat or seen is None:
            beats, moved = beats + 1, now
        seen = look(seen, beats, now)
        assert seen == SeenCounter(beats, moved)
        assert is_silent(seen, now) == (now - moved >= SILENT_S)


@pytest.mark.parametrize(
    "rest", ["", ":", ":1:2", ":a:b:c", ":{0}:-1:1", ":{0}:0:1", ":{0}:9999999999:1", ":1" * 99]
)
def test_a_process_that_cannot_be_one_is_not_known_to_be_gone(rest):
    """Another machine wrote it, so that it may be anything."""
    boot, space, *_ = machine.process().split(":")
    assert not machine.is_gone(boot + rest.format(space))
