"""Edges of driven sessions: what each commit was made from, by the rules of docs/design/record.md."""

from __future__ import annotations

import asyncio

import pytest

import stator
from runtime.edge_stories import TOOLS, asks, last, look, only
from stator.errors import BadType, InvalidInput
from stator.model.log.edges import edges_of
from stator.runtime.facade.aio import AsyncStore


def test_a_requested_call_was_made_from_the_answer_that_asked(either):
    with either.open("a") as s, s.turn("go") as t:
        t.results(t.reply(asks("look", "peek")), TOOLS, parallel=True)
    answer = last(s, "entry")
    assert [c.inputs for c in only(s, "call")] == [[answer.seq], [answer.seq]]


def test_an_outcome_was_made_by_its_call_and_nothing_is_written_for_that(either):
    with either.open("a") as s, s.turn("go") as t:
        t.results(t.reply(asks("look")), TOOLS)
    (outcome,), (call,) = only(s, "outcome"), only(s, "call")
    assert outcome.inputs == []
    assert [edge.id for edge in edges_of(outcome)] == [call.call]


def test_a_call_by_hand_was_made_from_the_prompt_until_there_is_an_answer(either):
    with either.open("a") as s:
        with s.turn("before") as t:
            t.say("an answer of another turn")
        with s.turn("go") as t:
            t.call(look)
            t.reply(asks())
            t.call(look)
            t.say("another answer")
            t.call(look)
    prompt, answers = last(s, "turn"), only(s, "entry")[1:]
    wanted = [[c.seq] for c in (prompt, *answers)]
    assert [c.inputs for c in only(s, "call")] == wanted


def test_a_call_never_was_made_from_the_result_of_a_sibling(either):
    with either.open("a") as s, s.turn("go") as t:
        t.results(t.reply(asks("look", "peek")), TOOLS)
        t.call(look)
    results = {c.seq for c in only(s, "outcome")}
    for call in only(s, "call"):
        assert not [e for e in edges_of(call) for c in s.log() if c.seq in results and e.holds(c)]


def test_a_nested_call_was_made_by_its_parent_alone(either):
    with either.open("a") as s, s.turn("go") as t:

        def outer():
            return t.call(look)

        t.reply(asks())
        t.call(outer)
    inner = only(s, "call", "look")[0]
    parent = only(s, "call", "outer")[0]
    assert [edge.id for edge in edges_of(inner)] == [parent.call]


def test_what_is_recorded_inside_a_call_was_made_by_that_call_alone(either):
    with either.open("a") as s, s.turn("go") as t:

        def tool():
            t.decide("inside")
            t.file("a.py", "read")
            t.plan("step")

        t.results(t.reply(asks("look")), TOOLS)
        t.call(tool)
        t.decide("outside")
    call = only(s, "call", "tool")[0]
    inside = [only(s, "decision")[0], *only(s, "file"), *only(s, "plan")]
    assert [c.inputs for c in inside] == [[call.seq]] * 3
    assert last(s, "decision").inputs != [call.seq]


def test_a_record_was_made_from_the_last_answer_and_what_was_shown_since(either):
    with either.open("a") as s:
        with s.turn("before") as t:
            t.reply(asks(text="an older answer"))
        with s.turn("go") as t:
            t.results(t.reply(asks("look")), TOOLS)
            for n, record in enumerate(
                (t.decide, t.dead_end, t.pend, lambda x: t.fact(x, 1), lambda x: t.prefer(x, 1))
            ):
                record(f"x{n}")
            t.plan("step")
            t.artifact("doc", "text")
            t.file("a.py", "created")
    answer, outcome = last(s, "entry"), last(s, "outcome")
    kinds = "decision dead_end pending fact preference plan artifact file".split()
    assert [last(s, kind).inputs for kind in kinds] == [[answer.seq, -outcome.seq]] * len(kinds)


def test_an_answer_was_made_from_everything_in_view(either):
    with either.open("a") as s:
        for n in range(3):
            with s.turn(f"turn {n}") as t:
                t.results(t.reply(asks("look")), TOOLS)
                t.reply(asks())
    log = list(s.log())
    for answer in only(s, "entry"):
        shown = [c for c in log if c.seq < answer.seq and c.kind in ("turn", "entry", "outcome")]
        (edge,) = edges_of(answer)
        assert [c for c in log if edge.holds(c)] == shown


def test_no_list_of_inputs_is_cut(memory):
    with memory.open("a") as s, s.turn("go") as t:
        for _ in range(120):
            t.results(t.reply(asks("look")), TOOLS)
        t.reply(asks())
    answer = last(s, "entry")
    (edge,) = edges_of(answer)
    assert len(answer.inputs) == 2
    assert sum(edge.holds(c) for c in s.log()) == 241


def test_what_arrives_while_the_model_thinks_is_not_what_it_saw(either):
    with either.open("a") as s, s.turn("go") as t:

        def model(messages):
            t.call(look)
            return asks()

        t.model(model, messages=t.messages("anthropic"))
    answer, outcome = last(s, "entry"), only(s, "outcome", "look")[0]
    assert not any(edge.holds(outcome) for edge in edges_of(answer))
    assert any(edge.holds(last(s, "turn")) for edge in edges_of(answer))


