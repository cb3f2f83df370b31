"""Keys: what a turn with a key does when its program runs again, in every later run of the session."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import pytest

import stator
from runtime.support import Counted, Died, Model, driving, dying, says
from stator.errors import BadTurn, Diverged, Erased, InDoubt, InvalidInput
from stator.model.records.types import to_settle
from stator.runtime.base.context import Launch

SECRET = "AKIA" + "IOSFODNN7EXAMPLQ"


def pay_once(store: Any, act: Counted, *, key: str = "order 17", name: str = "main") -> Any:
    """A program that pays in a turn with a key, from start to end."""
    with store.open(name) as s, s.turn("pay", key=key) as t:
        t.call(act.tool(effect="write"), cents=42)
        t.end(value={"paid": 42})
    return t


def interrupt(store: Any, act: Counted, *, key: str = "order 17") -> Any:
    """The same program, which dies after the payment."""
    with driving(store) as s, s.turn("pay", key=key) as t:
        t.call(act.tool(effect="write"), cents=42)
        raise Died
    return t


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


# -- branches -------------------------------------------------------------------------------------


def test_a_fork_has_the_keys_of_its_past(either):
    act = Counted()
    pay_once(either, act)
    either.fork("main", "head", as_name="branch")
    assert pay_once(either, act, name="branch").reused


def test_a_fork_of_a_fork_has_the_keys_of_its_past(either):
    act = Counted()
    pay_once(either, act)
    either.fork("main", "head", as_name="branch")
    pay_once(either, act, key="second", name="branch")
    either.fork("branch", "head", as_name="twig")
    assert pay_once(either, act, name="twig").reused
    assert pay_once(either, act, key="second", name="twig").reused


def test_a_fork_does_not_have_the_keys_that_came_after_it(either):
    act = Counted()
    with either.open("main") as s, s.turn("first"):
        pass
    either.fork("main", "head", as_name="branch")
    pay_once(either, act)
    assert not pay_once(either, act, name="branch").reused


def test_a_parent_does_not_have_the_keys_of_its_forks(either):
    act = Counted()
    with either.open("main") as s, s.turn("first"):
        pass
    either.fork("main", "head", as_name="branch")
    pay_once(either, act, name="branch")
    assert not pay_once(either, act).reused


def test_a_rewound_turn_runs_again(either):
    act = Counted()
    with either.open("main") as s, s.turn("first"):
        pass
    pay_once(either, act)
    with either.open("main") as s:
        s.rewind("t1")
    assert not pay_once(either, act).reused
    assert len(act.runs) == 2


def test_a_turn_whose_rewind_was_taken_back_is_reused(either):
    act = Counted()
    with either.open("main") as s, s.turn("first"):
        pass
    pay_once(either, act)
    with either.open("main") as s:
        s.rewind("t1")
        s.rewind("rewind/1")
    assert pay_once(either, act).reused


def test_a_retry_runs_again(either):
    act = Counted()
    pay_once(either, act)
    with either.open("main") as s, s.retry("t1", effects="run") as t:
        t.call(act.tool(effect="write"), cents=42)
    assert len(act.runs) == 2


def test_an_adopted_retry_is_found_by_the_key_of_its_turn(either):
    act = Counted()
    pay_once(either, act)
    with either.open("main") as s:
        with s.retry("t1", effects="run") as t:
            t.call(act.tool(effect="write"), cents=42)
        s.adopt("t1.2")
    assert pay_once(either, act).reused
    assert len(act.runs) == 2


# -- bundles, erasure, secrets --------------------------------------------------------------------


def moved(store: Any, tmp_path: Any) -> Any:
    """A store with the same session, from a bundle."""
    store.export(["main"], str(tmp_path / "main.stator"))
    other = stator.connect(tmp_path / "other.db", project="shop")
    other.import_bundle(str(tmp_path / "main.stator"))
    return other


def erase_key(store: Any) -> None:
    with store.open("main") as s:
        first = next(c for c in s.log() if c.kind == "turn")
        s.erase(f"@{first.seq}")


def test_a_bundle_carries_keys(either, tmp_path):
    act = Counted()
    pay_once(either, act)
    with moved(either, tmp_path) as other:
        assert pay_once(other, act).reused


def test_a_bundle_carries_an_interrupted_turn(either, tmp_path):
    act = Counted()
    interrupt(either, act)
    with either.open("main") as s, s.turn("something else"):
        pass
    with moved(either, tmp_path) as other, other.open("main") as s:
        with s.turn("pay", key="order 17") as t:
            t.call(act.tool(effect="write"), cents=42)
        assert t.continued
    assert len(act.runs) == 1


def test_a_turn_whose_key_was_erased_is_reused(either):
    act = Counted()
    pay_once(either, act)
    erase_key(either)
    assert pay_once(either, act).reused


def test_an_erased_key_is_not_in_the_erasure(either):
    pay_once(either, Counted())
    erase_key(either)
    commits = [c for c in either.read("main").log() if c.kind == "erasure"]
    assert "order 17" not in str([c.value("input") for c in commits])


def test_a_turn_whose_key_was_erased_is_reused_after_the_indexes_are_rebuilt(either):
    act = Counted()
    pay_once(either, act)
    erase_key(either)
    either.port.rebuild()
    assert pay_once(either, act).reused


def test_a_bundle_carries_what_is_left_of_an_erased_key(either, tmp_path):
    act = Counted()
    pay_once(either, act)
    erase_key(either)
    with moved(either, tmp_path) as other:
        assert pay_once(other, act).reused


def test_a_fork_finds_a_key_that_its_parent_erased_later(either):
    act = Counted()
    pay_once(either, act)
    either.fork("main", "head", as_name="branch")
    erase_key(either)
    assert pay_once(either, act, name="branch").reused


def test_a_turn_is_reused_after_everything_in_its_session_was_erased(store):
    from stator.runtime.retention import erase

    act = Counted()
    pay_once(store, act)
    session = store.read("main").id
    plan = erase.of_session(store.port, session)
    erase.erase(store.port, store.context, plan, by="local:person")
    with store.open("main") as s, s.turn("pay", key="order 17") as t:
        assert t.reused


@pytest.mark.parametrize("redact", [True, False])
def test_a_key_that_holds_a_secret_is_found(tmp_path, redact):
    act = Counted()
    for _ in range(2):
        with stator.connect(tmp_path / "a.db", project="shop", redact=redact) as store:
            pay_once(store, act, key=f"deploy {SECRET}")
    assert len(act.runs) == 1


def test_a_key_that_holds_a_secret_is_not_recorded_as_it_is(store):
    pay_once(store, Counted(), key=f"deploy {SECRET}")
    first = next(c for c in store.read("main").log() if c.kind == "turn")
    assert SECRET not in first.value("key")


def test_a_key_with_a_secret_that_an_opening_without_redaction_recorded_is_found(tmp_path):
    act = Counted()
    for redact in (False, True):
        with stator.connect(tmp_path / "a.db", project="shop", redact=redact) as store:
            pay_once(store, act, key=f"deploy {SECRET}")
    assert len(act.runs) == 1


def test_a_value_that_holds_a_secret_comes_back_with_a_placeholder_and_a_warning(either):
    with either.open("main") as s:
        assert s.once("login", lambda: {"token": SECRET}) == {"token": SECRET}
    with either.open("main") as s, pytest.warns(UserWarning, match="held a secret"):
        assert "‹secret:" in s.once("login", lambda: {"token": SECRET})["token"]


def test_a_key_with_a_secret_is_found_after_everything_in_its_session_was_erased(store):
    from stator.runtime.retention import erase

    act = Counted()
    key = f"deploy {SECRET}"
    pay_once(store, act, key=key)
    plan = erase.of_session(store.port, store.read("main").id)
    erase.erase(store.port, store.context, plan, by="local:person")
    with store.open("main") as s:
        assert s.turn("pay", key=key).reused


def test_an_erased_value_is_an_error_and_not_nothing(either):
    pay_once(either, Counted())
    with either.open("main") as s:
        end = next(c for c in s.log() if c.kind == "turn_end")
        s.erase(f"@{end.seq}", fields=["output"])
    with (
        either.open("main") as s,
        s.turn("pay", key="order 17") as t,
        pytest.raises(Erased, match="is gone"),
    ):
        print(t.value)


def test_a_bundle_without_the_transcript_leaves_out_values(either, tmp_path):
    pay_once(either, Counted())
    either.export(["main"], str(tmp_path / "main.stator"), transcript=False)
    with stator.connect(tmp_path / "other.db", project="shop") as other:
        other.import_bundle(str(tmp_path / "main.stator"))
        end = next(c for c in other.read("main").log() if c.kind == "turn_end")
        assert end.known("output") is None


def test_the_prompt_of_once_is_its_key(either):
    with either.open("main") as s:
        s.once("order 17", Counted())
        assert next(c for c in s.log() if c.kind == "turn").value("input") == "order 17"


def test_a_second_end_with_a_value_is_refused(either):
    with either.open("main") as s, s.turn("pay", key="k") as t:
        t.end(value=1)
        with pytest.raises(BadTurn):
            t.end(value=2)
        t.end()
    assert t.value == 1


# -- writes in doubt in other turns ---------------------------------------------------------------


class Ledger:
    """A tool that notes the idempotency key it was given, and looks it up."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.dies = False

    def pay(self, cents: int, idempotency_key: str) -> str:
        self.keys.append(idempotency_key)
        if self.dies:
            raise Died
        return "paid"

    def tool(self) -> Any:
        def found(intent: Any) -> str:
            return "done" if intent.key in self.keys else "not_done"

        return stator.tool(self.pay, name="pay", effect="write", reconcile=found)

    def crash(self, store: Any, *, calls: int = 1) -> None:
        with driving(store) as s, s.turn("pay", key="a") as t:
            for number in range(calls):
                self.dies = number == calls - 1
                t.call(self.tool(), cents=42)


