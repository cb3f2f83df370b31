"""Running the same program again: which turns continue, which calls are replayed, which run."""

from __future__ import annotations

from typing import Any

import pytest

import stator
from runtime.support import Counted, Died, Model, driving, kinds, raising, says, statuses
from stator.errors import CallFailed, Diverged, InDoubt, NotDone
from stator.model.calls.life import Note
from stator.runtime.driving import approvals, lifecycle, settlement
from stator.runtime.driving.call import Calling

# -- matching turns -------------------------------------------------------------------------------


def test_a_turn_of_a_killed_process_is_continued_under_its_id(memory):
    with driving(memory) as s:
        first = s.turn("one")
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        assert (t.continued, t.reused, t.id, t.number) == (True, False, first.id, 1)


def test_a_turn_interrupted_by_an_exception_is_continued(memory):
    with pytest.raises(ValueError, match="no"), driving(memory) as s, s.turn("one"):
        raise ValueError("no")
    with driving(memory) as s, s.turn("one") as t:
        assert t.continued


def test_a_turn_that_ended_before_the_crash_is_reused(memory):
    with driving(memory) as s:
        with s.turn("one") as first:
            pass
        s.turn("two")
        raise Died
    with driving(memory) as s:
        with s.turn("one") as t:
            assert (t.reused, t.continued, t.id) == (True, False, first.id)
        with s.turn("two") as t:
            assert t.continued
        assert [turn.status for turn in s.turns()] == ["ok", "ok"]


def test_reusing_a_turn_appends_nothing(memory):
    with driving(memory) as s:
        with s.turn("one") as t:
            t.fact("x", 1)
        raise Died
    with driving(memory) as s:
        before = s.head
        with s.turn("one") as t:
            t.fact("x", 1)
        assert s.head == before


def test_the_first_mismatch_ends_matching(memory):
    with driving(memory) as s:
        for prompt in ("one", "two", "three"):
            with s.turn(prompt):
                pass
        raise Died
    with driving(memory) as s:
        seen = []
        for prompt in ("one", "other", "three"):
            with s.turn(prompt) as t:
                seen.append((t.reused, t.number))
    assert seen == [(True, 1), (False, 4), (False, 5)]


def test_turns_match_by_position_and_prompt(memory):
    with driving(memory) as s:
        with s.turn("again"):
            pass
        s.turn("again")
        raise Died
    with driving(memory) as s:
        with s.turn("again") as t:
            assert t.reused
        with s.turn("again") as t:
            assert t.continued


def test_a_key_matches_a_turn_with_another_prompt(memory):
    with driving(memory) as s:
        first = s.turn("at 9:00", key="daily")
        raise Died
    with driving(memory) as s:
        with pytest.warns(UserWarning, match="the key decides"):
            t = s.turn("at 9:05", key="daily")
        assert (t.continued, t.id) == (True, first.id)


def test_another_key_is_another_turn(memory):
    with driving(memory) as s:
        s.turn("same", key="a")
        raise Died
    with driving(memory) as s, s.turn("same", key="b") as t:
        assert (t.continued, t.reused) == (False, False)


def test_a_turn_opened_with_new_continues_nothing(memory):
    with driving(memory) as s:
        s.turn("one")
        raise Died
    with driving(memory) as s, s.turn("one", new=True) as t:
        assert (t.continued, t.reused, t.number) == (False, False, 2)


def test_a_run_that_ended_normally_is_not_continued(memory):
    with driving(memory) as s, s.turn("one"):
        pass
    with driving(memory) as s, s.turn("one") as t:
        assert (t.continued, t.reused, t.number) == (False, False, 2)


def test_a_program_interrupted_twice_continues_from_both_runs(memory):
    with driving(memory) as s:
        with s.turn("one"):
            pass
        raise Died
    with driving(memory) as s:
        with s.turn("one"):
            pass
        s.turn("two")
        raise Died
    with driving(memory) as s:
        seen = []
        for prompt in ("one", "two", "three"):
            with s.turn(prompt) as t:
                seen.append((t.reused, t.continued, t.number))
    assert seen == [(True, False, 1), (False, True, 2), (False, False, 3)]


def test_an_aborted_turn_is_reused_and_not_continued(memory):
    with driving(memory) as s:
        s.turn("one").abort("enough")
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        assert t.reused


