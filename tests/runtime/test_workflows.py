"""Workflows: extracted from a recorded chain, run, stopped and continued."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.support import Counted, raising
from stator.errors import BadWorkflow, WrongState
from stator.model.calls.workflow import (
    SCHEMA,
    CallTemplate,
    Workflow,
    parse,
)
from stator.model.values import canon
from stator.runtime.replay import workflow as workflows
from stator.testing import memory_store

KEY = "sk-ant-api03-" + "Zq7" * 31


class Shop:
    """Tools that keep what they were called with."""

    def __init__(self, **answers):
        self.chain = []
        self.tools = {
            name: Counted(name=name, value=value).tool(effect="write" if name == "pay" else "read")
            for name, value in answers.items()
        }
        for name, tool in self.tools.items():
            tool.function = self._kept(name, tool.function)

    def _kept(self, name, function):
        def call(**given):
            self.chain.append((name, given))
            return function(**given)

        return call


def shop():
    return Shop(
        find={"invoice": {"id": 7, "to": "ACME Corp"}}, pay={"receipt": "re_19"}, mail="sent"
    )


def chain(s, hands, amount=4200):
    with s.turn("pay the invoice INV-3") as t:
        found = t.call(hands["find"], number="INV-3")
        paid = t.call(hands["pay"], to=found["invoice"]["to"], invoice_id=7, cents=amount)
        t.call(hands["mail"], to="ACME Corp", receipt=paid["receipt"])


@pytest.fixture
def recorded(either):
    with either.open("invoice") as s:
        chain(s, shop().tools)
    return either


def run(store, workflow, tools, values=None, **options):
    return workflows.run(store.port, store.context, workflow, tools, values, **options)


def statuses(ran):
    return [call.status for call in ran.calls]


def test_a_chain_becomes_a_file_with_parameters_and_references(recorded):
    made = workflows.extract(recorded.read("invoice"))
    assert [(p.name, p.default) for p in made.parameters] == [("invoice", "INV-3")]
    assert [call.input for call in made.calls] == [
        {"number": {"$param": "invoice"}},
        {
            "to": {"$from": "c1", "at": "/invoice/to"},
            "invoice_id": {"$from": "c1", "at": "/invoice/id"},
            "cents": 4200,
        },
        {"to": {"$from": "c1", "at": "/invoice/to"}, "receipt": {"$from": "c2", "at": "/receipt"}},
    ]
    assert [call.effect for call in made.calls] == ["read", "write", "read"]


def test_a_workflow_runs_in_its_own_session_with_other_values(recorded):
    made, now = workflows.extract(recorded.read("invoice")), shop()
    now.tools["find"].function = lambda number: {"invoice": {"id": 8, "to": "Initech"}}
    ran = run(recorded, made, now.tools, {"invoice": "INV-4"}, effects="run")
    assert (ran.status, ran.name) == ("done", "workflow/invoice")
    assert now.chain[0] == ("pay", {"to": "Initech", "invoice_id": 8, "cents": 4200})
    prompt = recorded.read(ran.session).beginning(1).value("input")
    assert prompt == {"workflow": "invoice", "parameters": {"invoice": "INV-4"}}


def test_a_write_waits_for_approval_and_a_rerun_continues(recorded):
    made, now = workflows.extract(recorded.read("invoice")), shop()
    ran = run(recorded, made, now.tools)
    assert (ran.status, statuses(ran)) == ("waits", ["ok", "awaiting approval", "not run"])
    recorded.contribute(ran.session).approve(ran.waiting)
    after = run(recorded, made, now.tools)
    assert (after.status, after.session) == ("done", ran.session)
    assert [name for name, _ in now.chain] == ["find", "pay", "mail"]
    assert [call.replayed for call in after.calls] == [True, False, False]


def test_a_waiting_call_is_shown_with_its_arguments(recorded):
    ran = run(recorded, workflows.extract(recorded.read("invoice")), shop().tools)
    (waiting,) = [call for call in ran.calls if call.status == "awaiting approval"]
    assert waiting.call == ran.waiting
    assert waiting.arguments == {"to": "ACME Corp", "invoice_id": 7, "cents": 4200}


def test_the_first_failure_stops_a_workflow_and_a_rerun_continues_there(recorded):
    made, now = workflows.extract(recorded.read("invoice")), shop()
    broken = Counted(raising(ValueError("card declined")), name="pay", value={"receipt": "re_2"})
    now.tools["pay"] = broken.tool()
    ran = run(recorded, made, now.tools, effects="run")
    assert (ran.status, statuses(ran)) == ("failed", ["ok", "error", "not run"])
    assert ran.why == "c2 (pay) ended error: card declined"
    assert run(recorded, made, now.tools, effects="run").status == "done"
    assert [name for name, _ in now.chain] == ["find", "mail"]


def test_a_failed_call_with_on_error_continue_does_not_stop_the_workflow(memory):
    made = Workflow(
        schema=SCHEMA,
        name="w",
        calls=[
            CallTemplate(id="a", tool="bad", on_error="continue"),
            CallTemplate(id="b", tool="good", input={"x": {"$from": "a"}}, on_error="continue"),
            CallTemplate(id="c", tool="good"),
        ],
    )
    tools = {"bad": Counted(raising(ValueError()), name="bad"), "good": Counted(name="good")}
    ran = run(memory, made, tools, effects="run")
    assert (ran.status, statuses(ran)) == ("done", ["error", "not run", "ok"])


def test_a_missing_tool_is_reported_before_anything_runs(recorded):
    made, now = workflows.extract(recorded.read("invoice")), shop()
    del now.tools["mail"]
    with pytest.raises(BadWorkflow, match="there is no tool 'mail'"):
        run(recorded, made, now.tools)
    assert now.chain == []


def test_a_secret_is_never_in_the_file_and_must_be_set(either):
    login = Counted(name="login")
    with either.open("in") as s, s.turn("log in") as t:
        t.call(login.tool(), key=KEY)
    made = workflows.extract(either.read("in"))
    assert KEY not in made.to_json()
    with pytest.raises(BadWorkflow, match="key must be set"):
        run(either, made, {"login": login}, effects="run")
    assert run(either, made, {"login": login}, {"key": KEY}, effects="run").status == "done"
    assert login.runs == [{"key": KEY}, {"key": KEY}]


def test_selected_turns_can_be_extracted(recorded):
    with recorded.open("invoice") as s:
        chain(s, shop().tools, amount=1)
    assert len(workflows.extract(recorded.read("invoice"), "t2").calls) == 3
    assert len(workflows.extract(recorded.read("invoice")).calls) == 6


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["a.py", "ACME", 4200, 7, "INV-3", b"\x00", (1, 2)])
)
KEYS = st.sampled_from(["id", "$from", "$x", "a/b", "to"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["find", "pay", "mail"]),
        st.dictionaries(st.sampled_from(["id", "to", "path", "all"]), VALUES, max_size=3),
        VALUES,
    ),
    max_size=5,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(calls=CALLS, prompt=st.sampled_from(["", "pay ACME 4200 for a.py, INV-3", {"id": 7}]))
def test_running_an_extracted_workflow_makes_the_same_calls(calls, prompt):
    store = memory_store()
    recorded: list[Any] = []
    again: list[Any] = []

    def tools(kept):
        outputs = [output for _, _, output in calls]

        def tool(name):
            def call(**given):
                kept.append((name, given))
                return outputs.pop(0)

            return call

        return {name: tool(name) for name in ("find", "pay", "mail")}

    with store.open("s") as s, s.turn(prompt):
        dispatch = s.wrap(tools(recorded))
        for name, arguments, _ in calls:
            dispatch(name, arguments)
    made = parse(workflows.extract(store.read("s")).to_json().encode())
    assert run(store, made, tools(again), effects="run").status == "done"
    assert canon.dumps(again) == canon.dumps(recorded)


def test_rewound_turns_are_omitted_and_noted(recorded):
    with recorded.open("invoice") as s:
        with s.turn("again") as t:
            t.call(shop().tools["find"], number="INV-4")
        s.rewind("t1")
    made = workflows.extract(recorded.read("invoice"))
    assert [call.tool for call in made.calls] == ["find", "pay", "mail"]
    assert made.notes[0] == "t2: left out, it was rewound"


def test_a_workflow_refuses_to_run_in_an_agents_session(recorded):
    made = workflows.extract(recorded.read("invoice"))
    with pytest.raises(WrongState, match="session 'invoice' was not created by a workflow"):
        run(recorded, made, shop().tools, session="invoice")
    assert recorded.read("invoice").head.turn == 1