def test_turns_that_were_left_out_of_the_messages_are_not_what_the_answer_was_made_from(memory):
    with memory.open("a") as s:
        for n in range(6):
            with s.turn(f"turn {n} " * 50) as t:
                t.reply(asks())
        with s.turn("last") as t:
            t.model(lambda messages: asks(), messages=t.messages("anthropic", max_tokens=150))
    prompts = only(s, "turn")
    seen = [any(e.holds(p) for e in edges_of(last(s, "entry"))) for p in prompts]
    assert seen[0] is False
    assert seen[-1] is True


def test_messages_of_the_programs_own_mean_everything_in_view(memory):
    with memory.open("a") as s:
        for n in range(6):
            with s.turn(f"turn {n} " * 50) as t:
                t.reply(asks())
        with s.turn("last") as t:
            mine = [dict(message) for message in t.messages("anthropic", max_tokens=150)]
            t.model(lambda messages: asks(), messages=mine)
    assert all(any(e.holds(p) for e in edges_of(last(s, "entry"))) for p in only(s, "turn"))


def test_a_resumed_session_knows_what_was_shown_before(either):
    with either.open("a") as s, s.turn("first") as t:
        t.results(t.reply(asks("look")), TOOLS)
    with either.open("a") as s, s.turn("second") as t:
        t.decide("before any answer")
        t.reply(asks())
    first, second = only(s, "turn")
    old, new = only(s, "entry")
    assert last(s, "decision").inputs == [old.seq, -second.seq]
    assert [any(e.holds(c) for e in edges_of(new)) for c in (first, old, second)] == [True] * 3


def test_what_was_rewound_is_not_what_an_answer_was_made_from(either):
    with either.open("a") as s:
        for n in range(3):
            with s.turn(f"turn {n}") as t:
                t.reply(asks())
        s.rewind("t1")
        with s.turn("again") as t:
            t.decide("x")
            t.reply(asks())
    kept, left, again = only(s, "turn")[0], only(s, "turn")[1:3], only(s, "turn")[3]
    for made in (last(s, "entry"), last(s, "decision")):
        edges = edges_of(made)
        assert not any(e.holds(c) for e in edges for c in left)
        assert any(e.holds(again) for e in edges)
    assert any(e.holds(kept) for e in edges_of(last(s, "entry")))


def test_after_a_compaction_an_answer_was_made_from_the_summary_not_from_what_it_covers(either):
    with either.open("a") as s:
        for n in range(5):
            with s.turn(f"turn {n}") as t:
                t.reply(asks(text="long " * 100))
        s.compact(strategy=["summarise"], summary=lambda *_: "so far", keep=1)
        with s.turn("last") as t:
            t.reply(asks())
    compaction, answer = last(s, "compaction"), last(s, "entry")
    edges = edges_of(answer)
    covered = [c for c in only(s, "entry") if c.seq <= compaction.inputs[-1]]
    assert covered
    assert not any(e.holds(c) for e in edges for c in covered)
    assert any(e.holds(compaction) for e in edges)
    assert all(any(e.holds(c) for e in edges_of(compaction)) for c in covered)


def test_a_childs_turn_was_made_by_the_call_and_the_calls_outcome_from_its_last_answer(either):
    with either.open("a") as s, s.turn("go") as t:

        def delegate():
            with s.child("kid") as c, c.turn("part of it") as u:
                u.call(look)
                u.reply(asks(text="done"))
                u.decide("the child's")

        t.call(delegate)
    kid = either.read("a/kid")
    (call,) = only(s, "call", "delegate")
    (outcome,) = only(s, "outcome", "delegate")
    assert last(kid, "turn").inputs == [call.id]
    assert outcome.inputs == [last(kid, "entry").id]
    assert last(kid, "decision").inputs == [last(kid, "entry").seq]
    assert only(kid, "call", "look")[0].parent == call.call


def test_a_child_outside_a_call_was_made_from_its_start_in_the_parent(either):
    with either.open("a") as s, s.turn("go") as t:
        t.reply(asks())
        with s.child("kid") as c, c.turn("part of it") as u:
            u.reply(asks())
    kid = either.read("a/kid")
    begun, ended = only(s, "child")
    assert last(kid, "turn").inputs == [begun.id]
    assert begun.inputs == [last(s, "entry").seq]
    assert ended.inputs == [last(kid, "entry").id]


def test_in_a_batch_a_record_was_made_from_the_answer_of_the_same_batch(either):
    with either.open("a") as s, s.turn("go") as t, t.batch():
        t.decide("before")
        t.say("an answer")
        t.decide("after")
    answer = last(s, "entry")
    before, after = only(s, "decision")
    assert after.inputs == [answer.seq]
    assert answer.inputs == [1, -last(s, "turn").seq]
    assert before.inputs == [1, -last(s, "turn").seq]


# -- from_ ------------------------------------------------------------------------------------------


