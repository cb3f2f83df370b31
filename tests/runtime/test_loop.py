"""The agent loop: model requests, tool calls, streams, sub-agents, other drivers."""

from __future__ import annotations

import asyncio
import threading

import msgspec
import pytest

import stator
import stator.aio
from runtime.support import (
    Counted,
    Died,
    Model,
    die,
    driving,
    kinds,
    left_by,
    raising,
    says,
    statuses,
)
from stator.errors import (
    ApprovalNeeded,
    BadTurn,
    Busy,
    CallFailed,
    CallTimeout,
    Diverged,
    InDoubt,
    InvalidInput,
    LeaseLost,
)
from stator.runtime.driving import approvals


@pytest.fixture
def turn(memory):
    with memory.open("main") as session, session.turn("one") as t:
        yield t


def entries(session):
    return [c for c in session.log() if c.kind == "entry"]


# -- model requests -------------------------------------------------------------------------------


def test_an_answer_and_its_outcome_are_recorded_together(turn):
    turn.model(Model(says()), model="m")
    assert kinds(turn.session)[-3:] == ["call", "outcome", "entry"]
    intent, outcome, entry = list(turn.session.log())[-3:]
    assert intent.tool == outcome.tool == "model"
    assert intent.call == outcome.call == entry.call
    assert entry.value("usage")["tokens"] == 15


def test_an_answer_has_the_attributes_of_the_sdk_object(turn):
    r = turn.model(Model(says(("act", {"n": 1}))))
    assert (r.stop_reason, r["content"][1]["input"], r.content[1].name) == (
        "tool_use",
        {"n": 1},
        "act",
    )


def test_a_model_request_is_retried_like_any_read(turn):
    model = Model(TimeoutError(), ConnectionError(), says())
    turn.model(model)
    assert (model.asked, statuses(turn.session)) == (3, ["timeout", "error", "ok"])


def test_a_failed_model_request_raises(turn):
    with pytest.raises(CallFailed, match="bad key"):
        turn.model(Model(ValueError("bad key")))
    assert entries(turn.session) == []


def test_a_failed_model_request_is_repeated_by_a_rerun(memory):
    model = Model(ValueError("bad key"), says())
    with left_by(memory, CallFailed) as (_, t):
        t.model(model)
    with driving(memory) as s, s.turn("one") as t:
        t.model(model)
        assert len(entries(s)) == 1


def test_the_messages_of_a_model_request_are_not_recorded_in_full(turn):
    turn.model(Model(says()), model="m", messages=["x" * 10_000], temperature=0.5)
    intent = next(c for c in turn.session.log() if c.kind == "call")
    assert intent.value("input") == {"model": "m", "messages": "1 item", "temperature": 0.5}


def test_a_response_passed_to_reply_is_recorded_once(memory):
    act = Counted()
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            t.results(t.reply(says(("act", {"n": 1}))), {"act": act.tool()})
            assert len(entries(s)) == 1
            raise Died
    assert len(act.runs) == 1


def test_results_records_an_unrecorded_response_first(turn):
    turn.results(says(("act", {"n": 1})), {"act": Counted().tool()})
    assert len(entries(turn.session)) == 1


# -- tools ----------------------------------------------------------------------------------------

OFFERED = [{"name": "look", "input_schema": {}}, {"name": "act", "input_schema": {}}]


def test_the_offered_tools_are_recorded_once(memory):
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            t.model(Model(says()), tools=OFFERED)
            t.model(Model(says()), tools=list(OFFERED))
            assert kinds(s).count("tools") == 1
            raise Died


def test_a_changed_tool_definition_is_recorded(turn):
    turn.model(Model(says()), tools=OFFERED)
    turn.model(Model(says()), tools=[OFFERED[0], {"name": "act", "input_schema": {"x": 1}}])
    assert kinds(turn.session).count("tools") == 2
    (last,) = [c for c in turn.session.log(newest_first=True) if c.kind == "tools"][:1]
    assert [tool["name"] for tool in last.value("input")] == ["act"]


def test_a_removed_tool_is_recorded_as_unavailable(turn):
    turn.model(Model(says()), tools=OFFERED)
    turn.model(Model(says()), tools=OFFERED[:1])
    records = {e.record.name: e.record.available for e in turn.session.entries("tools")}
    assert records["act"] is False