@pytest.mark.parametrize("calls", [1, 2])
def test_a_doubt_is_looked_up_under_the_key_it_was_made_with_by_another_turn(either, calls):
    ledger = Ledger()
    ledger.crash(either, calls=calls)
    with either.open("main") as s, s.turn("pay", key="b") as t:
        assert t.try_call(ledger.tool(), cents=42).status == "denied"
    assert len(ledger.keys) == calls


def test_a_doubt_of_a_continued_turn_is_looked_up_under_the_key_it_was_made_with(either):
    ledger = Ledger()
    with contextlib.suppress(ZeroDivisionError), either.open("main") as s, s.turn("pay", key="a"):
        raise ZeroDivisionError
    with either.open("main") as s, s.turn("something else"):
        pass
    ledger.crash(either)
    with either.open("main") as s, s.turn("pay", key="b") as t:
        assert t.try_call(ledger.tool(), cents=42).status == "denied"
    assert len(ledger.keys) == 1


def test_a_doubt_is_looked_up_under_the_key_it_was_made_with_by_another_attempt(either):
    ledger = Ledger()
    ledger.crash(either)
    with either.open("main") as s, s.turn("pay", key="a", new=True) as t:
        assert t.try_call(ledger.tool(), cents=42).status == "denied"
    assert len(ledger.keys) == 1