def test_an_interrupted_turn_with_a_turn_after_it_is_only_replayed(memory):
    with driving(memory) as s:
        s.turn("one")
        raise Died
    with driving(memory) as s:
        s.turn("other")
        raise Died
    with driving(memory) as s, s.turn("other") as t:
        assert t.continued


def test_a_prompt_of_content_blocks_is_recognised(memory):
    blocks = [{"type": "text", "text": "one"}]
    with driving(memory) as s:
        s.turn(blocks)
        raise Died
    with driving(memory) as s, s.turn([dict(blocks[0])]) as t:
        assert t.continued


def test_a_prompt_with_a_secret_is_recognised(memory):
    prompt = "use sk-ant-api03-" + "a1B2" * 20
    with driving(memory) as s:
        s.turn(prompt)
        raise Died
    with driving(memory) as s, s.turn(prompt) as t:
        assert t.continued


# -- calls ----------------------------------------------------------------------------------------


def test_a_write_that_succeeded_is_replayed(memory):
    act = Counted(value={"id": 7})
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            value = t.call(act.tool(), n=1)
            raise Died
    assert (value, len(act.runs)) == ({"id": 7}, 1)


def test_a_replayed_outcome_is_marked_and_equal_to_the_first(memory):
    act = Counted(value=(1, {"a": b"x"}))
    seen = []
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            seen.append(t.try_call(act.tool(), n=1))
            raise Died
    first, second = seen
    assert (first.replayed, second.replayed) == (False, True)
    assert (first.call, first.value, first.attempts) == (second.call, second.value, second.attempts)


def test_a_first_result_has_the_same_form_as_a_replayed_one(memory):
    box = [1]
    with driving(memory) as s, s.turn("one") as t:
        value = t.call(lambda: box)
    assert value == box
    assert value is not box


def test_two_calls_with_the_same_arguments_are_two_calls(memory):
    act = Counted()
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            t.call(act.tool(), n=1)
            t.call(act.tool(), n=1)
            raise Died
    assert len(act.runs) == 2


def test_calls_are_matched_in_any_order(memory):
    act = Counted()
    for order in ((1, 2), (2, 1)):
        with driving(memory) as s, s.turn("one") as t:
            for n in order:
                t.call(act.tool(), n=n)
            raise Died
    assert [run["n"] for run in act.runs] == [1, 2]


def test_a_failed_last_call_runs_again(memory):
    act = Counted(raising(ValueError("no")))
    with pytest.raises(CallFailed), driving(memory) as s, s.turn("one") as t:
        t.call(act.tool(), n=1)
    with driving(memory) as s, s.turn("one") as t:
        assert t.call(act.tool(), n=1) == "done"
        tries = [(call.attempt, call.status) for call in s.calls()]
        assert tries == [(2, "ok"), (1, "error")]
        assert len({call.call for call in s.calls()}) == 1


def test_a_failed_call_with_later_calls_is_replayed(memory):
    act, other = Counted(raising(ValueError("no"))), Counted(name="other")
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            outcome = t.try_call(act.tool(), n=1)
            t.call(other.tool())
            raise Died
    assert (outcome.status, outcome.error, outcome.replayed) == ("error", "no", True)
    assert len(act.runs) == 1


def test_a_failed_call_with_a_later_record_is_replayed(memory):
    act = Counted(raising(ValueError("no")))
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            t.try_call(act.tool(), n=1)
            t.fact("act fails", True)
            raise Died
    assert len(act.runs) == 1


def test_a_failed_call_in_an_ended_turn_is_replayed(memory):
    act = Counted(raising(ValueError("no")))
    for _ in range(2):
        with driving(memory) as s:
            with s.turn("one") as t:
                outcome = t.try_call(act.tool(), n=1)
            raise Died
    assert (outcome.replayed, len(act.runs)) == (True, 1)


def test_a_read_without_an_outcome_runs_again(memory):
    look = Counted(raising(Died()), name="look")
    with driving(memory) as s:
        t = s.turn("one")
        start(t, look.tool(effect="read"))
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        assert t.call(look.tool(effect="read")) == "done"


def start(t, tool, **given):
    """Start a call that dies: its intent is recorded, its outcome is not."""
    calling = Calling(t._open, tool, (), given)
    effects = calling.life()
    note = next(effects)
    assert isinstance(note, Note)
    calling.append(note)
    return calling


def asking(verdict, **options):
    """A tool whose `reconcile` returns this verdict, and the intents it received."""
    asked: list[Any] = []

    def reconcile(intent):
        asked.append(intent)
        return verdict

    return Counted().tool(reconcile=reconcile, **options), asked


