"""Calls: each outcome is known or recorded as unknown."""

from __future__ import annotations

import functools
import inspect

import pytest

import stator
from stator.errors import BadType, CallCancelled, CallFailed, InDoubt, NotDone
from stator.runtime.driving.tools import Tool


@pytest.fixture
def turn(memory):
    with memory.open("a") as session, session.turn("one") as t:
        yield t


@stator.tool(effect="read")
def look(path="a.py"):
    return f"content of {path}"


def boom():
    raise ValueError("no such thing")


def last(turn):
    return next(turn.session.log(newest_first=True, limit=1))


def test_a_call_returns_the_result_of_the_tool(turn):
    assert turn.call(look, path="b.py") == "content of b.py"


def test_the_intent_is_in_the_log_before_the_tool_runs(turn):
    seen = []

    def tool(**_):
        seen.append((last(turn).kind, last(turn).value("input")))

    turn.call(tool, amount=5)
    assert seen == [("call", {"amount": 5})]


def test_intent_and_outcome_name_the_call_the_tool_and_its_effect(turn):
    turn.call(look)
    intent, outcome = list(turn.session.log())[-2:]
    assert intent.call == outcome.call == intent.own("call")
    assert (intent.tool, intent.effect, intent.status) == ("look", "read", "started")
    assert (outcome.status, outcome.value("output")) == ("ok", "content of a.py")


def test_positional_arguments_are_recorded_by_name(turn):
    turn.call(look, "c.py")
    assert list(turn.session.log())[-2].value("input") == {"path": "c.py"}


def test_a_function_without_a_declared_effect_is_a_write(turn):
    turn.call(lambda: None)
    assert last(turn).effect == "write"


def test_a_declared_tool_called_directly_inside_a_turn_is_recorded(turn):
    assert look("x") == "content of x"
    assert last(turn).kind == "outcome"


def test_a_declared_tool_called_directly_outside_a_turn_is_not_recorded(turn):
    turn.end()
    before = turn.session.head
    assert look("x") == "content of x"
    assert turn.session.head == before


def test_a_tool_can_be_recorded_under_another_name(turn):
    turn.call(stator.tool(effect="read", name="web.search")(lambda q: q), q="x")
    assert last(turn).tool == "web.search"


def test_an_unknown_effect_is_refused_where_it_is_declared():
    with pytest.raises(stator.StatorError, match="read, idempotent or write"):
        stator.tool(effect="maybe")


# -- not ok -------------------------------------------------------------------------------------------


def test_a_tool_that_raises_is_recorded_as_an_error(turn):
    with pytest.raises(CallFailed, match="no such thing") as caught:
        turn.call(boom)
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.outcome.status == "error"
    assert (last(turn).status, last(turn).cause) == ("error", "ValueError")
    assert last(turn).value("output") == {"error": "ValueError", "message": "no such thing"}


def test_try_call_returns_the_outcome_without_raising(turn):
    outcome = turn.try_call(boom)
    assert (outcome.ok, outcome.status, outcome.error) == (False, "error", "no such thing")
    assert isinstance(outcome.exception, ValueError)
    with pytest.raises(CallFailed):
        outcome.result()
    assert turn.try_call(look).result() == "content of a.py"


def test_not_done_is_recorded_as_an_error_without_effect(turn):
    def pay():
        raise NotDone("card declined")

    outcome = turn.try_call(pay)
    assert (outcome.status, outcome.cause, outcome.error) == ("error", "not done", "card declined")


def test_a_tool_that_raises_in_doubt_leaves_its_call_in_doubt(turn):
    def pay():
        raise InDoubt("connection lost")

    with pytest.raises(InDoubt, match="may or may not have happened"):
        turn.call(pay)
    (call,) = turn.session.calls(status="open")
    assert (call.status, call.cause) == ("in doubt", "the tool does not know")
    (record,) = turn.session.state(collections=["calls"])["calls"].values()
    assert record.status == "in doubt"


def interrupted():
    raise KeyboardInterrupt


def test_an_interrupted_write_is_in_doubt_and_the_interrupt_propagates(turn):
    with pytest.raises(KeyboardInterrupt):
        turn.call(interrupted)
    assert (last(turn).status, last(turn).cause) == ("in doubt", "interrupted by KeyboardInterrupt")