def test_a_doubt_is_looked_up_under_the_key_it_was_made_with_by_a_fork(either):
    ledger = Ledger()
    ledger.crash(either)
    with either.open("main"):
        pass
    either.fork("main", as_name="other")
    with either.open("other") as s, s.turn("pay", key="a") as t:
        assert t.try_call(ledger.tool(), cents=42).ok
    assert len(ledger.keys) == 1


def left_in_doubt(store: Any, act: Counted, **options: Any) -> None:
    with driving(store) as s, s.turn("one", new=True) as t:
        t.call(act.tool(**options), cents=42)


def test_a_declared_write_in_doubt_does_not_run_in_another_turn(either):
    act = Counted(dying)
    left_in_doubt(either, act, effect="write")
    with either.open("main") as s, s.turn("two") as t:
        assert t.try_call(act.tool(effect="write"), cents=42).status == "in doubt"
    assert len(act.runs) == 1


def test_a_declared_write_with_other_arguments_runs_in_another_turn(either):
    act = Counted(dying)
    left_in_doubt(either, act, effect="write")
    with either.open("main") as s, s.turn("two") as t:
        assert t.call(act.tool(effect="write"), cents=43) == "done"


def test_a_tool_that_declares_no_effect_runs_in_another_turn(either):
    act = Counted(dying)
    left_in_doubt(either, act)
    with either.open("main") as s, s.turn("two") as t:
        assert t.call(act.tool(), cents=42) == "done"