def test_the_model_gets_an_error_for_an_unknown_tool(turn):
    (told,) = turn.results(turn.model(Model(says(("fly", {})))), {})
    assert told["is_error"]
    assert "there is no tool 'fly'" in str(told["content"])


def test_the_model_gets_an_error_for_arguments_that_do_not_parse(turn):
    act = Counted()
    response = {
        "choices": [
            {
                "message": {
                    "role": "assistant",
                    "tool_calls": [
                        {
                            "id": "x1",
                            "type": "function",
                            "function": {"name": "act", "arguments": '{"n": '},
                        }
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ]
    }
    (told,) = turn.results(turn.model(Model(response)), {"act": act.tool()})
    assert (told["role"], told["tool_call_id"], act.runs) == ("tool", "x1", [])


def test_the_model_gets_a_failure_and_the_next_call_runs(turn):
    act, other = Counted(raising(ValueError("no"))), Counted(name="other")
    r = turn.model(Model(says(("act", {}), ("other", {}))))
    told = turn.results(r, {"act": act.tool(), "other": other.tool()})
    assert [bool(block.get("is_error")) for block in told] == [True, False]


def test_a_call_in_doubt_is_returned_to_the_model_or_raised(turn):
    for mode in ("tell", "raise"):
        act = Counted(raising(InDoubt("lost")))
        r = turn.model(Model(says((f"act_{mode}", {}))))
        if mode == "tell":
            (told,) = turn.results(r, {f"act_{mode}": act.tool()}, in_doubt=mode)
            assert "unknown" in str(told["content"])
        else:
            with pytest.raises(InDoubt):
                turn.results(r, {f"act_{mode}": act.tool()}, in_doubt=mode)


def test_an_unknown_in_doubt_mode_is_refused(turn):
    with pytest.raises(InvalidInput, match="tell or raise"):
        turn.results(turn.model(Model(says())), {}, in_doubt="ignore")


def test_dispatch_can_be_a_function_of_name_and_arguments(turn):
    seen = []
    r = turn.model(Model(says(("act", {"n": 1}))))
    turn.results(r, lambda name, given: seen.append((name, given)), effects={"act": "read"})
    assert seen == [("act", {"n": 1})]
    intent = [c for c in turn.session.log(load=False) if c.kind == "call"][-1]
    assert (intent.tool, intent.effect) == ("act", "read")


def test_effects_can_be_options_of_a_tool(turn):
    r = turn.model(Model(says(("act", {"n": 1}))))
    options = {"act": {"effect": "write", "approve": True}}
    with pytest.raises(ApprovalNeeded):
        turn.results(r, lambda name, given: None, effects=options)


def test_calls_that_need_no_approval_run_before_the_run_stops(memory):
    act, other = Counted(), Counted(name="other")
    model = Model(says(("act", {}), ("other", {})))
    tools = {"act": act.tool(approve=True), "other": other.tool()}
    with left_by(memory, ApprovalNeeded) as (_, t):
        t.results(t.model(model), tools)
    assert (len(act.runs), len(other.runs)) == (0, 1)
    (waiting,) = approvals.waiting(memory.port, now=0)
    approvals.approve(memory.port, memory.context, waiting.call, by="local:boss")
    with driving(memory) as s, s.turn("one") as t:
        told = t.results(t.model(model), tools)
    assert not any(block.get("is_error") for block in told)
    assert (len(act.runs), len(other.runs), model.asked) == (1, 1, 1)


@pytest.mark.parametrize("api", ["threads", "gather"])
def test_calls_of_one_answer_can_run_in_parallel(memory, api):
    both = threading.Barrier(2, timeout=60)

    def wait():
        both.wait()
        return "met"

    r = says(("a", {}), ("b", {}))
    tools = {name: stator.tool(wait, name=name, effect="read") for name in ("a", "b")}
    if api == "threads":
        with memory.open("main") as s, s.turn("one") as t:
            told = t.results(t.model(Model(r)), tools, parallel=True)
    else:

        async def go():
            store = stator.aio.AsyncStore(memory)
            async with store.open("main") as s, s.turn("one") as t:
                return await t.results(await t.model(Model(r)), tools, parallel=True)

        told = asyncio.run(go())
    assert [block["tool_use_id"] for block in told] == ["tu_a_0", "tu_b_1"]


def test_an_interrupt_in_one_of_several_parallel_calls_propagates(turn):
    tools = {"a": Counted(raising(KeyboardInterrupt())).tool(), "b": Counted(name="b").tool()}
    r = turn.model(Model(says(("a", {}), ("b", {}))))
    with pytest.raises(KeyboardInterrupt):
        turn.results(r, tools, parallel=True)
    assert sorted(statuses(turn.session)[1:]) == ["in doubt", "ok"]


# -- wrapping another loop ------------------------------------------------------------------------


def test_a_wrapped_dispatch_records_the_call_and_returns_its_value(memory):
    act = Counted(value=[1])
    with driving(memory) as s:
        run = s.wrap({"act": act}, effects={"act": "write"})
        with s.turn("one"):
            assert run("act", {"n": 1}) == [1]
        assert statuses(s) == ["ok"]


def test_a_wrapped_dispatch_is_replayed(memory):
    act = Counted()
    for _ in range(2):
        with driving(memory) as s:
            run = s.wrap(lambda name, given: act(**given))
            with s.turn("one"):
                run("act", {"n": 1})
                raise Died
    assert len(act.runs) == 1


def test_a_wrapped_dispatch_returns_a_call_in_doubt(memory):
    with driving(memory) as s:
        run = s.wrap({"act": Counted(raising(InDoubt("lost")))})
        with s.turn("one"):
            assert run("act", {})["status"] == "in doubt"


def test_a_wrapped_dispatch_can_raise_in_doubt(memory):
    with driving(memory) as s:
        run = s.wrap({"act": Counted(raising(InDoubt("lost")))}, in_doubt="raise")
        with s.turn("one"), pytest.raises(InDoubt):
            run("act", {})


class OutOfStock(Exception):
    """A tool's own error."""


@pytest.mark.parametrize(
    "error", [ValueError("no"), OutOfStock("no"), KeyError("no"), TimeoutError("no"), OSError("no")]
)
def test_a_wrapped_dispatch_raises_what_its_tool_raised(memory, error):
    with driving(memory) as s:
        run = s.wrap(
            {"act": Counted(raising(error))}, effects={"act": {"effect": "read", "attempts": 1}}
        )
        with s.turn("one"):
            with pytest.raises(type(error)) as caught:
                run("act", {})
            (call,) = s.calls()
    assert caught.value is error
    assert call.status in ("error", "timeout")


@pytest.mark.parametrize("error", [ValueError, OutOfStock, ConnectionResetError])
def test_a_program_run_again_catches_a_failure_of_a_wrapped_tool_as_before(memory, error):
    """The failure comes from the record then, where the exception itself is not."""
    act = Counted(raising(error("no")))
    caught = []
    for again in (False, True):
        with driving(memory) as s:
            run = s.wrap({"act": act}, effects={"act": {"effect": "read", "attempts": 1}})
            with s.turn("one") as t:
                try:
                    run("act", {})
                except (ConnectionError, error) as known:
                    caught.append(str(known))
                t.fact("tried", True)
                if not again:
                    raise Died
    assert len(act.runs) == 1
    assert caught == ["no", "no"]


def test_a_call_that_ran_out_of_time_is_a_timeout_of_the_call(memory):
    with driving(memory) as s:
        slow = stator.tool(
            lambda: threading.Event().wait(30),
            name="slow",
            effect="read",
            timeout_s=0.01,
            attempts=1,
        )
        run = s.wrap({"slow": slow})
        with s.turn("one"), pytest.raises(CallTimeout):
            run("slow", {})


# -- streams --------------------------------------------------------------------------------------

CHUNKS = [
    {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hel"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]


def test_a_stream_passes_through_and_records_one_entry(turn):
    stream = turn.stream(lambda: iter(CHUNKS))
    assert list(stream) == CHUNKS
    assert stream.reply.content[0].text == "hello"
    (entry,) = entries(turn.session)
    assert entry.status == ""
    assert statuses(turn.session) == ["ok"]


def test_a_complete_stream_is_replayed_without_a_model_request(memory):
    asked = []

    def ask():
        asked.append(1)
        return iter(CHUNKS)

    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            stream = t.stream(ask)
            passed = list(stream)
            assert stream.reply.content[0].text == "hello"
            raise Died
    assert (passed, len(asked)) == ([], 1)


def test_a_broken_stream_is_recorded_as_partial_and_never_shown(memory):
    def breaks():
        yield from CHUNKS[:3]
        raise ConnectionError("gone")

    with left_by(memory, ConnectionError) as (s, t):
        list(t.stream(breaks))
    view = memory.read("main")
    (entry,) = entries(view)
    assert (entry.status, statuses(view)) == ("partial", ["error"])
    with driving(memory) as s, s.turn("one") as t:
        assert [message["role"] for message in t.messages("anthropic")] == ["user"]


def test_a_broken_stream_is_requested_again_by_a_rerun(memory):
    def breaks():
        yield from CHUNKS[:3]
        raise ConnectionError("gone")

    with left_by(memory, ConnectionError) as (_, t):
        list(t.stream(breaks))
    with driving(memory) as s, s.turn("one") as t:
        stream = t.stream(lambda: iter(CHUNKS))
        assert list(stream) == CHUNKS
        assert stream.reply.content[0].text == "hello"


def test_a_stream_that_was_retried_is_replayed_with_its_final_content(memory):
    def breaks():
        yield from CHUNKS[:3]
        raise ConnectionError("gone")

    asked = []
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            for source in (breaks, lambda: iter(CHUNKS)):
                stream = t.stream(source)
                try:
                    list(stream)
                except ConnectionError:
                    asked.append(source)
                else:
                    break
            assert stream.reply.content[0].text == "hello"
            raise Died
    assert len(asked) == 1


def test_a_given_iterator_is_recorded_once_as_a_stream(memory):
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            stream = t.stream(iter(CHUNKS))
            assert list(stream) == CHUNKS
            assert stream.reply.content[0].text == "hello"
            assert len(entries(s)) == 1
            raise Died


def test_a_given_iterator_does_not_replace_another_recorded_answer(memory):
    model = Model(says(text="asked"))
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            stream = t.stream(iter(CHUNKS))
            list(stream)
            assert stream.reply.content[0].text == "hello"
            assert t.model(model).content[0].text == "asked"
            raise Died
    assert model.asked == 1


def test_an_incomplete_stream_is_replayed_if_the_program_continued_after_it(memory):
    asked = []

    def ask():
        asked.append(1)
        return iter(CHUNKS[:4])

    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            stream = t.stream(ask)
            list(stream)
            assert stream.reply.content[0].text == "hello"
            raise Died
    assert len(asked) == 1


def test_a_stream_closed_early_is_recorded_as_partial(turn):
    stream = iter(turn.stream(lambda: iter(CHUNKS)))
    next(stream)
    stream.close()
    assert statuses(turn.session) == ["cancelled"]
    assert entries(turn.session)[0].status == "partial"


def test_a_stream_without_its_last_chunks_is_recorded_as_partial(turn):
    list(turn.stream(lambda: iter(CHUNKS[:4])))
    assert entries(turn.session)[0].status == "partial"


def test_an_async_stream_is_recorded_the_same_way(memory):
    async def go():
        async def ask():
            async def chunks():
                for chunk in CHUNKS:
                    yield chunk

            return chunks()

        store = stator.aio.AsyncStore(memory)
        async with store.open("main") as s, s.turn("one") as t:
            stream = t.stream(ask)
            passed = [chunk async for chunk in stream]
            return passed, stream.reply.content[0].text

    assert asyncio.run(go()) == (CHUNKS, "hello")


# -- sub-agents -----------------------------------------------------------------------------------


def test_the_parent_records_a_child_before_it_starts_and_after_it_ends(memory):
    with driving(memory) as s, s.turn("one") as t:
        with s.child("research") as c, c.turn("dig"):
            (entry,) = s.entries("children")
            assert (entry.record.session, entry.record.status) == (c.id, "started")
        (entry,) = s.entries("children")
        assert entry.record.status == "paused"
        assert t.number == 1


def test_a_child_that_was_interrupted_continues(memory):
    act = Counted()
    seen = []
    for _ in range(2):
        with driving(memory) as s, s.turn("one"):
            child = s.child("research")
            t = child.turn("dig")
            t.call(act.tool())
            seen.append((child.id, t.continued))
            if len(seen) == 1:
                die(child)
                raise Died
            t.end()
            child.pause()
    assert seen[0][0] == seen[1][0]
    assert (seen[1][1], len(act.runs)) == (True, 1)


def test_an_ended_child_is_reused_when_its_parent_is_rerun(memory):
    act = Counted()
    for _ in range(2):
        with driving(memory) as s, s.turn("one"):
            with s.child("research") as c, c.turn("dig") as t:
                t.call(act.tool())
            raise Died
    assert len(act.runs) == 1


def test_a_child_opened_in_a_later_turn_continues_with_new_turns(memory):
    act = Counted()
    with driving(memory) as s:
        for prompt in ("one", "two"):
            with s.turn(prompt), s.child("research") as c, c.turn("dig") as t:
                t.call(act.tool())
    assert len(act.runs) == 2


def test_a_child_opened_twice_in_a_turn_is_reused_both_times(memory):
    act = Counted()
    for _ in range(2):
        with driving(memory) as s, s.turn("one"):
            for part in ("a", "b"):
                with s.child("research") as c, c.turn(part) as t:
                    t.call(act.tool(), part=part)
            raise Died
    assert len(act.runs) == 2


def test_a_child_can_be_opened_only_inside_a_turn(memory):
    with memory.open("main") as s, pytest.raises(BadTurn):
        s.child("research")
    assert kinds(s).count("child") == 0


# -- other drivers --------------------------------------------------------------------------------


def test_opening_a_driven_session_names_its_driver(memory):
    with memory.open("main"), pytest.raises(Busy) as caught:
        memory.open("main")
    assert caught.value.holder.pid == 1


def test_a_driven_session_can_be_read(memory):
    with memory.open("main") as s, memory.open("main", busy="read") as view:
        assert view.id == s.id
        assert not hasattr(view, "turn")


def test_a_driven_session_can_be_read_with_asyncio(memory):
    async def go():
        store = stator.aio.AsyncStore(memory)
        async with store.open("main") as s, store.open("main", busy="read") as view:
            return view.id == s.id

    assert asyncio.run(go())


def test_a_fork_of_a_driven_session_can_be_driven_at_the_same_time(memory):
    with memory.open("main") as s:
        with s.turn("one"):
            pass
        with memory.open("main", busy="fork") as fork:
            assert fork.id != s.id
            with fork.turn("two") as t:
                assert t.number == 2


def test_opening_with_busy_wait_waits_until_the_session_is_free(memory):

    first = memory.open("main")
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            first.pause()

    memory.context = msgspec.structs.replace(memory.context, sleep=sleep)
    with memory.open("main", busy="wait") as s:
        assert s.id == first.id
    assert len(slept) == 3


def test_a_displaced_driver_can_record_nothing(memory):
    act = Counted()
    gone = memory.open("main")
    t = gone.turn("one")
    with memory.open("main", busy="take"), pytest.raises(LeaseLost):
        t.call(act.tool())
    assert act.runs == []


def test_a_fork_continues_nothing(memory):
    with driving(memory) as s:
        s.turn("one")
        raise Died
    memory.fork("main", as_name="other")
    with memory.open("other") as s, s.turn("one") as t:
        assert (t.continued, t.reused) == (False, False)


def test_an_ended_turn_refuses_a_call_it_did_not_record(memory):
    with driving(memory) as s:
        with s.turn("one") as t:
            t.model(Model(says(("act", {}))))
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        r = t.model(Model())
        with pytest.raises(Diverged):
            t.results(r, {"act": Counted().tool()})


def test_a_finished_stream_of_plain_text_is_complete(memory):
    with memory.open("main") as s, s.turn("one") as t:
        assert list(t.stream(iter(["all ", "done"]))) == ["all ", "done"]
        assert t.messages("plain")[-1]["content"] == "all done"


def test_a_stream_cancelled_while_its_intent_is_written_has_an_outcome(memory):
    entered, go_on = threading.Event(), threading.Event()
    append = memory.port.append

    def slow(session, drafts, **options):
        if any(draft.kind == "call" for draft in drafts):
            entered.set()
            go_on.wait(60)
        return append(session, drafts, **options)

    memory.port.append = slow

    async def go():
        async with stator.aio.AsyncStore(memory).open("main") as s, s.turn("one") as t:

            async def listen():
                async for _ in t.stream(lambda: iter(["never"])):
                    pass

            task = asyncio.ensure_future(listen())
            await asyncio.get_running_loop().run_in_executor(None, entered.wait, 60)
            task.cancel()
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(go())
    ends = [c for c in memory.read("main").log() if c.kind == "outcome"]
    assert [(c.tool, c.status) for c in ends] == [("model", "cancelled")]
