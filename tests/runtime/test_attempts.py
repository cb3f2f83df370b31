"""Attempts of a call: what is retried, how often, after which wait, and under which key."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import stator
import stator.aio
from runtime.support import Counted, Died, driving, raising, says, statuses
from stator.errors import CallFailed, InDoubt, InvalidInput, NotDone, Paused
from stator.model.calls.backoff import Policy, wait
from stator.runtime.driving.loop import requested


class Busy503(Exception):
    status_code = 503


class Slow(Exception):
    status_code = 429
    retry_after = 7.5


@pytest.fixture
def slept():
    return []


@pytest.fixture
def store(memory, slept):
    """A store whose time passes only while it sleeps."""
    memory.context = msgspec.structs.replace(
        memory.context, sleep=slept.append, monotonic=lambda: sum(slept), jitter=lambda: 1.0
    )
    return memory


@pytest.fixture
def turn(store):
    with store.open("main") as session, session.turn("one") as t:
        yield t


PASSING = [TimeoutError("slow"), ConnectionError("gone"), Busy503("busy"), Slow("wait")]


@pytest.mark.parametrize("effect", ["read", "idempotent"])
@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_a_transient_error_is_retried(turn, effect, error):
    act = Counted(raising(error))
    assert turn.call(act.tool(effect=effect)) == "done"
    assert len(act.runs) == 2


def test_a_permanent_error_is_not_retried(turn):
    look = Counted(raising(ValueError("no such file")))
    assert turn.try_call(look.tool(effect="read")).status == "error"
    assert len(look.runs) == 1


@pytest.mark.parametrize("error", PASSING[:2], ids=lambda error: type(error).__name__)
def test_a_write_with_an_unknown_outcome_is_in_doubt_and_not_retried(turn, error):
    act = Counted(raising(error))
    assert turn.try_call(act.tool()).status == "in doubt"
    assert len(act.runs) == 1


def test_a_refused_write_is_not_retried(turn):
    act = Counted(raising(Busy503("busy")))
    assert turn.try_call(act.tool()).status == "error"
    assert len(act.runs) == 1


def test_a_write_that_was_not_done_is_retried(turn):
    act = Counted(raising(NotDone("later")), raising(NotDone("later")))
    assert turn.call(act.tool()) == "done"
    assert len(act.runs) == 3


def test_a_write_in_doubt_is_not_retried_after_one_that_was_not_done(turn):
    act = Counted(raising(NotDone("later")), raising(InDoubt("lost")))
    assert turn.try_call(act.tool(attempts=5)).status == "in doubt"
    assert len(act.runs) == 2


def test_each_attempt_has_an_intent_and_an_outcome_under_one_call(turn):
    act = Counted(raising(TimeoutError()), raising(TimeoutError()))
    turn.call(act.tool(effect="read"))
    log = [c for c in turn.session.log(load=False) if c.kind in ("call", "outcome")]
    assert [(c.kind, c.attempt, c.status) for c in log] == [
        ("call", 1, "started"),
        ("outcome", 1, "timeout"),
        ("call", 2, "started"),
        ("outcome", 2, "timeout"),
        ("call", 3, "started"),
        ("outcome", 3, "ok"),
    ]
    assert len({c.call for c in log}) == 1


@pytest.mark.parametrize("attempts", [1, 2, 4])
def test_attempts_are_bounded(turn, attempts):
    look = Counted(*[raising(TimeoutError())] * 9)
    outcome = turn.try_call(look.tool(effect="read", attempts=attempts))
    assert (outcome.status, outcome.attempts, len(look.runs)) == ("timeout", attempts, attempts)


@pytest.mark.parametrize("attempts", [0, 101, True, 2.0])
def test_an_invalid_number_of_attempts_is_refused(attempts):
    with pytest.raises(InvalidInput):
        stator.tool(attempts=attempts)


def test_waits_double_and_are_bounded(turn, slept):
    look = Counted(*[raising(TimeoutError())] * 9)
    turn.try_call(look.tool(effect="read", attempts=9))
    assert slept == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


def test_an_exception_can_set_the_wait(turn, slept):
    turn.call(Counted(raising(Slow("wait"))).tool(effect="read"))
    assert slept == [7.5]


@pytest.mark.parametrize("attempt", range(1, 101))
def test_every_wait_is_between_zero_and_the_maximum(attempt):
    least, most = wait(Policy(), attempt, TimeoutError())
    assert 0 <= least <= most <= 10


def test_no_attempt_begins_after_the_deadline(turn, slept):
    look = Counted(*[raising(TimeoutError())] * 9)
    turn.try_call(look.tool(effect="read", attempts=9, deadline_s=1.0))
    assert (len(look.runs), sum(slept)) == (4, pytest.approx(1.0))


def test_the_wait_before_the_last_attempt_does_not_pass_the_deadline(turn, slept):
    look = Counted(raising(Slow("wait")), raising(Slow("wait")))
    outcome = turn.try_call(look.tool(effect="read", attempts=9, deadline_s=1.0))
    assert (outcome.status, len(look.runs), slept) == ("error", 1, [])


def test_a_deadline_counts_from_the_beginning_of_the_first_attempt(turn, slept):
    def slow():
        slept.append(5.0)
        raise TimeoutError

    look = Counted(slow)
    outcome = turn.try_call(look.tool(effect="read", attempts=9, deadline_s=1.0))
    assert (outcome.status, len(look.runs)) == ("timeout", 1)


def test_exhausted_attempts_can_pause_the_run(store):
    look = Counted(*[raising(TimeoutError())] * 2)
    tool = look.tool(effect="read", attempts=2, on_exhausted="pause")
    with pytest.raises(Paused), driving(store) as s, s.turn("one") as t:
        t.call(tool)
    view = store.read("main")
    assert (view.status, view.record.reason) == ("paused", "error")
    with driving(store) as s, s.turn("one") as t:
        assert t.continued
        assert t.call(tool) == "done"


def test_a_rerun_after_a_pause_on_failure_has_new_attempts(store):
    look = Counted(*[raising(TimeoutError())] * 3)
    tool = look.tool(effect="read", attempts=2, on_exhausted="pause")
    with pytest.raises(Paused), driving(store) as s, s.turn("one") as t:
        t.call(tool)
    with driving(store) as s, s.turn("one") as t:
        t.call(tool)
        assert [c.attempt for c in s.log(load=False) if c.kind == "call"] == [1, 2, 3, 4]


def keyed(keys, *first):
    failing = list(first)

    def pay(amount, idempotency_key):
        keys.append(idempotency_key)
        if failing:
            raise failing.pop(0)
        return amount

    return pay


def test_the_idempotency_key_is_the_same_over_attempts(turn):
    keys: list[str] = []
    turn.call(stator.tool(keyed(keys, NotDone("a"), NotDone("b"))), amount=1)
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_the_idempotency_key_is_the_same_over_reruns(store):
    keys: list[str] = []
    pay = stator.tool(keyed(keys, TimeoutError(), TimeoutError()), effect="idempotent", attempts=2)
    with pytest.raises(stator.errors.CallTimeout), driving(store) as s, s.turn("one") as t:
        t.call(pay, amount=1)
    with driving(store) as s, s.turn("one") as t:
        t.call(pay, amount=1)
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_equal_calls_in_one_turn_have_different_keys(turn):
    keys: list[str] = []
    pay = stator.tool(keyed(keys))
    for _ in range(2):
        turn.call(pay, amount=1)
    assert len(set(keys)) == 2


def test_the_second_of_two_equal_calls_keeps_its_key_when_the_first_is_replayed(store):
    keys: list[str] = []
    pay = stator.tool(keyed(keys), effect="idempotent")
    with driving(store) as s, s.turn("one") as t:
        t.call(pay, amount=1)
        t.call(pay, amount=1)
    with driving(store) as s, s.turn("two") as t:
        t.call(pay, amount=1)
    assert len(set(keys)) == 3


def test_a_call_that_runs_again_keeps_its_key(store):
    keys: list[str] = []
    pay = stator.tool(keyed(keys, ValueError("no")))
    with driving(store) as s, s.turn("one") as t:
        t.try_call(pay, amount=1)
        raise Died
    with driving(store) as s, s.turn("one") as t:
        t.call(pay, amount=1)
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_equal_calls_of_one_answer_have_keys_in_the_order_of_the_requests(store):
    """The order in which they start does not matter: a rerun must use the same key for the same call."""
    found = []
    for backwards in (False, True):
        keys: list[str] = []
        with driving(store) as s, s.turn("one") as t:
            asks = t.reply(says(("pay", {"amount": 1}), ("pay", {"amount": 1})))
            pay = stator.tool(keyed(keys), effect="idempotent")
            _, calls = requested(t._open, asks, {"pay": pay}, None)
            made = [(call, call.key) for call in calls]
            for call, _ in made[::-1] if backwards else made:
                call.drive()
            found.append([key for _, key in made])
            assert sorted(keys) == sorted(found[0]) or backwards
            raise Died
    assert found[0] == found[1]
    assert len(set(found[0])) == 2


def test_an_explicit_key_is_the_idempotency_key(turn):
    keys: list[str] = []
    turn.call(stator.tool(keyed(keys), key="order 17"), amount=1)
    assert keys == ["order 17"]


def test_the_key_is_not_part_of_the_recorded_arguments(turn):
    turn.call(stator.tool(keyed([])), amount=1)
    intent = next(c for c in turn.session.log() if c.kind == "call")
    assert intent.value("input") == {"amount": 1}


def test_reconcile_receives_the_key_that_the_tool_received(store):
    keys: list[str] = []
    asked: list[str] = []

    def reconcile(intent):
        asked.append(intent.key)
        return "unknown"

    pay = stator.tool(keyed(keys, InDoubt("lost"), InDoubt("lost")), reconcile=reconcile)
    for _ in range(2):
        with driving(store) as s, s.turn("one") as t:
            t.try_call(pay, amount=1)
            t.try_call(pay, amount=1)
            raise Died
    assert len(set(keys)) == 2
    assert asked == keys


# -- asyncio --------------------------------------------------------------------------------------


def test_the_asynchronous_api_retries_like_the_synchronous_one(store, slept):
    act = Counted(raising(TimeoutError()), raising(NotDone("later")))

    async def go():
        async with stator.aio.AsyncStore(store) as opened, opened.open("main") as s:
            async with s.turn("one") as t:

                async def look():
                    return act()

                value = await t.call(stator.tool(look, effect="read"))
            return value, statuses(s._sync)

    store.context = msgspec.structs.replace(store.context, jitter=lambda: 0.0)
    assert asyncio.run(go()) == ("done", ["timeout", "error", "ok"])


def test_a_failed_call_has_the_exception_of_the_tool_as_its_cause(turn):
    with pytest.raises(CallFailed) as caught:
        turn.call(Counted(raising(ValueError("no"))).tool())
    assert isinstance(caught.value.__cause__, ValueError)