def test_a_write_without_an_outcome_is_in_doubt_and_does_not_run(memory):
    act = Counted()
    with driving(memory) as s:
        start(s.turn("one"), act.tool(), n=1)
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        with pytest.raises(InDoubt):
            t.call(act.tool(), n=1)
        assert [doubt.tool for doubt in s.in_doubt] == ["act"]
        assert [doubt.cause for doubt in s.recovery.in_doubt] == ["process died"]
    assert act.runs == []


def test_a_reworded_call_is_in_doubt_while_the_original_is(memory):
    act = Counted()
    with driving(memory) as s:
        start(s.turn("one"), act.tool(), text="a")
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        assert t.try_call(act.tool(), text="b").status == "in doubt"
    assert act.runs == []


def test_a_reworded_call_does_not_run_after_further_kills(memory):
    act = Counted()
    with driving(memory) as s:
        start(s.turn("one"), act.tool(), text="a")
        raise Died
    for _ in range(3):
        with driving(memory) as s, s.turn("one") as t:
            assert t.try_call(act.tool(), text="b").status == "in doubt"
            raise Died
    assert act.runs == []


@pytest.mark.parametrize(("verdict", "runs"), [("done", 0), ("not done", 1), ("run again", 1)])
def test_a_reworded_call_follows_the_verdict_on_the_original(memory, verdict, runs):
    act = Counted()
    with driving(memory) as s:
        start(s.turn("one"), act.tool(), text="a")
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        t.try_call(act.tool(), text="b")
        raise Died
    with driving(memory) as s:
        s.in_doubt[0].settle(verdict)
        with s.turn("one") as t:
            outcome = t.try_call(act.tool(), text="b")
    assert outcome.status == ("ok" if runs else "denied")
    assert len(act.runs) == runs


def test_a_reworded_call_is_refused_if_the_original_was_settled_as_done(memory):
    act = Counted()
    with driving(memory) as s:
        start(s.turn("one"), act.tool(), text="a")
        raise Died
    with driving(memory) as s:
        s.in_doubt[0].settle("done")
        with s.turn("one") as t:
            outcome = t.try_call(act.tool(), text="b")
            assert (outcome.status, act.runs) == ("denied", [])
            assert (
                t.call(act.tool(), text="b") == "done"
            )  # it has seen the result, and requests the call again


def test_a_refusal_is_replayed_unchanged(memory):
    act, other = Counted(), Counted(name="other")
    with driving(memory) as s:
        start(s.turn("one"), act.tool(), text="a")
        raise Died
    seen = []
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            seen.append(t.try_call(act.tool(), text="b"))
            t.call(other.tool())
            raise Died
    first, second = seen
    assert (first.status, first.cause, first.call) == (second.status, second.cause, second.call)
    assert second.replayed


def test_an_ended_turn_refuses_a_reworded_call_while_the_original_is_in_doubt(memory):
    act = Counted()
    with driving(memory) as s:
        start(s.turn("one"), act.tool(), text="a")
        raise Died
    with driving(memory) as s:
        with s.turn("one") as t:
            t.try_call(act.tool(), text="a")
        s.turn("two")
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        before = s.head
        with pytest.raises(Diverged):
            t.try_call(act.tool(), text="b")
        assert s.head == before


def test_another_tool_runs_while_one_is_in_doubt(memory):
    act, other = Counted(), Counted(name="other")
    with driving(memory) as s:
        start(s.turn("one"), act.tool(), n=1)
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        assert t.call(other.tool(), n=1) == "done"


def test_the_tool_in_doubt_runs_in_a_later_turn(memory):
    act = Counted()
    with driving(memory) as s:
        start(s.turn("one"), act.tool(), n=1)
        raise Died
    with driving(memory) as s:
        with s.turn("one") as t:
            t.try_call(act.tool(), n=1)
        with s.turn("two") as t:
            assert t.call(act.tool(), n=1) == "done"


@pytest.mark.parametrize(
    ("verdict", "expected", "runs"),
    [("done", None, 0), (("done", 7), 7, 0), ("not_done", "done", 1)],
)
def test_reconcile_settles_a_call_it_knows(memory, verdict, expected, runs):
    act = Counted()
    tool = act.tool(reconcile=lambda intent: verdict)
    with driving(memory) as s:
        start(s.turn("one"), tool, n=1)
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        assert t.call(tool, n=1) == expected
        assert s.in_doubt == []
        assert kinds(s).count("settlement") == 1
        assert s.entries("pending") == []
    assert len(act.runs) == runs


