"""A store at a distance loses an answer: the runtime asks again by the same ids, and says what it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

import stator
from stator.errors import Busy, StoreUnreachable
from stator.model.calls.unanswered import NO_ANSWER, PATIENCE_S, TRIES
from stator.model.exchange.bookmark import Bookmark
from stator.model.exchange.items import Called, Conversation, Prompted, Returned, TurnEnded
from stator.model.log.query import CallQuery, SessionQuery
from stator.runtime.facade.store import Store
from stator.runtime.ingest.recorder import Recorder
from stator.store.contract.distance.faulty_store import FOREVER, WRITES, FaultPlan, FaultyStore
from stator.store.memory import MemoryStore
from stator.testing import FakeClock, memory_store


class Distant:
    """A store in memory behind a connection that loses answers when it is asked to."""

    def __init__(self) -> None:
        self.clock = FakeClock(tick_s=0.001)
        self.behind = MemoryStore(clock=self.clock)
        self.connection = FaultyStore(self.behind)
        self.store = Store(self.connection, memory_store(self.clock).context)
        self.ran: list[str] = []
        self.pay = stator.tool(self._pay, name="pay")

    def _pay(self, what: str = "rent") -> str:
        self.ran.append(what)
        return what

    def lose(self, when="before", faults=FOREVER, methods=("append",), at=1) -> FaultPlan:
        plan = FaultPlan(at=at, when=when, faults=faults, methods=frozenset(methods))
        self.connection.plan = plan
        return plan

    def kinds(self) -> list[str]:
        (row,) = self.behind.sessions(SessionQuery()).rows
        return [commit.kind for commit in self.behind.commits(row.id)]

    def calls(self) -> list[tuple[str, str]]:
        rows = self.behind.calls(CallQuery()).rows
        return [(row.status, row.cause) for row in rows]


@pytest.fixture
def distant() -> Distant:
    return Distant()


@contextmanager
def cut_off(distant: Distant) -> Iterator[tuple[Any, Any]]:
    """A turn of a run that gives up."""
    with pytest.raises(StoreUnreachable), distant.store.open("a") as s, s.turn("one") as t:
        yield s, t


def pay_in_a_turn(s: Any, distant: Distant) -> None:
    with s.turn("one") as t:
        t.call(distant.pay)


def begin_without_an_answer(distant: Distant) -> None:
    with distant.store.open("a") as s:
        distant.lose("late", faults=TRIES)
        s.turn("one")


def test_a_tool_does_not_run_while_it_is_not_known_whether_its_intent_landed(distant):
    with cut_off(distant) as (_, t):
        distant.lose("after")
        t.call(distant.pay)
    assert distant.ran == []


def test_a_call_runs_once_its_intent_is_confirmed(distant):
    with distant.store.open("a") as s, s.turn("one") as t:
        distant.lose("after", faults=TRIES - 1)
        assert t.call(distant.pay) == "rent"
    assert (distant.ran, distant.calls()) == (["rent"], [("ok", "")])


def test_a_call_whose_intent_was_given_up_is_recorded_as_not_run_when_the_store_is_back(distant):
    with cut_off(distant) as (_, t):
        distant.lose("after", faults=TRIES)
        t.call(distant.pay)
    assert distant.ran == []
    assert distant.calls() == [("cancelled", NO_ANSWER)]
    with distant.store.open("a") as s, s.turn("one") as t:
        t.call(distant.pay)
    assert distant.ran == ["rent"]


def test_an_outcome_without_an_answer_is_sent_again_before_the_turn_ends(distant):
    with cut_off(distant) as (_, t):
        distant.lose(at=2, faults=TRIES)
        t.call(distant.pay)
    assert distant.calls() == [("ok", "")]
    assert distant.kinds()[-4:] == ["outcome", "turn_end", "run_end", "pause"]


def test_a_write_whose_outcome_never_arrived_is_in_doubt_and_does_not_run_again(distant):
    with cut_off(distant) as (_, t):
        distant.lose(at=2)
        t.call(distant.pay)
    distant.connection.plan.heal()
    with distant.store.open("a") as s, s.turn("one") as t:
        assert [doubt.tool for doubt in s.in_doubt] == ["pay"]
        assert t.try_call(distant.pay).status == "in doubt"
    assert distant.ran == ["rent"]


def test_a_program_that_tries_again_after_a_lost_outcome_does_not_repeat_the_effect(distant):
    """Nothing more begins in that run, also when the store is back."""
    with distant.store.open("a") as s:
        distant.lose(at=3, faults=TRIES)
        for _ in range(3):
            with pytest.raises(StoreUnreachable, match="asked"):
                pay_in_a_turn(s, distant)
    assert distant.ran == ["rent"]


def test_a_turn_whose_start_was_given_up_begins_once(distant):
    for _ in range(2):
        with pytest.raises(StoreUnreachable):
            begin_without_an_answer(distant)
    with distant.store.open("a") as s, s.turn("one") as t:
        t.call(distant.pay)
    assert [row.turn for row in s.turns()] == [1]


def test_a_batch_without_an_answer_is_sent_again_whole(distant):
    with cut_off(distant) as (_, t):
        distant.lose(faults=TRIES)
        with t.batch():
            t.fact("x", 1)
            t.say("done")
            t.end()
    assert distant.kinds()[-6:] == ["turn", "fact", "entry", "turn_end", "run_end", "pause"]


def test_the_error_says_what_is_not_known_and_names_the_commits(distant):
    distant.lose()
    with pytest.raises(StoreUnreachable) as caught:
        distant.store.open("a")
    error = caught.value
    wire = error.wire()
    assert (wire["code"], wire["ids"]["landed"]) == ("E_UNREACHABLE", "unknown")
    assert wire["ids"]["commits"] == error.commits != []
    assert wire["ids"]["session"].startswith("s_")
    assert "not known" in error.what


def test_a_read_that_is_given_up_says_that_nothing_was_written(distant):
    distant.lose(methods=("sessions",))
    with pytest.raises(StoreUnreachable, match="nothing was written") as caught:
        distant.store.sessions()
    assert caught.value.landed == "nothing"


def test_the_same_question_is_asked_for_a_bounded_time(distant):
    plan = distant.lose(methods=("sessions",))
    with pytest.raises(StoreUnreachable):
        distant.store.sessions()
    assert plan.counted == TRIES
    assert distant.clock.monotonic() <= PATIENCE_S


def test_a_store_that_was_given_up_is_asked_once_until_it_answers(distant):
    plan = distant.lose(methods=("sessions",), faults=TRIES + 1)
    for asked in (TRIES, TRIES + 1):
        with pytest.raises(StoreUnreachable):
            distant.store.sessions()
        assert plan.counted == asked
    assert distant.store.sessions().rows == []


def test_a_session_whose_release_was_lost_can_be_opened_again_by_the_same_process(distant):
    s = distant.store.open("a")
    distant.lose(methods=("release",))
    with pytest.raises(StoreUnreachable):
        s.pause()
    distant.connection.plan.heal()
    with distant.store.open("a") as s:
        assert s.recovery is not None


def test_a_session_that_this_process_drives_is_still_busy_to_it(distant):
    with distant.store.open("a"), pytest.raises(Busy):
        distant.store.open("a")


def test_a_lost_acquire_takes_no_session_from_another_driver(distant):
    other = Store(distant.behind, memory_store(distant.clock).context)
    with other.open("a"):
        distant.lose("after", faults=2, methods=("acquire",))
        with pytest.raises(Busy):
            distant.store.open("a")


def test_a_fork_whose_answer_was_lost_is_made_once_and_is_no_conflict(distant):
    with distant.store.open("a") as s, s.turn("one"):
        pass
    distant.lose("after", faults=1, methods=("create",))
    assert distant.store.fork("a", as_name="b").id == distant.store.read("b").id


def test_a_store_of_this_machine_is_asked_as_it_is():
    store = memory_store()
    assert isinstance(store.port, MemoryStore)


TALK = Conversation(source="claude-code", id="9d4f", name="write hello", cwd="/demo")
ITEMS = [
    Prompted(id="p1", at=10, content="write hello"),
    Called(id="toolu_1", at=30, tool="Write", input={"file_path": "/demo/hello.txt"}),
    Returned(id="toolu_1", at=40, output="done"),
    TurnEnded(at=50),
    Prompted(id="p2", at=60, content="and again"),
    TurnEnded(at=70),
]


def record(store: Store) -> list[str]:
    """Record a conversation piece by piece, each with a bookmark; the ids of its commits after the first."""
    state = None
    for number, item in enumerate(ITEMS, 1):
        recording = Recorder(store.port, store.context, TALK, state=state)
        recording.take(item)
        state = recording.state
        kept = msgspec.to_builtins(state)
        recording.flush(bookmark=Bookmark("test", number, kept))
    return [commit.id for commit in store.port.commits(TALK.session, after=1)]


@pytest.mark.parametrize("when", ["before", "after", "late"])
def test_a_recorded_conversation_is_the_same_wherever_an_answer_is_lost(when):
    sound = Distant()
    expected = record(sound.store)
    for at in range(1, sound.connection.plan.counted + 1):
        distant = Distant()
        distant.lose(when, faults=2, methods=WRITES, at=at)
        assert record(distant.store) == expected, at


@pytest.mark.parametrize("when", ["before", "after", "late"])
def test_a_bundle_imported_over_lost_answers_is_there_once(tmp_path, when):
    source = memory_store()
    with source.open("a") as s, s.turn("one") as t:
        t.say("done")
    source.export("a", tmp_path / "a.stator")
    distant = Distant()
    distant.lose(when, faults=1, methods=WRITES)
    distant.store.import_bundle(tmp_path / "a.stator")
    assert [c.hash for c in distant.behind.commits(s.id)][:3] == [
        c.hash for c in source.port.commits(s.id)
    ][:3]