def test_a_call_with_the_key_of_one_in_doubt_does_not_run_in_another_turn(either):
    act = Counted(dying)
    left_in_doubt(either, act, key="order 17")
    with either.open("main") as s, s.turn("two") as t:
        assert t.try_call(act.tool(key="order 17"), cents=43).status == "in doubt"


def test_a_call_with_another_key_than_one_in_doubt_runs(either):
    act = Counted(dying)
    left_in_doubt(either, act, key="order 17", effect="write")
    with either.open("main") as s, s.turn("two") as t:
        assert t.call(act.tool(key="order 18", effect="write"), cents=42) == "done"


def test_a_request_with_the_id_of_one_in_doubt_does_not_run_in_another_turn(either):
    act = Counted(dying)
    with driving(either) as s, s.turn("one") as t:
        r = t.model(Model(says(("act", {"cents": 42}))), model="m", messages=[])
        t.results(r, {"act": act.tool()})
    with either.open("main") as s, s.turn("two") as t:
        r = t.model(Model(says(("act", {"cents": 43}))), model="m", messages=[])
        t.results(r, {"act": act.tool()})
    assert len(act.runs) == 1


def test_settling_a_doubt_lets_the_call_run_in_another_turn(either):
    act = Counted(dying)
    left_in_doubt(either, act, effect="write")
    with either.open("main") as s:
        s.in_doubt[0].settle("not done")
        with s.turn("two") as t:
            assert t.call(act.tool(effect="write"), cents=42) == "done"


def test_the_call_in_doubt_is_still_to_be_settled_after_another_turn_asked_for_it(either):
    act = Counted(dying)
    left_in_doubt(either, act, effect="write")
    with either.open("main") as s, s.turn("two") as t:
        call = t.try_call(act.tool(effect="write"), cents=42).call
        assert [p.record.what for p in s.entries("pending")] == [to_settle(call)]


def test_a_write_that_timed_out_in_this_run_does_not_run_in_its_next_turn(either):
    def slow() -> Any:
        raise TimeoutError

    act = Counted(slow)
    with either.open("main") as s:
        for prompt in ("one", "two"):
            with s.turn(prompt) as t:
                assert t.try_call(act.tool(effect="write"), cents=42).status == "in doubt"
    assert len(act.runs) == 1


def test_a_doubt_of_the_parent_does_not_stop_a_fork(either):
    act = Counted(dying)
    left_in_doubt(either, act, effect="write")
    with either.open("main"):
        pass
    either.fork("main", "head", as_name="branch")
    with either.open("branch") as s, s.turn("two") as t:
        assert t.call(act.tool(effect="write"), cents=42) == "done"


# -- a supervised run -----------------------------------------------------------------------------


def supervised(store: Any, start: int, run: str = "r1", process: str = "") -> Any:
    """The same store as a program sees it that a supervisor started."""
    import dataclasses

    from stator.runtime.facade.store import Store

    return Store(
        store.port,
        dataclasses.replace(store.context, launch=Launch(run, start, process or f"p{start}")),
    )


def test_a_program_that_its_supervisor_starts_again_does_not_repeat_what_ended(either):
    act = Counted()
    for start in range(2):
        with supervised(either, start).open("main") as s, s.turn("pay") as t:
            t.call(act.tool(effect="write"), cents=42)
    assert (t.reused, len(act.runs)) == (True, 1)