def test_a_call_stays_in_doubt_if_reconcile_does_not_know(memory):
    act = Counted()
    tool = act.tool(reconcile=lambda intent: "unknown")
    with driving(memory) as s:
        start(s.turn("one"), tool, n=1)
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        assert t.try_call(tool, n=1).status == "in doubt"
        assert len(s.in_doubt) == 1
    assert act.runs == []


def test_reconcile_runs_only_when_the_program_reaches_the_call(memory):
    tool, asked = asking("unknown")
    with driving(memory) as s:
        start(s.turn("one"), tool, n=1)
        raise Died
    with driving(memory) as s, s.turn("one"):
        s.recovery  # noqa: B018
        assert asked == []


def test_reconcile_receives_the_original_call(memory):
    tool, asked = asking("unknown", key="order 7")
    with driving(memory) as s:
        begun = start(s.turn("one"), tool, n=1)
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        t.try_call(tool, n=1)
    (intent,) = asked
    assert (intent.call, intent.tool, intent.arguments) == (begun.asked.call, "act", {"n": 1})
    assert (intent.key, intent.attempt) == ("order 7", 1)


def test_a_reworded_call_is_refused_if_reconcile_finds_the_original_done(memory):
    act = Counted()
    tool = act.tool(reconcile=lambda intent: "done")
    with driving(memory) as s:
        start(s.turn("one"), tool, text="a")
        raise Died
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            assert t.try_call(tool, text="b").status == "denied"
            raise Died
    assert act.runs == []


def test_a_reworded_call_runs_if_reconcile_finds_the_original_not_done(memory):
    act = Counted()
    tool = act.tool(reconcile=lambda intent: "not_done")
    with driving(memory) as s:
        start(s.turn("one"), tool, text="a")
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        assert t.call(tool, text="b") == "done"


def test_reconcile_does_not_run_for_a_call_of_a_displaced_driver(memory):
    tool, asked = asking("not_done")
    gone = memory.open("main")
    start(gone.turn("one"), tool, n=1)
    with driving(memory, busy="take") as s, s.turn("one") as t:
        outcome = t.try_call(tool, n=1)
    assert (outcome.status, outcome.cause) == ("in doubt", "driver displaced")
    assert asked == []


def test_reconcile_does_not_run_for_a_displaced_driver_in_later_runs(memory):
    tool, asked = asking("not_done")
    gone = memory.open("main")
    start(gone.turn("one"), tool, n=1)
    with driving(memory, busy="take") as s:
        s.turn("one")
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        assert t.try_call(tool, n=1).status == "in doubt"
    assert asked == []


@pytest.mark.parametrize(("verdict", "runs"), [("done", 0), ("not done", 1), ("run again", 1)])
def test_a_rerun_uses_the_verdict_of_a_person(memory, verdict, runs):
    act = Counted()
    with driving(memory) as s:
        start(s.turn("one"), act.tool(), n=1)
        raise Died
    with driving(memory) as s:
        s.in_doubt[0].settle(verdict)
        with s.turn("one") as t:
            t.call(act.tool(), n=1)
    assert len(act.runs) == runs


def test_a_rerun_returns_the_value_a_person_gave(memory):
    act = Counted()
    with driving(memory) as s:
        start(s.turn("one"), act.tool(), n=1)
        raise Died
    with driving(memory) as s:
        s.in_doubt[0].settle("done", {"id": 9})
        with s.turn("one") as t:
            assert t.call(act.tool(), n=1) == {"id": 9}


def test_an_explicit_key_matches_a_call_with_other_arguments(memory):
    act = Counted()
    for text in ("a", "b"):
        with driving(memory) as s, s.turn("one") as t:
            t.call(act.tool(key="pay"), text=text)
            raise Died
    assert act.runs == [{"text": "a"}]


def test_a_read_whose_value_was_redacted_runs_again(memory):
    look = Counted(name="look", value="sk-ant-api03-" + "a1B2" * 20)
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            value = t.call(look.tool(effect="read"))
            raise Died
    assert value.startswith("sk-ant")
    assert len(look.runs) == 2


