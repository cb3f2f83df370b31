"""Replay runs an agent against its record, without tools or models, and explains the first divergence."""

from __future__ import annotations

import asyncio

import pytest

import stator
from runtime.support import Counted, driving, dying, left_by, raising
from stator.errors import Ambiguous, BadPosition, CallFailed, Diverged, InDoubt
from stator.testing import FakeClock, ScriptedModel, ScriptedTool, memory_store, replay

READ = Counted(name="read_file", value="def login(): …")
PAY = Counted(name="pay", value={"id": "re_1"})


@pytest.fixture(autouse=True)
def fresh():
    READ.runs.clear()
    PAY.runs.clear()


def agent(s, *, path="auth.py", amount=5, topic="auth", order=1):
    """Reads, decides, pays."""
    with s.turn("fix the login bug") as t:
        calls = [
            lambda: t.call(READ.tool(effect="read"), path=path),
            lambda: t.call(PAY.tool(), amount=amount),
        ]
        for call in calls[::order]:
            call()
        t.decide("use JWT", topic=topic)
    return s.name


@pytest.fixture
def recorded(either):
    """The view of a session that `agent` drove."""
    with either.open("login") as s:
        agent(s)
    READ.runs.clear()
    PAY.runs.clear()
    return either.read("login")


def away(replayed):
    """The divergence of a replay."""
    assert replayed.divergence is not None
    return replayed.divergence


def loop(model, dispatch):
    """An ordinary tool-use loop."""

    def drive(s):
        with s.turn("pay the invoice") as t:
            while True:
                r = t.model(model.messages.create, model="m", messages=t.messages("anthropic"))
                if r.stop_reason != "tool_use":
                    return r.content[0].text
                t.results(r, dispatch, effects={"read_file": "read"}, parallel=True)

    return drive


# -- as recorded ----------------------------------------------------------------------------------


def test_an_unchanged_program_replays_without_running_a_tool(recorded):
    found = replay(recorded, agent).check()
    assert (found.turns, found.calls, found.records) == (1, 2, 1)
    assert found.result == "login"
    assert (READ.runs, PAY.runs) == ([], [])


def test_a_replay_does_not_change_its_source(recorded):
    head = recorded.head
    replay(recorded, agent)
    assert recorded.head == head


def test_a_recorded_loop_replays_without_a_model(memory):
    model = ScriptedModel(
        [
            [("read_file", {"path": "a"}), ("read_file", {"path": "b"})],
            [("pay", {"amount": 5})],
            "paid",
        ]
    )
    tools = {"read_file": READ, "pay": PAY}
    with memory.open("loop") as s:
        loop(model, tools)(s)
    silent = ScriptedModel([])
    found = replay(memory.read("loop"), loop(silent, tools)).check()
    assert (found.answers, found.calls, found.result) == (3, 3, "paid")
    assert silent.asked == []


def test_a_replayed_program_reads_the_state_as_it_was_then(memory):
    def counting(s):
        for prompt in ("one", "two", "three"):
            with s.turn(prompt) as t:
                t.call(PAY.tool(), amount=s.facts().get("seen", 0))
                t.fact("seen", s.facts().get("seen", 0) + 1)

    with memory.open("counting") as s:
        counting(s)
    assert replay(memory.read("counting"), counting).check().calls == 3


def test_an_asynchronous_agent_can_be_replayed(tmp_path):
    async def main(s):
        async with s.turn("look") as t:
            return await asyncio.gather(*(t.call(READ.tool(effect="read"), path=p) for p in "abc"))

    async def record():
        async with stator.aio.connect(tmp_path / "a.db") as store, store.open("a") as s:
            await main(s)

    asyncio.run(record())
    with stator.connect(tmp_path / "a.db") as store:
        found = replay(store.read("a"), main).check()
    assert (found.calls, len(found.result)) == (3, 3)


def test_an_agent_can_be_replayed_from_inside_an_event_loop(recorded):
    async def same(s):
        async with s.turn("fix the login bug") as t:
            await t.call(READ.tool(effect="read"), path="auth.py")
            await t.call(PAY.tool(), amount=5)
            await t.decide("use JWT", topic="auth")

    async def main():
        return replay(recorded, same)

    assert asyncio.run(main()).check().calls == 2