def test_a_program_can_say_what_a_record_was_made_from(either):
    with either.open("a") as s, s.turn("go") as t:
        reply = t.reply(asks())
        outcome = t.try_call(look)
        decision = t.decide("x", from_=[outcome, reply, 1])
        t.fact("y", 1, from_=decision)
        t.plan("z", from_=t)
        t.prefer("p", 1, from_=next(s.log()))
        t.artifact("doc", "text", from_="@3")
        t.pend("w", from_=[])
        t.dead_end("v", from_=outcome.call)
        t.file("a.py", "read", from_=[decision])
    answer, result = last(s, "entry").seq, last(s, "outcome").seq
    made = last(s, "decision")
    assert made.inputs[:2] == [result, answer]
    assert last(s, "fact").inputs == last(s, "file").inputs == [made.seq]
    assert last(s, "plan").inputs == [last(s, "turn").seq]
    assert last(s, "preference").inputs == [1]
    assert last(s, "artifact").inputs == [3]
    assert last(s, "pending").inputs == []
    assert last(s, "dead_end").inputs == [result]


@pytest.mark.parametrize("given", [object(), {"a": 1}, 1.5, "", None.__class__, -3])
def test_what_names_no_commit_is_refused(memory, given):
    with memory.open("a") as s, s.turn("go") as t, pytest.raises((BadType, InvalidInput)):
        t.decide("x", from_=given)


def test_a_session_records_edges_outside_a_turn(either):
    with either.open("a") as s:
        with s.turn("go") as t:
            t.reply(asks())
        s.decide("x")
        s.fact("y", 1, from_="t1")
    assert last(s, "decision").inputs == [last(s, "entry").seq]
    assert last(s, "fact").inputs != []


# -- contributors -----------------------------------------------------------------------------------


def test_a_persons_contribution_was_made_from_nothing_unless_they_say_so(either):
    with either.open("a") as s, s.turn("go") as t:
        t.reply(asks())
    who = either.contribute("a")
    who.decide("mine")
    who.decide("from there", from_="@4")
    mine, said = only(either.read("a"), "decision")
    assert (mine.inputs, said.inputs) == ([], [4])


def test_a_process_inside_a_call_contributes_to_that_call(store, tmp_path, monkeypatch):
    with store.open("a") as s, s.turn("go") as t:

        def tool():
            monkeypatch.setenv("STATOR_CALL", stator.call_id())
            with stator.connect(tmp_path / "agent.db", project="shop") as other:
                other.contribute("a").fact("x", 1)

        t.call(tool)
    assert stator.call_id() == ""
    assert last(s, "fact").inputs == [only(s, "call", "tool")[0].seq]


def test_a_call_of_another_session_is_not_where_a_contribution_was_made(store, monkeypatch):
    with store.open("other") as s, s.turn("go") as t:
        t.call(look)
    with store.open("a") as s, s.turn("go"):
        pass
    monkeypatch.setenv("STATOR_CALL", only(store.read("other"), "call")[0].call)
    with stator.connect(store.info().url, project="shop") as other:
        other.contribute("a").fact("x", 1)
    assert last(store.read("a"), "fact").inputs == []


# -- asyncio ----------------------------------------------------------------------------------------


def test_a_coroutine_tool_records_inside_its_call(memory):
    async def main():
        store = AsyncStore(memory)
        async with store.open("a") as s, s.turn("go") as t:

            async def tool():
                await t.fact("x", 1)
                await t.results(asks("look"), TOOLS)

            await t.call(tool)
            await t.decide("outside", from_=await t.reply(asks()))

    asyncio.run(main())
    view = memory.read("a")
    call = only(view, "call", "tool")[0]
    assert last(view, "fact").inputs == [call.seq]
    assert only(view, "call", "look")[0].parent == call.call
    assert last(view, "decision").inputs == [last(view, "entry").seq]


# -- running again ----------------------------------------------------------------------------------


def test_a_program_that_runs_again_after_a_crash_adds_no_edges_and_does_not_diverge(either):
    class Killed(BaseException):
        pass

    def program(die):
        with either.open("a") as s, s.turn("go") as t:
            t.results(t.reply(asks("look")), TOOLS)
            t.decide("x")
            t.fact("y", 1, verified=True)
            if die:
                raise Killed
            t.reply(asks(text="the end"))
            t.decide("z")

    with pytest.raises(Killed):
        program(die=True)
    program(die=False)
    view = either.read("a")
    assert len(only(view, "decision")) == 2
    assert last(view, "decision").inputs == [last(view, "entry").seq]


def test_of_a_long_turn_only_the_answer_that_asked_explains_a_file(either):
    with either.open("a") as s, s.turn("go") as t:
        for n in range(9):
            path = "a.py" if n == 4 else f"other{n}.py"
            reply = asks("write", text=f"answer {n}")
            reply["content"][1]["input"] = {"path": path}
            t.results(t.reply(reply), {"write": lambda path: t.file(path, "created") and None})
    said = [reason.text for reason in either.read("a").why("a.py") if reason.kind == "said"]
    assert said == ["answer 4"]