def test_a_write_whose_value_was_redacted_is_done_without_a_value(memory):
    act = Counted(value="sk-ant-api03-" + "a1B2" * 20)
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            outcome = t.try_call(act.tool())
            raise Died
    assert (outcome.status, outcome.value, outcome.cause) == ("ok", None, "value redacted")
    assert len(act.runs) == 1


def test_a_call_with_a_secret_in_its_arguments_is_recognised(memory):
    act = Counted()
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            t.call(act.tool(), token="sk-ant-api03-" + "a1B2" * 20)
            raise Died
    assert len(act.runs) == 1


# -- records --------------------------------------------------------------------------------------


def marks(t):
    t.decide("use JWT", topic="auth", why="simple")
    t.fact("port", 80)
    t.fact("port", 81)
    t.plan(["a", "b"])
    t.artifact("report", "text")
    t.pend("later")
    t.set(count=1)
    t.note("scratch", [1])
    t.say("done so far")


def test_records_of_a_turn_are_recorded_once(memory):
    counts = []
    for _ in range(3):
        with driving(memory) as s, s.turn("one") as t:
            marks(t)
            counts.append(sum(kind not in ("turn", "turn_end") for kind in t_kinds(s)))
            raise Died
    assert len(set(counts)) == 1


def t_kinds(s):
    return [c.kind for c in s.log(load=False) if c.turn == 1 and c.kind not in RUNS]


RUNS = ("run", "run_end", "pause", "resume", "turn", "turn_end")


def test_a_new_record_after_the_replayed_ones_is_recorded(memory):
    with driving(memory) as s, s.turn("one") as t:
        t.fact("a", 1)
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        t.fact("a", 1)
        t.fact("b", 2)
        assert s.facts() == {"a": 1, "b": 2}
        assert kinds(s).count("fact") == 2


def test_the_same_record_twice_in_a_turn_is_recorded_twice(memory):
    with driving(memory) as s, s.turn("one") as t:
        t.note("x", 1)
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        t.note("x", 1)
        t.note("x", 1)
        assert kinds(s).count("scratch") == 2


def test_an_ended_turn_refuses_a_call_it_did_not_have(memory):
    with driving(memory) as s:
        with s.turn("one"):
            pass
        raise Died
    with driving(memory) as s, s.turn("one") as t, pytest.raises(Diverged, match="did not record"):
        t.call(Counted().tool())


def test_an_ended_turn_refuses_a_record_it_did_not_have(memory):
    with driving(memory) as s:
        with s.turn("one"):
            pass
        raise Died
    with driving(memory) as s, s.turn("one") as t, pytest.raises(Diverged):
        t.fact("new", 1)


def test_an_ended_turn_refuses_an_answer_it_did_not_have(memory):
    with driving(memory) as s:
        with s.turn("one"):
            pass
        raise Died
    with driving(memory) as s, s.turn("one") as t, pytest.raises(Diverged):
        t.model(Model(says()))


# -- the model ------------------------------------------------------------------------------------


def test_a_recorded_answer_is_not_requested_again(memory):
    model = Model(says(("act", {"n": 1})), says())
    act = Counted()
    with driving(memory) as s, s.turn("one") as t:
        r = t.model(model, messages=t.messages("anthropic"))
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        again = t.model(model, messages=t.messages("anthropic"))
        assert again == r
        assert model.asked == 1
        t.results(again, {"act": act.tool()})
        t.model(model, messages=t.messages("anthropic"))
    assert (model.asked, len(act.runs)) == (2, 1)


def test_an_answer_with_redacted_arguments_is_requested_again(memory):
    secret = "sk-ant-api03-" + "a1B2" * 20
    model = Model(says(("act", {"token": secret})), says(("act", {"token": secret})))
    act = Counted()
    with driving(memory) as s, s.turn("one") as t:
        t.model(model)
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        t.results(t.model(model), {"act": act.tool()})
    assert act.runs == [{"token": secret}]
    assert model.asked == 2


def test_an_answer_with_a_secret_only_in_its_text_is_not_requested_again(memory):
    model = Model(says(text="it is sk-ant-api03-" + "a1B2" * 20))
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            t.model(model)
            raise Died
    assert model.asked == 1