def test_a_failed_call_fails_again_in_the_replay(memory):
    def brave(s):
        with s.turn("one") as t:
            try:
                t.call(Counted(raising(ValueError("no such file")), name="read_file"), path="x")
            except CallFailed as error:
                t.say(f"sorry: {error.outcome.error}")

    with memory.open("brave") as s:
        brave(s)
    assert replay(memory.read("brave"), brave).check().records == 1


def test_a_call_settled_later_is_in_doubt_again_in_the_replay(memory):
    def careful(s):
        with s.turn("one") as t:
            outcome = t.try_call(Counted(raising(TimeoutError()), name="pay"), amount=5)
            assert outcome.status == "in doubt"
            t.say("who knows")

    with memory.open("careful") as s:
        careful(s)
        s.in_doubt[0].settle("done")
    assert replay(memory.read("careful"), careful).check().calls == 1


def test_a_failed_model_request_fails_again_in_the_replay(memory):
    def patient(s):
        with s.turn("one") as t:
            try:
                t.model(model, model="m")
            except CallFailed:
                return t.model(model, model="m").content[0].text

    model = ScriptedModel([ValueError("overloaded"), "there you are"])
    with memory.open("patient") as s:
        patient(s)
    model = ScriptedModel([])
    found = replay(memory.read("patient"), patient).check()
    assert (found.answers, found.result) == (2, "there you are")


def test_an_interrupted_and_continued_turn_replays_as_one(store):
    def work(s, pay):
        with s.turn("one") as t:
            t.call(READ.tool(effect="read"), path="a")
            t.call(pay, amount=1)

    with driving(store) as s:
        work(s, Counted(dying, name="pay").tool(effect="idempotent"))
    with store.open("main") as s:
        work(s, PAY.tool(effect="idempotent"))
    found = replay(store.read("main"), lambda s: work(s, PAY.tool(effect="idempotent"))).check()
    assert found.calls == 2


def test_a_replay_of_an_interrupted_record_stops_at_its_end(store):
    with left_by(store, ZeroDivisionError) as (_, t):
        t.call(READ.tool(effect="read"), path="auth.py")
        raising(ZeroDivisionError())()

    def further(s):
        with s.turn("one") as t:
            t.call(READ.tool(effect="read"), path="auth.py")
            t.call(PAY.tool(), amount=5)

    found = replay(store.read("main"), further).check()
    assert found.ended == "the record ends in t1, where the program asks for a call of pay"
    assert PAY.runs == []


def test_a_call_that_awaited_approval_replays_before_and_after_its_approval(memory):
    rules = [stator.Rule(tool="pay", why="money")]

    def asking(s):
        with s.turn("one") as t:
            t.call(PAY.tool(), amount=5)
            t.say("paid")

    with pytest.raises(stator.ApprovalNeeded), memory.open("w", rules=rules) as s:
        asking(s)
    assert replay(memory.read("w"), asking, strict=True).check().calls == 0
    waiting = memory.read("w").calls()[0].call
    memory.contribute("w").approve(waiting)
    with memory.open("w", rules=rules) as s:
        asking(s)
    assert replay(memory.read("w"), asking, strict=True).check().records == 1


def test_turns_without_a_prompt_and_turns_with_a_key_are_matched(memory):
    def odd(s, prompt=None):
        with s.turn():
            pass
        with s.turn(prompt, key="nightly"):
            pass
        s.tag("done")

    with memory.open("odd") as s:
        odd(s)
    assert (
        replay(memory.read("odd"), lambda s: odd(s, "other words"), strict=True).check().turns == 2
    )


def test_children_are_replayed_with_their_parent(memory):
    def boss(s, amount=5):
        with s.turn("delegate") as t, s.child("helper") as c:
            with c.turn("help") as u:
                u.call(PAY.tool(), amount=amount)
                u.say("done")
            t.say("thanks")

    with memory.open("boss") as s:
        boss(s)
    assert replay(memory.read("boss"), boss).check().turns == 2
    found = replay(memory.read("boss"), lambda s: boss(s, amount=6))
    assert found.divergence is not None
    assert "pay was called with other arguments" in found.divergence.what


def test_nested_calls_of_tools_are_not_replayed(memory):
    inner = READ.tool(effect="read")
    outer = stator.tool(lambda path: inner(path=path), name="outer")

    def nested(s):
        with s.turn("one") as t:
            t.call(outer, path="a")

    with memory.open("nested") as s:
        nested(s)
    found = replay(memory.read("nested"), nested).check()
    assert found.calls == 1
    assert "called inside another tool" in str(found)