def test_a_supervised_program_with_one_block_per_turn_does_not_repeat_what_ended(either):
    act = Counted()
    for start in range(3):
        for task in range(start + 1):
            with supervised(either, start).open("main") as s, s.turn("pay") as t:
                t.call(act.tool(effect="write"), task=task)
    assert [run["task"] for run in act.runs] == [0, 1, 2]


def test_a_supervised_program_continues_the_block_it_died_in(either):
    act = Counted(lambda: 1, lambda: 2, dying)
    for start in range(2):
        for task in range(3):
            with driving(supervised(either, start)) as s, s.turn("pay") as t:
                t.try_call(act.tool(effect="write"), task=task)
    assert [run["task"] for run in act.runs] == [0, 1, 2]
    assert t.continued


def test_a_supervised_program_that_closed_its_session_does_not_repeat_what_ended(either):
    act = Counted()
    for start in range(2):
        with supervised(either, start).open("main") as s:
            with s.turn("pay") as t:
                t.call(act.tool(effect="write"), cents=42)
            s.close()
    assert len(act.runs) == 1


def test_a_supervised_program_that_goes_on_after_an_error_finds_each_of_its_turns(either):
    act = Counted(dying)
    for start in range(3):
        with (
            contextlib.suppress(InDoubt),
            driving(supervised(either, start)) as s,
            s.turn("a") as t,
        ):
            t.call(act.tool(effect="write"), task="a")
        if start == 0:
            continue
        with driving(supervised(either, start)) as s, s.turn("b") as t:
            t.call(act.tool(effect="write"), task="b")
    assert [run["task"] for run in act.runs] == ["a", "b"]


def test_a_program_that_its_own_start_runs_again_continues_what_it_left(either):
    act = Counted(lambda: 1, dying)
    for process in ("p1", "p2"):
        store = supervised(either, 0, process=process)
        with driving(store) as s:
            for task in ("a", "b"):
                with s.turn(task) as t:
                    t.try_call(act.tool(effect="write"), task=task)
    assert [run["task"] for run in act.runs] == ["a", "b"]


def test_another_supervised_run_of_the_program_begins_new_turns(either):
    act = Counted()
    for run in ("r1", "r2"):
        with supervised(either, 0, run).open("main") as s, s.turn("pay") as t:
            t.call(act.tool(effect="write"), cents=42)
    assert len(act.runs) == 2


# -- the end of a turn in a batch -----------------------------------------------------------------


def test_the_end_of_a_turn_is_the_last_commit_of_its_batch(either):
    with either.open("main") as s, s.turn("one") as t:
        with t.batch():
            t.end()
        assert [c.kind for c in s.log()][-2:] == ["turn", "turn_end"]
    with either.open("main") as s, s.turn("two") as t, t.batch():
        t.decide("use JWT", topic="auth")
        t.say("done")
        t.end()
    kinds = [c.kind for c in either.read("main").log() if c.turn == 2]
    assert kinds[:4] == ["turn", "decision", "entry", "turn_end"]


def test_nothing_can_be_recorded_after_the_end_in_a_batch(either):
    with either.open("main") as s, s.turn("one") as t, t.batch():
        t.end()
        with pytest.raises(BadTurn):
            t.fact("late", 1)


def test_a_batch_that_fails_leaves_its_turn_open(either):
    with either.open("main") as s, s.turn("one") as t:
        with contextlib.suppress(ValueError), t.batch():
            t.fact("a", 1)
            t.end()
            raise ValueError("no")
        t.fact("b", 2)
    assert list(either.read("main").facts()) == ["b"]


def test_a_batch_that_cannot_be_appended_leaves_its_turn_open(either, monkeypatch):
    def fails(drafts: Any, **options: Any) -> Any:
        raise stator.errors.StoreFull("no space")

    with either.open("main") as s, s.turn("one") as t:
        append = s._driver.append
        with contextlib.suppress(stator.errors.StoreFull), t.batch():
            t.fact("a", 1)
            t.end()
            monkeypatch.setattr(s._driver, "append", fails)
        monkeypatch.setattr(s._driver, "append", append)
        assert not t.ended
    assert [turn.status for turn in either.read("main").turns()] == ["ok"]