def test_a_call_requested_by_a_model_is_matched_by_its_place_in_the_answer(memory):
    model = Model(says(("act", {"n": 1}), ("act", {"n": 1})))
    act = Counted(lambda: "done", raising(Died()))
    with driving(memory) as s, s.turn("one") as t:
        r = t.model(model)
        with pytest.raises(Died):
            t.results(r, {"act": act.tool(effect="read")})
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        t.results(t.model(model), {"act": act.tool(effect="read")})
        assert len(act.runs) == 3
        assert len({call.call for call in s.calls(tool="act")}) == 2


def test_a_failed_call_the_model_has_not_seen_runs_again(memory):
    model = Model(says(("act", {"n": 1})), says())
    act = Counted(raising(NotDone("busy")), raising(NotDone("busy")), raising(NotDone("busy")))
    with driving(memory) as s, s.turn("one") as t:
        t.results(t.model(model), {"act": act.tool()})
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        (told,) = t.results(t.model(model), {"act": act.tool()})
        assert not told.get("is_error")
    assert len(act.runs) == 4


def test_a_failed_call_the_model_has_seen_is_replayed(memory):
    model = Model(says(("act", {"n": 1})), says())
    act = Counted(raising(ValueError("no")))
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            (told,) = t.results(t.model(model), {"act": act.tool()})
            t.model(model)
            raise Died
    assert told["is_error"]
    assert (model.asked, len(act.runs)) == (2, 1)


def test_a_failed_model_request_in_an_ended_turn_is_replayed(memory):
    asked = []

    def model(n):
        asked.append(n)
        if n == 1:
            raise ValueError("overloaded")
        return "an answer"

    for run in (1, 2):
        with driving(memory) as s:
            with s.turn("one") as t:
                with pytest.raises(CallFailed):
                    t.model(model, n=1)
                assert t.model(model, n=2) == "an answer"
                with pytest.raises(CallFailed):
                    t.model(model, n=1)
            assert t.reused is (run == 2)
            raise Died
    assert asked == [1, 2, 1]


# -- approvals ------------------------------------------------------------------------------------


def test_a_call_awaiting_approval_still_waits_after_a_crash(memory):
    act = Counted()
    for _ in range(2):
        with pytest.raises(stator.ApprovalNeeded), driving(memory) as s, s.turn("one") as t:
            t.call(act.tool(approve=True), n=1)
    with driving(memory) as s:
        assert [call.tool for call in s.recovery.awaiting] == ["act"]
        assert len(s.calls(tool="act")) == 1


def approve(store):
    (waiting,) = approvals.waiting(store.port, now=0)
    approvals.approve(store.port, store.context, waiting.call, by="local:person")


def test_an_approved_call_runs_once(memory):
    act = Counted()
    with pytest.raises(stator.ApprovalNeeded), driving(memory) as s, s.turn("one") as t:
        t.call(act.tool(approve=True), n=1)
    approve(memory)
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            assert t.call(act.tool(approve=True), n=1) == "done"
            raise Died
    assert len(act.runs) == 1


def test_a_waiting_call_with_changed_arguments_needs_a_new_approval(memory):
    act = Counted()
    tool = act.tool(approve=True, key="pay")
    with pytest.raises(stator.ApprovalNeeded), driving(memory) as s, s.turn("one") as t:
        t.call(tool, text="a")
    with pytest.raises(stator.ApprovalNeeded), driving(memory) as s, s.turn("one") as t:
        t.call(tool, text="b")
    (waiting,) = approvals.waiting(memory.port, now=0)
    assert waiting.arguments == {"text": "b"}
    approve(memory)
    with driving(memory) as s, s.turn("one") as t:
        assert t.call(tool, text="b") == "done"
    assert act.runs == [{"text": "b"}]


def test_an_approval_does_not_apply_to_a_keyed_call_with_other_arguments(memory):
    act = Counted()
    tool = act.tool(approve=True, key="pay")
    with pytest.raises(stator.ApprovalNeeded), driving(memory) as s, s.turn("one") as t:
        t.call(tool, text="a")
    approve(memory)
    with pytest.raises(stator.ApprovalNeeded), driving(memory) as s, s.turn("one") as t:
        t.call(tool, text="b")
    assert act.runs == []


# -- the recovery report --------------------------------------------------------------------------


def test_the_recovery_report_names_requests_that_never_started(memory):
    with driving(memory) as s, s.turn("one") as t:
        t.model(Model(says(("act", {"n": 1}))))
        raise Died
    with driving(memory) as s:
        (missing,) = s.recovery.never_started
        assert (missing.tool, missing.arguments, missing.turn) == ("act", {"n": 1}, 1)