def test_a_fork_replays_its_own_turns(memory):
    with memory.open("login") as s:
        agent(s)
    memory.fork("login", as_name="other")
    with memory.open("other") as s:
        agent(s, amount=7)
    found = replay(memory.read("other"), lambda s: agent(s, amount=7)).check()
    assert found.turns == 1


def test_selected_turns_can_be_replayed(memory):
    for amount in (1, 2, 3):
        with memory.open("login") as s:
            agent(s, amount=amount)
    assert replay(memory.read("login"), lambda s: agent(s, amount=2), turns="t2").check().turns == 1
    with pytest.raises(BadPosition, match="there are 3"):
        replay(memory.read("login"), agent, turns="t9")


def test_a_list_of_commits_can_be_replayed(recorded):
    assert replay(list(recorded.log()), agent).check().calls == 2


def test_a_list_of_commits_of_several_sessions_needs_a_session_name(memory):
    with memory.open("login") as s:
        agent(s)
    memory.fork("login", as_name="other")
    with memory.open("other") as s:
        agent(s, amount=7)
    fork = list(memory.read("other").log())
    assert replay(fork, lambda s: agent(s, amount=7)).check().name == "other"
    with memory.open("login") as s:
        agent(s)
    own = [commit for commit in fork if commit.session == memory.read("other").id]
    both = [list(memory.read("login").log()), own]
    with pytest.raises(Ambiguous, match="several sessions"):
        replay(both, agent)
    assert replay(both, lambda s: agent(s, amount=7), session="other").ok


# -- diverged -------------------------------------------------------------------------------------


def test_different_arguments_are_explained_with_a_diff_and_the_commit(recorded):
    found = replay(recorded, lambda s: agent(s, amount=6))
    at = found.divergence
    assert at is not None
    assert (at.turn, at.place) == (1, 2)
    assert at.expected == {"tool": "pay", "arguments": {"amount": 5}}
    assert at.got == {"tool": "pay", "arguments": {"amount": 6}}
    assert '-  "amount": 5\n+  "amount": 6' in at.diff
    assert recorded.commit(f"@{at.seq}").id == at.commit
    assert found.calls == 1


def test_another_order_of_calls_is_a_divergence(recorded):
    found = replay(recorded, lambda s: agent(s, order=-1))
    assert found.divergence is not None
    assert "asks for a call of pay, which the record has later" in found.divergence.what


def test_a_missing_call_is_a_divergence(recorded):
    def lazy(s):
        with s.turn("fix the login bug") as t:
            t.call(READ.tool(effect="read"), path="auth.py")

    found = replay(recorded, lazy)
    assert found.divergence is not None
    assert "never asked for a call of pay" in found.divergence.what


def test_an_extra_call_is_a_divergence(recorded):
    def eager(s):
        with s.turn("fix the login bug") as t:
            t.call(READ.tool(effect="read"), path="auth.py")
            t.call(PAY.tool(), amount=5)
            t.call(PAY.tool(), amount=5)

    found = replay(recorded, eager)
    assert found.divergence is not None
    assert "nothing more is on record" in found.divergence.what
    assert PAY.runs == []


def test_a_different_prompt_is_a_divergence(recorded):
    def other(s):
        with s.turn("break the login"):
            pass

    found = replay(recorded, other)
    assert found.divergence is not None
    assert found.divergence.diff.endswith("-fix the login bug\n+break the login")


def test_an_extra_or_a_missing_turn_is_a_divergence(recorded):
    def twice(s):
        agent(s)
        agent(s)

    for program, what in (
        (twice, "has no further turn"),
        (lambda s: None, "never began this turn"),
    ):
        found = replay(recorded, program)
        assert found.divergence is not None
        assert what in found.divergence.what


def test_different_arguments_under_the_same_key_are_a_divergence(memory):
    def keyed(s, amount=5):
        with s.turn("pay") as t:
            t.call(PAY.tool().using(key="invoice 7"), amount=amount)

    with memory.open("keyed") as s:
        keyed(s)
    assert replay(memory.read("keyed"), keyed).ok
    found = away(replay(memory.read("keyed"), lambda s: keyed(s, 5000)))
    assert found.what == "pay was called with other arguments, under the key it had"
    assert '+  "amount": 5000' in found.diff


