"""The overview of active sessions and of those that wait for a person."""

from __future__ import annotations

import msgspec
import pytest

import stator
from stator.model.records.types import CallRecord
from stator.runtime.views.glance.overview import look, overview
from stator.store.reads_together import answered


@stator.tool(effect="write")
def pay(amount):
    raise stator.InDoubt("connection lost")


def names(found):
    return [one.row.record.name for one in found]


def test_only_active_or_waiting_sessions_are_shown(memory):
    with memory.open("finished"):
        pass
    with memory.open("at work"):
        assert names(overview(memory.port)) == ["at work"]
        assert set(names(overview(memory.port, everything=True))) == {"at work", "finished"}


def test_the_running_call_and_its_start_time_are_shown(memory):
    seen = []

    @stator.tool(effect="read")
    def look_around():
        seen.extend(overview(memory.port))

    with memory.open("a") as s, s.turn("go") as t:
        t.call(look_around)
    (one,) = seen
    assert one.call is not None
    assert one.call.tool == "look_around"
    assert (one.calls, one.turn, one.turn_open) == (1, 1, True)
    assert one.since == next(c.at for c in s.log() if c.kind == "call")


def test_dropped_plan_steps_are_not_counted(memory):
    with memory.open("a") as s, s.turn("go") as t:
        t.plan(["one", "two", "three"])
        t.plan("one", "done")
        t.plan("three", "dropped")
        (one,) = overview(memory.port)
        assert (one.done, one.total) == (1, 2)


def test_spend_is_the_usage_so_far(memory):
    with memory.open("a") as s, s.turn("go") as t:
        t.say("x", usage={"tokens": 5})
        t.say("y", usage={"tokens": 7})
        (one,) = overview(memory.port)
        assert one.cost.spend["tokens"] == 12


def test_a_call_in_doubt_waits_for_a_person_in_any_session(memory):
    with memory.open("doubtful") as s, s.turn("go") as t:
        t.try_call(pay, amount=5)
    with memory.open("at work"):
        first, second = overview(memory.port)
        assert [(w.what, w.tool) for w in first.waiting] == [("settle", "pay")]
        assert first.row.record.name == "doubtful"
        assert second.waiting == []


def test_a_budget_that_is_used_up_waits_for_a_person(memory):
    memory.open("spent").pause("budget")
    memory.open("tired").pause("user")
    (one,) = overview(memory.port)
    assert names([one]) == ["spent"]
    assert [w.what for w in one.waiting] == ["budget"]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_call_that_awaits_approval_waits_for_a_person_unless_it_is_inherited(memory, elsewhere):
    class Awaiting:
        """The store, with a call that awaits approval."""

        def __getattr__(self, name):
            return getattr(memory.port, name)

        def together(self, *reads):
            return answered(self, reads)

        def entries(self, session, *collections, **options):
            found = memory.port.entries(session, *collections, **options)
            call = CallRecord(
                call="c_" + "1" * 32, tool="pay", status="awaiting approval", elsewhere=elsewhere
            )
            return [
                msgspec.structs.replace(entry, record=call)
                if entry.collection == "calls"
                else entry
                for entry in found
            ]

    with memory.open("a") as s, s.turn("go") as t:
        t.try_call(pay, amount=5)
        one = look(Awaiting(), memory.port.session(s.id))
    assert [w.what for w in one.waiting] == ([] if elsewhere else ["approve"])
