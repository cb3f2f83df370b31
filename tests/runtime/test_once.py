"""Keys: what a turn with a key does when its program runs again, in every later run of the session."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import pytest

import stator
from runtime.support import Counted, Died, Model, driving, dying, interrupt, pay_once, raising, says
from stator.errors import BadTurn, Diverged, InDoubt, InvalidInput

# -- a turn that ended ----------------------------------------------------------------------------


def test_a_turn_with_a_key_that_ended_is_reused_by_every_later_run(either):
    act = Counted()
    turns = [pay_once(either, act) for _ in range(3)]
    assert [turn.reused for turn in turns] == [False, True, True]
    assert len(act.runs) == 1


def test_reusing_a_turn_of_an_older_run_appends_nothing_to_the_turn(either):
    act = Counted()
    pay_once(either, act)
    pay_once(either, act)
    assert [turn.turn for turn in either.read("main").turns()] == [1]


def test_a_reused_turn_has_the_value_it_ended_with(either):
    act = Counted()
    pay_once(either, act)
    assert pay_once(either, act).value == {"paid": 42}


def test_a_turn_without_a_value_has_none(either):
    for _ in range(2):
        with either.open("main") as s, s.turn("look", key="k") as t:
            pass
    assert (t.reused, t.value) == (True, None)


@pytest.mark.parametrize("value", [1.5, b"\x00\xff", 2**80, (1, 2), {"a": [True, None]}, "é\ud800"])
def test_a_value_is_the_same_the_first_time_and_from_the_record(either, value):
    seen = []
    for _ in range(2):
        with either.open("main") as s:
            seen.append(s.once("k", lambda: value))
    assert seen[0] == seen[1]
    assert type(seen[0]) is type(seen[1])


def test_a_turn_of_a_closed_session_is_reused_when_it_is_opened_again(either):
    act = Counted()
    pay_once(either, act)
    with either.open("main") as s:
        s.close()
    assert pay_once(either, act).reused


def test_the_same_key_in_another_session_is_another_turn(either):
    act = Counted()
    pay_once(either, act)
    pay_once(either, act, name="other")
    assert len(act.runs) == 2


def test_another_key_is_another_turn(either):
    act = Counted()
    pay_once(either, act, key="2026-11-15")
    pay_once(either, act, key="2026-11-16")
    assert len(act.runs) == 2


def test_a_call_that_the_reused_turn_did_not_record_diverges(either):
    act = Counted()
    pay_once(either, act)
    with (
        pytest.raises(Diverged, match="did not record"),
        either.open("main") as s,
        s.turn("pay", key="order 17") as t,
    ):
        t.call(act.tool(effect="write"), cents=43)
    assert len(act.runs) == 1


def test_an_answer_of_the_model_comes_from_the_record_of_an_older_run(either):
    model = Model(says(text="hello"))
    for _ in range(2):
        with either.open("main") as s, s.turn("greet", key="k") as t:
            reply = t.model(model, model="m", messages=[])
    assert model.asked == 1
    assert reply.content[0].text == "hello"


# -- once -----------------------------------------------------------------------------------------


def test_once_calls_the_function_once_and_returns_its_value_ever_after(either):
    act = Counted(value={"id": 7})
    found = []
    for _ in range(3):
        with either.open("main") as s:
            found.append(s.once("order 17", act, cents=42))
    assert found == [{"id": 7}] * 3
    assert act.runs == [{"cents": 42}]


def test_once_records_the_call_with_its_arguments(either):
    with either.open("main") as s:
        s.once("order 17", Counted(name="pay"), cents=42)
        (call,) = s.calls()
        assert (call.tool, s.commit(f"@{call.seq}").value("input")) == ("pay", {"cents": 42})


def test_a_function_that_died_in_once_is_in_doubt_and_does_not_run_again(either):
    act = Counted(dying)
    with driving(either) as s:
        s.once("order 17", act, cents=42)
    with pytest.raises(InDoubt), driving(either) as s:
        s.once("order 17", act, cents=42)
    assert len(act.runs) == 1


def test_once_returns_the_value_a_person_settled_it_with(either):
    act = Counted(dying)
    with driving(either) as s:
        s.once("order 17", act, cents=42)
    with either.open("main") as s:
        s.in_doubt[0].settle("done", {"id": 7})
    with driving(either) as s:
        assert s.once("order 17", act, cents=42) == {"id": 7}
    assert len(act.runs) == 1


def test_a_function_settled_as_not_done_runs_again(either):
    act = Counted(dying)
    with driving(either) as s:
        s.once("order 17", act, cents=42)
    with either.open("main") as s:
        s.in_doubt[0].settle("not done")
    with driving(either) as s:
        assert s.once("order 17", act, cents=42) == "done"
    assert len(act.runs) == 2


def test_a_repeatable_function_that_died_in_once_runs_again(either):
    act = Counted(dying)
    for _ in range(2):
        with driving(either) as s:
            s.once("sync", act.tool(effect="idempotent"))
    assert len(act.runs) == 2


def test_a_function_that_failed_in_once_runs_again_in_the_next_run(either):
    def fail() -> Any:
        raise ValueError("no")

    act = Counted(fail)
    with pytest.raises(stator.errors.CallFailed), either.open("main") as s:
        s.once("order 17", act)
    with either.open("main") as s:
        assert s.once("order 17", act) == "done"


def test_once_inside_a_turn_is_refused_with_what_to_do_instead(either):
    with pytest.raises(BadTurn) as refused, either.open("main") as s, s.turn("one"):
        s.once("order 17", Counted())
    assert "t.call" in refused.value.hint


def killed_before_its_end(store: Any, act: Counted) -> None:
    """Dies between the outcome of the only call and the end of its turn."""
    with driving(store) as s, s.turn(key="k") as t:
        t.call(act.tool(effect="write"), cents=42)
        raise Died


@pytest.mark.parametrize("name", ["act", "renamed"])
@pytest.mark.parametrize("cents", [42, 43])
def test_once_does_not_repeat_what_ended_under_another_name_or_with_other_arguments(
    either, name, cents
):
    act = Counted()
    killed_before_its_end(either, act)
    with either.open("main") as s:
        assert s.once("k", act.tool(effect="write").using(name=name), cents=cents) == "done"
    assert len(act.runs) == 1


@pytest.mark.parametrize("name", ["act", "renamed"])
@pytest.mark.parametrize("cents", [42, 43])
def test_once_does_not_repeat_what_is_in_doubt_under_another_name_or_with_other_arguments(
    either, name, cents
):
    act = Counted(dying)
    killed_before_its_end(either, act)
    for new in range(2):
        with pytest.raises(InDoubt), either.open("main") as s:
            s.once("k", act.tool(effect="write").using(name=name), cents=cents + new)
    assert len(act.runs) == 1


def test_once_does_not_repeat_what_an_aborted_attempt_has_done_under_another_name(either):
    act = Counted()
    with either.open("main") as s, s.turn(key="k") as t:
        t.call(act.tool(effect="write"), cents=42)
        t.abort("not like this")
    with either.open("main") as s:
        assert s.once("k", act.tool(effect="write").using(name="renamed"), cents=43) == "done"
    assert len(act.runs) == 1


def test_once_without_a_key_is_refused(either):
    with pytest.raises(InvalidInput, match="needs a key"), either.open("main") as s:
        s.once("", Counted())


# -- a turn that was interrupted ------------------------------------------------------------------


def test_an_interrupted_turn_with_a_key_is_continued_after_later_turns(either):
    act = Counted()
    first = interrupt(either, act)
    with either.open("main") as s, s.turn("something else", key="other"):
        pass
    with either.open("main") as s, s.turn("pay", key="order 17") as t:
        assert (t.continued, t.reused) == (True, False)
        assert (t.id, t.number) == (first.id, 3)
        t.call(act.tool(effect="write"), cents=42)
    assert len(act.runs) == 1


def test_a_turn_that_was_continued_after_later_turns_is_reused_once_it_ended(either):
    act = Counted()
    interrupt(either, act)
    with either.open("main") as s, s.turn("something else"):
        pass
    pay_once(either, act)
    assert pay_once(either, act).reused
    assert len(act.runs) == 1


def test_a_turn_is_continued_any_number_of_times_after_later_turns(either):
    act = Counted()
    for n in range(4):
        with driving(either) as s, s.turn("pay", key="order 17") as t:
            for cents in range(n + 1):
                t.call(act.tool(effect="write"), cents=cents)
            raise Died
        with either.open("main") as s, s.turn(f"between {n}", key=f"between {n}"):
            pass
    assert act.runs == [{"cents": n} for n in range(4)]


def test_a_continued_turn_keeps_the_idempotency_keys_of_its_calls(either):
    keys = []

    def pay(cents: int, idempotency_key: str) -> None:
        keys.append(idempotency_key)
        raise Died

    tool = stator.tool(pay, effect="idempotent")
    for between in (True, False):
        with driving(either) as s, s.turn("pay", key="k") as t:
            t.call(tool, cents=42)
        if between:
            with either.open("main") as s, s.turn("something else"):
                pass
    assert len(keys) == 2
    assert keys[0] == keys[1]


def test_a_call_that_a_continued_turn_left_in_doubt_is_in_doubt_after_later_turns(either):
    act = Counted(dying)
    with driving(either) as s, s.turn("pay", key="k") as t:
        t.call(act.tool(effect="write"), cents=42)
    with either.open("main") as s, s.turn("something else"):
        pass
    with pytest.raises(InDoubt), either.open("main") as s, s.turn("pay", key="k") as t:
        t.call(act.tool(effect="write"), cents=42)
    assert len(act.runs) == 1


@pytest.mark.parametrize(
    ("verdict", "runs"),
    [("done", 1), ("not done", 2), ("run again", 2)],
    ids=lambda item: str(item),
)
def test_a_call_that_was_settled_after_later_turns_is_known_to_its_turn(either, verdict, runs):
    act = Counted(dying)
    with driving(either) as s, s.turn("pay", key="k") as t:
        t.call(act.tool(effect="write"), cents=42)
    with either.open("main") as s, s.turn("something else"):
        pass
    either.doubts.settle(either.doubts.open("main")[0].call, verdict)
    with either.open("main") as s, s.turn("pay", key="k") as t:
        t.call(act.tool(effect="write"), cents=42)
    assert len(act.runs) == runs


def test_a_call_that_the_parent_settled_after_a_fork_is_elsewhere_in_the_fork(either):
    act = Counted(dying)
    with driving(either) as s, s.turn("pay", key="k") as t:
        t.call(act.tool(effect="write"), cents=42)
    with either.open("main") as s, s.turn("something else"):
        pass
    either.fork("main", "head", as_name="other")
    either.doubts.settle(either.doubts.open("main")[0].call, "done")
    for number in range(3):
        with either.open("other") as s, s.turn(f"turn {number}"):
            pass
    with pytest.raises(InDoubt), either.open("other") as s, s.turn("pay", key="k") as t:
        t.call(act.tool(effect="write"), cents=42)
    assert len(act.runs) == 1


def test_a_program_with_one_block_per_turn_runs_no_turn_twice(either):
    act = Counted(lambda: "a", lambda: "b", dying)
    tasks = ("a", "b", "c")

    def program() -> None:
        for task in tasks:
            with driving(either) as s, s.turn(task, key=task) as t:
                t.call(act.tool(effect="write"), task=task)

    program()
    with pytest.raises(InDoubt):
        program()
    assert [run["task"] for run in act.runs] == ["a", "b", "c"]


# -- attempts -------------------------------------------------------------------------------------


def test_a_turn_that_was_aborted_is_tried_again(either):
    act = Counted()
    with either.open("main") as s, s.turn("pay", key="k") as t:
        t.abort("wrong account")
    with either.open("main") as s, s.turn("pay", key="k") as t:
        assert (t.attempt, t.continued, t.reused) == (2, False, False)
        t.call(act.tool(effect="write"), cents=42)
    assert len(act.runs) == 1


def test_a_write_that_an_aborted_attempt_has_done_does_not_run_again(either):
    act = Counted(value={"id": 7})
    with either.open("main") as s, s.turn("pay", key="k") as t:
        t.call(act.tool(effect="write"), cents=42)
        t.abort("too slow")
    with either.open("main") as s, s.turn("pay", key="k") as t:
        assert t.call(act.tool(effect="write"), cents=42) == {"id": 7}
    assert len(act.runs) == 1


def test_each_write_of_an_earlier_attempt_answers_one_call(either):
    act = Counted()
    tool = act.tool(effect="write")
    with either.open("main") as s, s.turn("pay", key="k") as t:
        t.call(tool, cents=1)
        t.abort("once more")
    for attempt in (2, 3):
        with either.open("main") as s, s.turn("pay", key="k") as t:
            assert t.attempt == attempt
            for _ in range(attempt):
                t.call(tool, cents=1)
            t.abort("once more")
    assert len(act.runs) == 3


def test_a_read_of_an_earlier_attempt_runs_again(either):
    act = Counted()
    for _ in range(2):
        with either.open("main") as s, s.turn("look", key="k") as t:
            t.call(act.tool(effect="read"))
            t.abort("once more")
    assert len(act.runs) == 2


def test_a_write_that_an_aborted_attempt_left_in_doubt_is_in_doubt_in_the_next(either):
    act = Counted(dying)
    with driving(either) as s, s.turn("pay", key="k") as t:
        t.call(act, cents=42)
    with either.open("main") as s, s.turn("pay", key="k") as t:
        t.abort("no")
    with either.open("main") as s, s.turn("pay", key="k") as t:
        assert (t.attempt, t.try_call(act, cents=43).status) == (2, "in doubt")
    assert len(act.runs) == 1


def poisoned(store: Any, model: Model) -> Any:
    """A program that cannot read what the model said."""
    with contextlib.suppress(ValueError), store.open("main") as s, s.turn("ask", key="k") as t:
        t.model(model, model="m", messages=[])
        raise ValueError("cannot parse")
    return t


def test_a_recorded_answer_that_makes_the_program_fail_twice_is_asked_again(either):
    model = Model(says(text="a"), says(text="b"))
    seen = []
    for _ in range(3):
        turn = poisoned(either, model)
        seen.append((turn.attempt, turn.continued, model.asked))
    assert seen == [(1, False, 1), (1, True, 1), (2, False, 2)]


def test_a_turn_that_waits_for_a_person_keeps_its_attempt(either):
    model = Model(says(("act", {"cents": 1})))
    act = Counted()
    for _ in range(4):
        with (
            contextlib.suppress(stator.errors.ApprovalNeeded),
            either.open("main") as s,
            s.turn("pay", key="k") as t,
        ):
            r = t.model(model, model="m", messages=[])
            t.results(r, {"act": act.tool(effect="write", approve=True)})
        assert t.attempt == 1
    assert model.asked == 1


def test_new_begins_another_attempt_on_purpose(either):
    act = Counted()
    model = Model(says(text="a"), says(text="b"))
    for new in (False, True):
        with either.open("main") as s, s.turn("pay", key="k", new=new) as t:
            t.model(model, model="m", messages=[])
            t.call(act.tool(effect="write"), cents=1)
    assert (t.attempt, model.asked, len(act.runs)) == (2, 2, 1)


# -- prompts --------------------------------------------------------------------------------------


def test_a_changed_prompt_warns_and_names_both(either):
    act = Counted()
    pay_once(either, act)
    with (
        pytest.warns(UserWarning, match="'pay'; this program begins it with 'pay now'"),
        either.open("main") as s,
        s.turn("pay now", key="order 17") as t,
    ):
        assert t.reused


def test_a_changed_prompt_is_refused_where_the_program_asks_for_that(either):
    pay_once(either, Counted())
    with pytest.raises(Diverged, match="pay now"), either.open("main") as s:
        s.turn("pay now", key="order 17", changed="raise")


def test_an_unknown_way_to_treat_a_changed_prompt_is_refused(either):
    with pytest.raises(InvalidInput, match="unknown changed"), either.open("main") as s:
        s.turn("pay", key="order 17", changed="ignore")


def test_a_program_that_gives_no_prompt_does_not_warn(either):
    pay_once(either, Counted())
    with warnings.catch_warnings(), either.open("main") as s:
        warnings.simplefilter("error")
        assert s.turn(key="order 17").reused


def test_the_same_prompt_does_not_warn(either):
    act = Counted()
    pay_once(either, act)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pay_once(either, act).reused


# -- turns with and without a key -----------------------------------------------------------------


def test_a_turn_without_a_key_is_found_behind_one_that_an_older_run_has_answered(either):
    act = Counted()
    pay_once(either, act)

    def program() -> Any:
        with driving(either) as s:
            with s.turn("pay", key="order 17") as t:
                t.call(act.tool(effect="write"), cents=42)
            with s.turn("report") as t:
                t.call(act.tool(effect="write"), text="paid")
            with s.turn("clean up") as t:
                raise Died
        return t

    program()
    assert program().continued
    assert len(act.runs) == 2


def test_recall_gives_the_last_attempt_of_a_call_that_was_made_again_after_other_turns(either):
    act = Counted(raising(ValueError("no")), value="done")
    with (
        contextlib.suppress(stator.errors.CallFailed),
        either.open("main") as s,
        s.turn("pay", key="k") as t,
    ):
        t.call(act.tool(effect="write", attempts=1), cents=42)
    with either.open("main") as s, s.turn("something else"):
        pass
    with either.open("main") as s, s.turn("pay", key="k") as t:
        call = t.try_call(act.tool(effect="write"), cents=42).call
    assert "done" in str(either.read("main").recall(f"call:{call}").content)