@pytest.mark.parametrize(
    ("said", "what"), [(["other"], "says something else"), ([], "not made now")]
)
def test_a_different_or_missing_message_is_a_divergence(memory, said, what):
    def talk(s, said=("done",)):
        with s.turn("go") as t:
            for text in said:
                t.say(text)

    with memory.open("talk") as s:
        talk(s)
    assert replay(memory.read("talk"), talk).ok
    assert what in away(replay(memory.read("talk"), lambda s: talk(s, said))).what


def test_a_changed_model_request_is_reported_and_fails_only_in_strict_mode(memory):
    def ask(model):
        def drive(s):
            with s.turn("go") as t:
                t.model(answers, model=model, messages=t.messages("anthropic"))

        return drive

    answers = ScriptedModel(["done"])
    with memory.open("asked") as s:
        ask("small")(s)
    assert replay(memory.read("asked"), ask("small"), strict=True).ok
    found = replay(memory.read("asked"), ask("large"))
    assert found.ok
    assert [one.what for one in found.differences] == ["the model was asked otherwise"]
    assert not replay(memory.read("asked"), ask("large"), strict=True).ok


@pytest.mark.parametrize("how", ["retry", "rerun"])
def test_no_tool_runs_in_retries_and_reruns_during_a_replay(memory, how):
    def branching(s):
        with s.turn("pay") as t:
            t.call(PAY.tool(), amount=1)
        if how == "rerun":
            s.rerun([PAY.tool()], effects="run")
            return
        with s.retry("t1", effects="run") as t:
            t.call(PAY.tool(), amount=1)

    with memory.open("branching") as s:
        branching(s)
    PAY.runs.clear()
    found = replay(memory.read("branching"), branching)
    assert "in another session: the replay cannot go on" in away(found).what
    assert PAY.runs == []


def test_a_program_that_rewinds_can_be_replayed(memory):
    def back(s, to="t1", once=True):
        for number in (1, 2):
            with s.turn(f"ask {number}") as t:
                t.fact("n", number)
        if once:
            assert s.rewind(to).turns == [2]
            assert s.facts() == {"n": 1}
        with s.turn("on") as t:
            assert t.number == 3
            assert "ask 2" not in str(t.messages("plain"))

    with memory.open("back") as s:
        back(s)
    assert replay(memory.read("back"), back, strict=True).check().turns == 3
    to_nothing = replay(memory.read("back"), lambda s: s.rewind("t1"))
    assert away(to_nothing).what == "the program goes back to t1, and did not then"
    elsewhere = replay(memory.read("back"), lambda s: back(s, to="@4"))
    assert "the program goes back to @4 (@4), and then to @" in away(elsewhere).what
    never = replay(memory.read("back"), lambda s: back(s, once=False))
    assert "and does not now" in away(never).what


def test_turns_rewound_by_others_are_not_replayed(memory):
    def ask(s, *numbers):
        for number in numbers:
            with s.turn(f"ask {number}") as t:
                t.call(READ.tool(effect="read"), path=f"{number}")

    with memory.open("main") as s:
        ask(s, 1, 2, 3)
    memory.contribute("main").rewind("t1")
    with memory.open("main") as s:
        ask(s, 4)
    assert replay(memory.read("main"), lambda s: ask(s, 1, 4), strict=True).check().turns == 2
    assert replay(memory.read("main"), lambda s: ask(s, 2), turns="t2").ok


def test_an_agent_that_raises_unexpectedly_diverges(recorded):
    def broken(s):
        agent(s)
        raise KeyError("oops")

    found = replay(recorded, broken)
    assert found.divergence is not None
    assert found.divergence.what == "the agent raised KeyError: 'oops'"


def test_an_agent_cannot_swallow_its_divergence(recorded):
    def stubborn(s):
        with s.turn("fix the login bug") as t:
            for _ in range(3):
                try:
                    t.call(PAY.tool(), amount=99)
                except Exception:
                    continue

    assert not replay(recorded, stubborn).ok
    assert PAY.runs == []