def test_an_interrupted_read_is_cancelled(turn):
    read = stator.tool(effect="read", name="read")(interrupted)
    with pytest.raises(KeyboardInterrupt):
        turn.try_call(read)
    assert last(turn).status == "cancelled"
    assert turn.session.calls(status="open") == []


def test_the_result_of_a_cancelled_call_raises_call_cancelled():
    outcome = stator.Outcome(call="c_" + "0" * 32, tool="x", status="cancelled", cause="stopped")
    with pytest.raises(CallCancelled):
        outcome.result()


# -- what cannot be recorded --------------------------------------------------------------------------


def test_a_tool_does_not_run_if_its_arguments_cannot_be_recorded(turn):
    ran = []
    before = turn.session.head
    with pytest.raises(BadType, match=r"\$\.input"):
        turn.call(lambda thing: ran.append(thing), thing=object())
    assert ran == []
    assert turn.session.head == before


def test_a_result_that_cannot_be_recorded_still_records_the_outcome(turn):
    with pytest.raises(BadType, match="ended ok"):
        turn.call(lambda: object())
    assert (last(turn).status, last(turn).cause) == ("ok", "result not recordable")
    assert not last(turn).has("output")
    assert turn.session.calls(status="open") == []


def test_a_first_result_has_the_same_form_as_a_replayed_one(turn):
    class Text(str):
        pass

    found = turn.call(lambda: [Text("x"), (1, 2)])
    assert found == ["x", (1, 2)]
    assert type(found[0]) is str


async def fetch():
    return 1


def test_the_error_of_an_async_tool_in_the_synchronous_api_names_stator_aio(turn):
    before = turn.session.head
    with pytest.raises(BadType, match=r"stator\.aio"):
        turn.call(fetch)
    assert turn.session.head == before


def test_a_declared_async_tool_is_refused_in_the_synchronous_api(turn):
    with pytest.raises(BadType, match="async"):
        turn.call(stator.tool(effect="read")(fetch))


def test_an_object_that_is_not_callable_is_refused(turn):
    with pytest.raises(BadType, match="not callable"):
        turn.call("ls")


# -- listing calls ------------------------------------------------------------------------------------


def test_uses_of_tools_are_counted(turn):
    turn.call(look)
    turn.try_call(boom)
    turn.try_call(boom)
    tools = turn.session.state(collections=["tools"])["tools"].values()
    assert {(t.name, t.uses, t.failures, t.last) for t in tools} == {
        ("look", 1, 0, "ok"),
        ("boom", 2, 2, "error"),
    }


def test_calls_can_be_listed_by_status_tool_and_turn(turn):
    turn.call(look)
    turn.try_call(boom)
    turn.end()
    with turn.session.turn("two") as t:
        t.call(look)
    asked = turn.session.calls
    assert [row.tool for row in asked()] == ["look", "boom", "look"]
    assert [row.tool for row in asked(status="failed")] == ["boom"]
    assert [row.turn for row in asked(tool="look")] == [2, 1]
    assert [row.turn for row in asked(last=1)] == [2]
    assert len(asked(limit=1)) == 1


def test_calls_can_be_listed_by_project(memory, turn):
    turn.try_call(boom)
    with memory.open("b", project="other") as s, s.turn("x") as t:
        t.call(look)
    assert {row.tool for row in memory.calls().rows} == {"boom", "look"}
    assert [row.tool for row in memory.calls(project="shop").rows] == ["boom"]
    assert [row.tool for row in memory.calls(statuses=["ok"]).rows] == ["look"]


def test_the_signature_of_a_tool_is_asked_for_once(turn, monkeypatch):
    asked = []
    real = inspect.signature

    def signature(of):
        asked.append(of)
        return real(of)

    monkeypatch.setattr(inspect, "signature", signature)

    def add(a, b):
        return a + b

    adds = stator.tool(add, effect="read")
    assert [turn.call(adds, 1, n) for n in range(3)] == [1, 2, 3]
    assert asked == [add]


def test_a_function_is_given_a_key_only_if_a_parameter_has_that_name():
    def wants(*, idempotency_key):
        return idempotency_key

    def has_a_local():
        idempotency_key = 1
        return idempotency_key

    @functools.wraps(wants)
    def wraps(*given, **named):
        return wants(*given, **named)

    assert Tool(wants).takes_key
    assert Tool(wraps).takes_key
    assert not Tool(has_a_local).takes_key
