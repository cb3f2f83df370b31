"""The life of a call: the order of its effects, and its outcome."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stator
import stator.aio
from runtime.support import Counted, Died, driving, kinds, left_by, raising, statuses
from stator.errors import (
    ApprovalNeeded,
    BadType,
    CallDenied,
    CallFailed,
    CallTimeout,
    InDoubt,
    NotDone,
    Paused,
)
from stator.model.calls import program as programs
from stator.model.calls.backoff import Policy
from stator.model.calls.life import (
    Asked,
    Await,
    Granted,
    Note,
    Pause,
    Refused,
    RunTool,
    Stop,
    ToolRaised,
    ToolReturned,
    life,
)
from stator.runtime.driving import approvals, lifecycle

# -- laws -----------------------------------------------------------------------------------------

ERRORS = [
    ValueError("no"),
    TimeoutError("slow"),
    ConnectionError("gone"),
    NotDone("not yet"),
    InDoubt("who knows"),
    KeyboardInterrupt(),
]
ASKED = st.builds(
    Asked,
    call=st.just("c_" + "0" * 32),
    tool=st.just("act"),
    effect=st.sampled_from(["read", "idempotent", "write"]),
    given=st.just({"n": 1}),
    attempt=st.integers(1, 3),
    gate=st.sampled_from(["", "", "ask", "deny"]),
    awaiting=st.booleans(),
)
POLICIES = st.builds(Policy, attempts=st.integers(1, 5), deadline_s=st.none() | st.floats(0.5, 5))
WORLD = st.lists(st.sampled_from([None, *ERRORS, object()]), min_size=6, max_size=6)
"""What the tool does at each attempt: returns, raises, or gives what cannot be recorded."""
ANSWERS = st.sampled_from([Granted(), Refused("no"), None])


def live(asked, policy, world, answer, stop_at):
    """Run the life of a call; returns its effects in order and its end."""
    steps = life(asked, policy)
    effects: list[Any] = []
    reply: Any = None
    clock, runs, notes = 0.0, 0, 0
    try:
        while True:
            effect = steps.send(reply)
            effects.append(effect)
            reply = None
            if isinstance(effect, RunTool):
                did, began = world[runs], clock
                runs, clock = runs + 1, clock + 1
                failed = isinstance(did, BaseException)
                reply = (ToolRaised if failed else ToolReturned)(did, clock, began)
            elif isinstance(effect, Await):
                reply = answer
            elif isinstance(effect, Note) and effect.fields.get("status") == "started":
                notes += 1
                if notes == stop_at:
                    reply = Stop(Paused("asked to", reason="user"), "pause requested")
    except StopIteration as end:
        return effects, end.value
    except (ApprovalNeeded, BadType, Paused) as error:
        return effects, error


LIVES = st.builds(
    lambda asked, policy, world, answer, stop: (
        asked,
        policy,
        *live(asked, policy, world, answer, stop),
    ),
    ASKED,
    POLICIES,
    WORLD,
    ANSWERS,
    st.sampled_from([0, 0, 1, 2]),
)


@given(LIVES)
def test_a_tool_runs_only_after_a_durable_intent_of_that_attempt(lived):
    _, _, effects, _ = lived
    for before, effect in zip([None, *effects], effects, strict=False):
        if isinstance(effect, RunTool):
            assert isinstance(before, Note)
            assert before.fields["status"] == "started"
            assert before.fields["attempt"] == effect.attempt


@given(LIVES)
def test_every_intent_has_exactly_one_outcome(lived):
    asked, _, effects, ended = lived
    begun = [
        effect.fields["attempt"]
        for effect in effects
        if isinstance(effect, Note) and effect.kind in ("call", "approval")
        if effect.kind == "call" or (asked.awaiting and asked.gate == "ask")
    ]
    outcomes = [
        effect.fields["attempt"]
        for effect in effects
        if isinstance(effect, Note) and effect.kind == "outcome"
    ]
    if isinstance(ended, ApprovalNeeded):
        assert outcomes == []
    elif asked.gate == "deny" and asked.awaiting:
        assert outcomes == [asked.attempt]
    else:
        assert outcomes == begun


@given(LIVES)
def test_attempts_count_up_and_stay_within_the_policy(lived):
    asked, policy, effects, _ = lived
    runs = [effect.attempt for effect in effects if isinstance(effect, RunTool)]
    assert runs == list(range(asked.attempt, asked.attempt + len(runs)))
    assert len(runs) <= policy.attempts


@given(LIVES)
def test_nothing_runs_after_a_call_is_in_doubt(lived):
    _, _, effects, _ = lived
    doubted = False
    for effect in effects:
        assert not (doubted and isinstance(effect, (RunTool, Pause)))
        doubted = doubted or (isinstance(effect, Note) and effect.fields["status"] == "in doubt")


@given(LIVES)
def test_a_write_is_repeated_only_if_it_certainly_did_not_happen(lived):
    asked, _, effects, _ = lived
    if asked.effect != "write":
        return
    for before, effect in itertools.pairwise(effects):
        if isinstance(effect, Pause):
            assert before.fields["cause"] == "not done"


@given(LIVES)
def test_a_read_or_idempotent_call_is_in_doubt_only_if_its_tool_raises_in_doubt(lived):
    asked, _, effects, _ = lived
    if asked.effect == "write":
        return
    causes = [
        effect.fields["cause"]
        for effect in effects
        if isinstance(effect, Note) and effect.fields["status"] == "in doubt"
    ]
    assert set(causes) <= {"the tool does not know"}


@given(LIVES)
def test_a_call_that_needs_approval_runs_only_after_it(lived):
    asked, _, effects, _ = lived
    ran = any(isinstance(effect, RunTool) for effect in effects)
    granted = any(isinstance(effect, Note) and effect.kind == "approval" for effect in effects)
    assert not ran or not asked.gate or granted


@given(LIVES)
def test_the_outcome_is_the_last_recorded_one(lived):
    _, _, effects, ended = lived
    if isinstance(ended, stator.Outcome):
        last = effects[-1]
        assert (ended.status, ended.cause) == (last.fields["status"], last.fields["cause"])


# -- a program's turns ----------------------------------------------------------------------------


class Naive:
    """A program and its runs, modelled as a list of turn numbers by position."""

    def __init__(self):
        self.turns, self.last = [], 0

    def run(self, match, fresh):
        """Reuse the first `match` turns of the last run, then start `fresh` new ones."""
        kept = self.turns[:match] if fresh else self.turns
        new = list(range(self.last + 1, self.last + 1 + fresh))
        self.last += fresh
        self.turns = [*kept, *new]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), max_size=12))
def test_the_turns_of_a_program_are_those_of_its_runs_in_order(runs):
    naive = Naive()
    spans: list[list[int]] = []
    for match, fresh in runs:
        met = min(match, len(naive.turns))
        begun = naive.last + 1
        naive.run(met, fresh)
        own = programs.own_stretches(begun, naive.last, (met + 1 - begun).__add__)
        spans = programs.program(spans, own)
        found = [programs.turn_at(spans, place) for place in range(1, len(naive.turns) + 2)]
        assert found == [*naive.turns, None]


# -- results of tools -----------------------------------------------------------------------------


@pytest.fixture
def turn(memory):
    with memory.open("main") as session, session.turn("one") as t:
        yield t


def last(turn):
    return next(turn.session.log(newest_first=True, limit=1))


def test_a_result_with_an_error_is_recorded_as_an_error(turn):
    outcome = turn.try_call(lambda: stator.Result(value={"code": 3}, error="quota"))
    assert (outcome.status, outcome.error, outcome.value) == ("error", "quota", {"code": 3})
    assert last(turn).value("output")["returned"] == {"code": 3}


def test_a_result_without_an_error_returns_its_value(turn):
    assert turn.call(lambda: stator.Result(value=3)) == 3


def test_a_detector_turns_a_result_into_an_error(turn):
    act = Counted(value={"ok": False})
    tool = act.tool(detect=lambda value: None if value["ok"] else "it said no")
    outcome = turn.try_call(tool)
    assert (outcome.status, outcome.cause, outcome.error) == ("error", "detected", "it said no")


def test_a_detector_that_finds_no_error_keeps_the_result(turn):
    assert turn.call(Counted(value=1).tool(detect=lambda value: None)) == 1


def test_an_error_found_by_a_detector_is_replayed(memory):
    act, other = Counted(value={"ok": False}), Counted(name="other")
    tool = act.tool(detect=lambda value: "it said no")
    seen = []
    for _ in range(2):
        with driving(memory) as s, s.turn("one") as t:
            seen.append(t.try_call(tool))
            t.call(other.tool())
            raise Died
    assert (seen[0].status, seen[0].error, seen[0].value) == (
        seen[1].status,
        seen[1].error,
        seen[1].value,
    )
    assert len(act.runs) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_a_base_exception_is_recorded_and_raised_again(turn, error):
    with pytest.raises(type(error)):
        turn.try_call(Counted(raising(error)).tool())
    assert last(turn).status == "in doubt"


# -- nested calls ---------------------------------------------------------------------------------


def test_a_call_made_by_a_tool_names_its_parent(turn):
    inner = Counted(name="inner").tool()
    outer = stator.tool(lambda: turn.call(inner), name="outer", effect="read")
    turn.call(outer)
    intents = [c for c in turn.session.log(load=False) if c.kind == "call"]
    assert [(c.tool, c.parent) for c in intents] == [("outer", ""), ("inner", intents[0].call)]


def test_a_tool_called_directly_inside_a_tool_names_its_parent(turn):
    inner = Counted(name="inner").tool()
    outer = stator.tool(lambda: inner(), name="outer")
    turn.call(outer)
    intents = [c for c in turn.session.log(load=False) if c.kind == "call"]
    assert intents[1].parent == intents[0].call


def test_the_parent_is_known_in_a_thread_with_a_time_limit(turn):
    inner = Counted(name="inner").tool()
    turn.call(stator.tool(lambda: turn.call(inner), name="outer", timeout_s=60))
    intents = [c for c in turn.session.log(load=False) if c.kind == "call"]
    assert intents[1].parent == intents[0].call


def test_a_write_inside_an_interrupted_read_does_not_run_twice(memory):
    inner, other = Counted(name="inner"), Counted(raising(ValueError("no")), name="other")
    for expected in ("error", "ok"):
        with driving(memory) as s, s.turn("one") as t:

            def outer(t=t):
                t.call(inner.tool())
                return other()

            assert t.try_call(stator.tool(outer, effect="read")).status == expected
            raise Died
    assert (len(inner.runs), len(other.runs)) == (1, 2)


# -- time limits ----------------------------------------------------------------------------------


@pytest.fixture
def gate():
    event = threading.Event()
    yield event
    event.set()


def test_a_write_that_takes_too_long_is_in_doubt(turn, gate):
    with pytest.raises(InDoubt, match="timeout after"):
        turn.call(stator.tool(gate.wait, name="act", timeout_s=0.01))
    assert [doubt.cause for doubt in turn.session.in_doubt] == ["timeout after 0.01 s"]


def test_a_read_that_takes_too_long_raises_call_timeout(turn, gate):
    with pytest.raises(CallTimeout):
        turn.call(stator.tool(gate.wait, name="look", effect="read", timeout_s=0.01, attempts=1))
    assert turn.session.in_doubt == []


def test_a_late_result_settles_the_call(turn, gate):
    landed = threading.Event()
    submit = turn.session._driver.submit

    def watched(draft):
        try:
            return submit(draft)
        finally:
            landed.set()

    turn.session._driver.submit = watched

    def act():
        gate.wait()
        return 7

    outcome = turn.try_call(stator.tool(act, timeout_s=0.01))
    assert outcome.status == "in doubt"
    gate.set()
    assert landed.wait(60)
    assert turn.session.in_doubt == []
    settled = last(turn)
    assert (settled.kind, settled.cause, settled.value("output")) == (
        "settlement",
        "late result",
        7,
    )


def test_a_late_result_after_the_session_ended_is_not_recorded(memory, gate):
    ended = threading.Event()

    def act():
        gate.wait()
        return 7

    with memory.open("main") as s:
        settle = s._driver.settle_late

        def watched(*given):
            try:
                settle(*given)
            finally:
                ended.set()

        s._driver.settle_late = watched
        with s.turn("one") as t:
            t.try_call(stator.tool(act, timeout_s=0.01))
    gate.set()
    assert ended.wait(60)
    assert "settlement" not in kinds(memory.read("main"))


# -- asyncio --------------------------------------------------------------------------------------


def run_async(memory, script):
    """Run a script of one turn with asyncio; returns its result."""

    async def go():
        store = stator.aio.AsyncStore(memory)
        async with store.open("main") as s, s.turn("one") as t:
            return await script(s, t)

    return asyncio.run(go())


async def cancelled_in(t, tool, begun):
    """Start a call and cancel it once its tool runs; returns its task."""
    task = asyncio.ensure_future(t.try_call(tool))
    await begun.wait()
    task.cancel()
    return task


@pytest.mark.parametrize(("effect", "status"), [("write", "in doubt"), ("read", "cancelled")])
def test_a_cancelled_coroutine_is_recorded_and_the_cancellation_propagates(memory, effect, status):
    async def script(s, t):
        begun = asyncio.Event()

        async def act():
            begun.set()
            await asyncio.Event().wait()

        task = await cancelled_in(t, stator.tool(act, effect=effect), begun)
        with pytest.raises(asyncio.CancelledError):
            await task
        return statuses(s._sync)

    assert run_async(memory, script) == [status]


def plain_tool(begun, gate, loop, ending):
    def act():
        loop.call_soon_threadsafe(begun.set)
        gate.wait()
        return ending()

    return stator.tool(act)


def test_a_cancelled_plain_function_runs_to_its_end(memory, gate):
    async def script(s, t):
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()
        tool = plain_tool(begun, gate, loop, lambda: 7)
        task = await cancelled_in(t, tool, begun)
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return statuses(s._sync)

    assert run_async(memory, script) == ["ok"]


def test_a_failing_plain_function_does_not_swallow_the_cancellation(memory, gate):
    async def script(s, t):
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()
        tool = plain_tool(begun, gate, loop, raising(ValueError("no")))
        task = await cancelled_in(t, tool, begun)
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return statuses(s._sync)

    assert run_async(memory, script) == ["error"]


@pytest.mark.parametrize("effect", ["write", "read"])
def test_a_call_cancelled_while_its_intent_is_written_is_recorded_as_not_run(memory, gate, effect):
    act = Counted()

    async def script(s, t):
        begun, loop = asyncio.Event(), asyncio.get_running_loop()
        write = t._open.write

        def slow(drafts):
            if drafts[0].kind == "call":
                loop.call_soon_threadsafe(begun.set)
                gate.wait()
            return write(drafts)

        t._open.write = slow
        task = await cancelled_in(t, act.tool(effect=effect), begun)
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return statuses(s._sync)

    assert run_async(memory, script) == ["cancelled"]
    assert act.runs == []


def test_a_coroutine_that_takes_too_long_is_cancelled(memory):
    async def script(s, t):
        stopped = []

        async def act():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.append(True)
                raise

        outcome = await t.try_call(stator.tool(act, timeout_s=0.01))
        return outcome.status, stopped

    assert run_async(memory, script) == ("in doubt", [True])


def test_the_late_result_of_a_plain_function_settles_its_call(memory, gate):
    async def script(s, t):
        landed, loop = asyncio.Event(), asyncio.get_running_loop()
        settle = s._sync._driver.settle_late

        def watched(*given):
            settle(*given)
            loop.call_soon_threadsafe(landed.set)

        s._sync._driver.settle_late = watched
        outcome = await t.try_call(stator.tool(lambda: gate.wait() and 7, name="x", timeout_s=0.01))
        gate.set()
        await landed.wait()
        return outcome.status, len(await s.in_doubt())

    assert run_async(memory, script) == ("in doubt", 0)


def test_a_call_made_by_a_coroutine_names_its_parent(memory):
    inner = Counted(name="inner")

    async def script(s, t):
        async def outer():
            return await t.call(inner.tool())

        await t.call(stator.tool(outer))
        return [(c.tool, bool(c.parent)) for c in s._sync.log(load=False) if c.kind == "call"]

    assert run_async(memory, script) == [("outer", False), ("inner", True)]


# -- approvals, pauses and budgets ----------------------------------------------------------------


def test_a_denied_call_does_not_run_and_names_who_denied_it(memory):
    act = Counted()
    tool = act.tool(approve=True)
    with pytest.raises(ApprovalNeeded), driving(memory) as s, s.turn("one") as t:
        t.call(tool)
    (waiting,) = approvals.waiting(memory.port, now=0)
    approvals.deny(memory.port, memory.context, waiting.call, by="local:boss")
    with driving(memory) as s, s.turn("one") as t, pytest.raises(CallDenied, match="local:boss"):
        t.call(tool)
    assert act.runs == []


def test_a_call_denied_by_a_rule_is_recorded_and_not_run(memory):
    act = Counted()
    rule = stator.Rule(tool="act", action="deny", why="never on Fridays")
    with driving(memory, rules=[rule]) as s, s.turn("one") as t:
        outcome = t.try_call(act.tool())
        assert (outcome.status, outcome.error) == ("denied", "never on Fridays")
        assert statuses(s) == ["denied"]
    assert act.runs == []


def test_a_used_one_time_grant_does_not_apply_to_a_second_call(memory):
    act = Counted()
    tool = act.tool(approve=True)
    with pytest.raises(ApprovalNeeded), driving(memory) as s, s.turn("one") as t:
        t.call(tool, n=1)
    (waiting,) = approvals.waiting(memory.port, now=0)
    approvals.approve(memory.port, memory.context, waiting.call, by="local:boss")
    with left_by(memory, ApprovalNeeded) as (_, t):
        t.call(tool, n=1)
        t.call(tool, n=1)
    assert len(act.runs) == 1


def test_a_pause_request_stops_before_the_next_call_which_runs_later(memory):
    act = Counted()
    with left_by(memory, Paused, match="lunch") as (s, t):
        request_pause(memory, s.id, "lunch")
        t.call(act.tool())
    assert act.runs == []
    view = memory.read("main")
    assert statuses(view) == ["cancelled"]
    with driving(memory) as s, s.turn("one") as t:
        assert t.call(act.tool()) == "done"
    assert len(act.runs) == 1


def request_pause(store, session, why):
    from stator.model.log.commit import Draft

    draft = Draft(
        id=store.context.mint("commit"), session=session, kind="pause_request", cause=why,
        principal="local:boss",
    )  # fmt: skip
    store.port.append(session, [draft])


def test_pausing_a_driven_session_sends_its_driver_a_request(memory):
    act = Counted()
    with left_by(memory, Paused) as (s, t):
        moved = lifecycle.pause(memory.port, memory.context, s.id, by="local:boss")
        assert moved.asked is not None
        t.call(act.tool())
    assert act.runs == []


@pytest.mark.parametrize("api", ["sync", "async"])
def test_a_driver_that_waits_for_approval_can_be_paused(memory, api):
    act = Counted()

    def ask(session_id):
        request_pause(memory, session_id, "lunch")

    if api == "sync":

        def nap(seconds):
            ask(memory.read("main").id)

        memory.context = msgspec.structs.replace(memory.context, sleep=nap)
        with left_by(memory, Paused, match="lunch", approve="wait") as (_, t):
            t.call(act.tool(approve=True))
    else:

        async def go():
            store = stator.aio.AsyncStore(memory)
            async with store.open("main", approve="wait") as s, s.turn("one") as t:
                task = asyncio.ensure_future(t.call(act.tool(approve=True)))
                while not approvals.waiting(memory.port, now=0):
                    await asyncio.sleep(0)
                ask(s.id)
                await task

        with pytest.raises(Paused, match="lunch"):
            asyncio.run(go())
    assert [item.tool for item in approvals.waiting(memory.port, now=0)] == ["act"]


@pytest.mark.parametrize("unit", ["calls", "tokens"])
def test_a_spent_budget_stops_before_the_call(memory, unit):
    act = Counted()
    with left_by(memory, stator.BudgetSpent, budget={unit: 1}) as (_, t):
        t.say("hello", usage={"tokens": 5})
        t.call(act.tool())
        t.call(act.tool())
    assert len(act.runs) <= 1
    assert memory.read("main").record.reason == "budget"


def test_call_failed_has_the_exception_of_the_tool_as_its_cause(turn):
    with pytest.raises(CallFailed) as caught:
        turn.call(Counted(raising(ValueError("no"))).tool())
    assert str(caught.value.__cause__) == "no"


def test_a_late_result_of_an_approved_call_settles_it(store):
    let_go, done = threading.Event(), threading.Event()

    @stator.tool(timeout_s=0.01, approve=True)
    def pay(amount):
        let_go.wait(60)
        return "paid"

    with pytest.raises(stator.ApprovalNeeded), store.open("shop") as s, s.turn("pay") as t:
        t.call(pay, amount=5)
    (waits,) = approvals.waiting(store.port, now=0)
    store.contribute("shop").approve(waits.call)
    with store.open("shop") as s, s.turn("pay") as t:
        assert t.try_call(pay, amount=5).status == "in doubt"
        settled = s._driver.settle_late

        def late(*found):
            settled(*found)
            done.set()

        s._driver.settle_late = late
        let_go.set()
        assert done.wait(60)
        assert [row.status for row in s.calls()] == ["ok"]
        assert s.in_doubt == []


@pytest.mark.parametrize("api", ["sync", "async"])
def test_a_result_just_after_the_time_limit_settles_the_call_in_doubt(memory, api):
    let_go = threading.Event()
    act = stator.tool(lambda: let_go.wait(60) and "paid", name="pay", timeout_s=0.01)
    append = memory.port.append

    def slow(session, drafts, **options):
        """The tool returns while its call is being recorded as in doubt."""
        if any(draft.status == "in doubt" for draft in drafts):
            let_go.set()
            for thread in threading.enumerate():
                if thread.name == "stator pay":
                    thread.join(60)
        return append(session, drafts, **options)

    memory.port.append = slow
    if api == "sync":
        with memory.open("main") as s, s.turn("one") as t:
            assert t.try_call(act).status == "in doubt"
    else:

        async def go():
            async with stator.aio.AsyncStore(memory).open("main") as s, s.turn("one") as t:
                assert (await t.try_call(act)).status == "in doubt"

        asyncio.run(go())
    told = [c.kind for c in memory.read("main").log() if c.kind in ("outcome", "settlement")]
    assert told in (["outcome"], ["outcome", "settlement"])