def test_the_recovery_report_groups_the_calls_of_the_last_turn(memory):
    with driving(memory) as s:
        t = s.turn("one")
        t.call(Counted(name="ok").tool())
        start(t, Counted(name="look").tool(effect="read"))
        start(t, Counted(name="pay").tool())
        raise Died
    with driving(memory) as s:
        report = s.recovery
        found = [[call.tool for call in group] for group in
                 (report.settled, report.cancelled, report.in_doubt)]  # fmt: skip
        assert found == [["ok"], ["look"], ["pay"]]
        assert (report.interrupted, report.turn, report.prompt) == (True, 1, "one")
        assert report.cause == "process died"


def test_a_session_that_ended_normally_has_an_empty_recovery_report(memory):
    with driving(memory) as s, s.turn("one"):
        pass
    with driving(memory) as s:
        assert not s.recovery.interrupted


def test_opening_a_session_runs_no_tool(memory):
    act = Counted()
    tool = act.tool(reconcile=lambda intent: act.runs.append({}))
    with driving(memory) as s:
        start(s.turn("one"), tool, n=1)
        raise Died
    with driving(memory) as s:
        s.recovery  # noqa: B018
    assert act.runs == []
    with driving(memory) as s:
        assert statuses(s) == ["in doubt"]


# -- changes by others between runs ------------------------------------------------------------------


@pytest.mark.parametrize(("verdict", "runs"), [("done", 0), ("not done", 1), ("run again", 1)])
def test_a_rerun_uses_a_settlement_made_while_no_program_ran(memory, verdict, runs):
    act = Counted()
    with driving(memory) as s:
        begun = start(s.turn("one"), act.tool(), n=1)
        raise Died
    settlement.settle(memory.port, memory.context, begun.asked.call, verdict, by="local:boss")
    with driving(memory) as s, s.turn("one") as t:
        assert t.continued
        t.call(act.tool(), n=1)
    assert len(act.runs) == runs


def test_a_session_of_a_dead_driver_that_was_paused_is_continued(memory):
    with driving(memory) as s:
        s.turn("one")
        raise Died
    lifecycle.pause(memory.port, memory.context, s.id, by="local:boss")
    with driving(memory) as s, s.turn("one") as t:
        assert t.continued


def test_a_session_of_a_dead_driver_that_was_closed_and_resumed_is_continued(memory):
    with driving(memory) as s:
        s.turn("one")
        raise Died
    lifecycle.close(memory.port, memory.context, s.id, by="local:boss")
    lifecycle.resume(memory.port, memory.context, s.id, by="local:boss")
    with driving(memory) as s, s.turn("one") as t:
        assert t.continued


def test_a_contributed_fact_does_not_replace_the_programs_own(memory):
    with driving(memory) as s:
        s.turn("one")
        raise Died
    memory.contribute("main", principal="local:boss").fact("port", 80)
    with driving(memory) as s, s.turn("one") as t:
        t.fact("port", 80)
        assert kinds(s).count("fact") == 2


def test_a_run_without_a_turn_leaves_the_interrupted_program_to_be_continued(memory):
    act = Counted()
    with driving(memory) as s, s.turn("one") as t:
        t.call(act.tool(), n=1)
        raise Died
    for _ in range(2):
        with memory.open("main") as s:
            assert s.recovery.interrupted
    with driving(memory) as s, s.turn("one") as t:
        assert t.continued
        t.call(act.tool(), n=1)
    assert len(act.runs) == 1


def test_a_rerun_uses_a_settlement_made_in_another_run(memory):
    act = Counted()
    with driving(memory) as s:
        start(s.turn("one"), act.tool(), n=1)
        raise Died
    with memory.open("main") as s:
        s.in_doubt[0].settle("done", 7)
    with driving(memory) as s, s.turn("one") as t:
        assert t.call(act.tool(), n=1) == 7
    assert act.runs == []


def test_a_session_closed_before_the_rerun_is_not_continued(memory):
    with driving(memory) as s:
        s.turn("one")
        raise Died
    memory.open("main").close()
    with driving(memory) as s, s.turn("one") as t:
        assert (t.continued, t.reused) == (False, False)


def test_removing_a_record_is_not_mistaken_for_adding_it(memory):
    with driving(memory) as s, s.turn("one") as t:
        t.pend("deploy")
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        t.pend("deploy", done=True)
        assert s.state(collections=("pending",))["pending"] == {}