def test_a_changed_decision_is_reported_and_fails_only_in_strict_mode(recorded):
    found = replay(recorded, lambda s: agent(s, topic="login")).check()
    assert [difference.what for difference in found.differences] == [
        "a record of kind decision says something else"
    ]
    strict = replay(recorded, lambda s: agent(s, topic="login"), strict=True)
    with pytest.raises(Diverged, match="says something else"):
        strict.check()


def test_a_missing_decision_is_reported(recorded):
    def silent(s):
        with s.turn("fix the login bug") as t:
            t.call(READ.tool(effect="read"), path="auth.py")
            t.call(PAY.tool(), amount=5)

    found = replay(recorded, silent).check()
    assert "was made then and is not made now" in found.differences[0].what


# -- what was not captured ------------------------------------------------------------------------

KEY = "sk-ant-api03-" + "Zq7" * 31


def test_a_redacted_secret_is_not_compared_and_the_report_notes_it(memory):
    def login(s, key=KEY, user="ann"):
        with s.turn("log in") as t:
            t.call(PAY.tool(), token=key, user=user)

    with memory.open("secret") as s:
        login(s)
    found = replay(memory.read("secret"), lambda s: login(s, key="sk-ant-api03-" + "Xy9" * 31))
    assert "a secret was taken out" in str(found.check())
    assert not replay(memory.read("secret"), lambda s: login(s, user="bob")).ok


def test_a_replay_stops_where_content_was_erased(memory):
    with memory.open("login") as s:
        agent(s)
        outcome = next(commit for commit in s.log() if commit.kind == "outcome")
        s.erase(f"@{outcome.seq}", fields=["output"])
    found = replay(memory.read("login"), agent)
    assert found.divergence is not None
    assert found.divergence.what.startswith("what read_file returned was erased by")
    assert "read_file, result: erased" in str(found)


def test_a_child_missing_from_the_record_is_a_divergence(memory):
    def boss(s):
        with s.turn("delegate"), s.child("helper") as c, c.turn("help"):
            pass

    with memory.open("boss") as s:
        boss(s)
    found = replay(list(memory.read("boss").log()), boss)
    assert found.divergence is not None
    assert "'helper' is not in the record" in found.divergence.what


def test_an_asynchronous_agent_that_diverges_is_stopped(recorded):
    async def other(s):
        async with s.turn("fix the login bug") as t:
            await asyncio.gather(*(t.call(PAY.tool(), amount=n) for n in range(5)))

    found = replay(recorded, other)
    assert found.divergence is not None
    assert PAY.runs == []


def test_the_report_always_lists_what_is_never_captured(recorded):
    assert "clock, randomness, environment" in str(replay(recorded, agent))


def test_a_report_contains_no_terminal_control_characters(memory):
    def hostile(s, text):
        with s.turn("one") as t:
            t.call(PAY.tool(), text=text)

    with memory.open("x") as s:
        hostile(s, "\x1b]0;owned\x07\u202e\ud800")
    report = str(replay(memory.read("x"), lambda s: hostile(s, "\x9b31m")))
    assert all(line.isprintable() for line in report.split("\n"))


# -- the helpers ----------------------------------------------------------------------------------


def test_sleeping_moves_a_fake_clock():
    clock = FakeClock()
    store = memory_store(clock)
    before = clock()
    store.context.sleep(60)
    assert clock() - before == 60_000_000
    assert store.context.monotonic() == 60


def test_a_scripted_tool_returns_its_results_in_order_and_no_more(memory):
    tool = ScriptedTool("pay", [{"id": 1}, stator.InDoubt("who knows")])
    with memory.open("x") as s, s.turn("pay") as t:
        assert t.call(tool, amount=1) == {"id": 1}
        with pytest.raises(InDoubt):
            t.call(tool, amount=2)
    with pytest.raises(AssertionError, match="more than 2 times"):
        tool(amount=3)
    assert tool.calls == [{"amount": 1}, {"amount": 2}]


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-chat"])
def test_a_scripted_model_can_answer_in_every_dialect(memory, provider):
    model = ScriptedModel([[("pay", {"amount": 5})], "paid"], provider=provider)
    with memory.open("x") as s, s.turn("pay") as t:
        r = t.model(model, model="m")
        (told,) = t.results(r, {"pay": PAY})
        assert "re_1" in str(told)
        t.model(model, model="m", messages=t.messages(provider))
        with pytest.raises(CallFailed, match="more than 2 times"):
            t.model(model, model="m")
    assert model.left == 0
