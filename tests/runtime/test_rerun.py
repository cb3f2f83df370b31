"""Rerun runs recorded calls again and shows which results changed."""

from __future__ import annotations

import asyncio

import pytest

import stator
from runtime.support import Counted, raising
from stator.errors import BadPosition, BadType, InvalidInput
from stator.model.log.query import SessionQuery
from stator.runtime.branches.rerun import rerun


def tools(read="v1", pay=None):
    """The current tools."""
    pay = pay or Counted(name="pay", value={"id": "re_1"})
    reader = Counted(name="read_file", value=read)
    return {"read_file": reader.tool(effect="read"), "pay": pay.tool()}


@pytest.fixture
def recorded(either):
    """A store with a session of two turns: a read and a payment, then another read."""
    with either.open("login") as s:
        hands = tools()
        with s.turn("pay it") as t:
            t.call(hands["read_file"], path="invoice")
            t.call(hands["pay"], amount=5)
        with s.turn("pay it") as t:
            t.call(hands["read_file"], path="ledger")
    return either


def again(store, hands, span=None, **options):
    return rerun(store.port, store.context, store.read("login").id, hands, span, **options)


def verdicts(found):
    return [call.verdict for call in found.calls]


def test_a_rerun_with_equal_results_is_the_same(recorded):
    found = again(recorded, tools(), effects="run")
    assert verdicts(found) == ["same", "same", "same"]
    assert found.same


def test_a_rerun_makes_its_own_retry_and_leaves_the_source_unchanged(recorded):
    head = recorded.read("login").head
    found = again(recorded, tools(), effects="run")
    assert recorded.read("login").head == head
    made = recorded.read(found.session)
    assert made.record.parent.kind == "retry"
    assert made.head.turn == 2
    assert again(recorded, tools(), effects="run").name == "login~rerun2"


def test_a_different_value_is_shown_as_a_diff(recorded):
    found = again(recorded, tools(read="v2"), effects="run")
    assert verdicts(found) == ["other value", "same", "other value"]
    assert found.calls[0].diff.endswith("-v1\n+v2")
    assert not found.same


def test_a_different_status_is_shown_with_the_reason(recorded):
    pay = Counted(raising(ValueError("card declined")), name="pay")
    found = again(recorded, tools(pay=pay), effects="run")
    call = found.calls[1]
    assert (call.verdict, call.before, call.after) == ("other status", "ok", "error")
    assert call.why == "card declined"


def test_a_write_waits_for_approval_and_the_same_rerun_continues(recorded):
    pay = Counted(name="pay", value={"id": "re_1"})
    found = again(recorded, tools(pay=pay))
    assert verdicts(found) == ["same", "not run", "not run"]
    assert [call.why for call in found.calls[1:]] == [
        "waits for approval",
        "a call before it waits for approval",
    ]
    assert pay.runs == []
    recorded.contribute(found.session).approve(found.waiting)
    after = again(recorded, tools(pay=pay))
    assert (after.session, verdicts(after)) == (found.session, ["same"] * 3)
    assert pay.runs == [{"amount": 5}]


def test_a_policy_that_allows_a_tool_does_not_allow_a_rerun_to_write(recorded):
    from msgspec.structs import replace

    allow = '[[approval]]\ntool = "pay"\naction = "allow"\n'
    context = replace(recorded.context, policy=lambda: allow)
    session = recorded.read("login").id
    assert rerun(recorded.port, context, session, tools()).waiting


def test_selected_turns_can_be_rerun(recorded):
    found = again(recorded, tools(), "t2")
    assert [(call.tool, call.turn) for call in found.calls] == [("read_file", 2)]
    assert found.same
    with pytest.raises(BadPosition, match="there are 2"):
        again(recorded, tools(), "t3")


def test_a_missing_tool_is_reported(recorded):
    found = again(recorded, {"read_file": tools()["read_file"]}, effects="run")
    assert (found.calls[1].verdict, found.calls[1].why) == (
        "not run",
        "there is no tool of that name",
    )


def test_calls_with_redacted_or_erased_arguments_are_not_run(either):
    pay = Counted(name="pay")
    with either.open("login") as s:
        with s.turn("pay") as t:
            t.call(pay.tool(), token="sk-ant-api03-" + "Zq7" * 31)
            t.call(pay.tool(), amount=1)
        calls = [commit for commit in s.log() if commit.kind == "call"]
        s.erase(f"@{calls[1].seq}", fields=["input"])
    pay.runs.clear()
    found = again(either, {"pay": pay.tool()}, effects="run")
    assert [call.why for call in found.calls] == [
        "its arguments held a secret, which is not on record",
        "its arguments were erased",
    ]
    assert pay.runs == []


def test_a_dispatch_function_can_replace_the_tools(recorded):
    found = again(recorded, lambda name, given: {"id": "re_1"}, effects="run")
    assert verdicts(found) == ["other value", "same", "other value"]


def test_a_used_name_is_refused(recorded):
    with pytest.raises(InvalidInput, match="not an unfinished rerun"):
        again(recorded, tools(), name="login")


def test_a_driver_can_rerun_its_own_session(recorded):
    with recorded.open("login") as s:
        assert s.rerun(tools(), "t1", effects="run", name="once-more").name == "once-more"


def test_rules_of_the_driver_apply_to_its_rerun(recorded):
    pay = Counted(name="pay")
    rules = [stator.Rule(tool="pay", action="deny", why="never")]
    with recorded.open("login", rules=rules) as s:
        found = s.rerun(tools(pay=pay), effects="run")
    assert [call.after for call in found.calls] == ["ok", "denied", "ok"]
    assert pay.runs == []


def test_the_asynchronous_api_can_rerun(tmp_path):
    async def main():
        async with stator.aio.connect(tmp_path / "a.db") as store, store.open("a") as s:
            async with s.turn("look") as t:
                await t.call(tools()["read_file"], path="a")
            return await s.rerun(tools())

    assert asyncio.run(main()).same


def test_rewound_turns_are_rerun_only_if_selected(recorded):
    recorded.contribute("login").rewind("t1")
    assert verdicts(again(recorded, tools(), effects="run")) == ["same", "same"]
    assert [call.turn for call in again(recorded, tools(), "t-1", effects="run").calls] == [1, 1]
    assert [call.turn for call in again(recorded, tools(), "t2", effects="run").calls] == [2]


def test_every_turn_of_a_long_session_is_rerun(memory):
    with memory.open("login") as s:
        for number in range(1001):
            with s.turn("more") as t:
                if number == 1000:
                    t.call(tools()["read_file"], path="last")
    assert verdicts(again(memory, tools())) == ["same"]


def test_an_invalid_tool_is_refused_before_a_session_is_made(recorded):
    with pytest.raises(BadType, match="not tools: int"):
        again(recorded, 5)
    assert [row.record.name for row in recorded.port.sessions(SessionQuery()).rows] == ["login"]
