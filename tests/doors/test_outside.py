"""What people and other programs do to sessions through `store.approvals`, `budgets`, `lifecycle` and `doubts`."""

from __future__ import annotations

import asyncio

import pytest

import stator
from stator import approvals, budgets, lifecycle


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "store.db", project="shop") as store:
        yield store


def pay(amount):
    return f"paid {amount}"


ASK = [stator.Rule(tool="pay", action="ask")]


def wait_for_approval(store):
    with (
        pytest.raises(stator.ApprovalNeeded),
        store.open("pay", rules=ASK) as s,
        s.turn("pay the invoice") as t,
    ):
        t.call(pay, amount=5)


def test_an_approved_call_runs_when_the_program_runs_again(store):
    wait_for_approval(store)
    [call] = store.approvals.waiting("pay")
    grant = store.approvals.approve(call.call, by="local:ann")
    assert isinstance(call, approvals.Waiting)
    assert isinstance(grant, approvals.Grant)
    with store.open("pay", rules=ASK) as s, s.turn("pay the invoice") as t:
        assert t.call(pay, amount=5) == "paid 5"


def test_a_denied_call_does_not_run(store):
    wait_for_approval(store)
    store.approvals.deny(store.approvals.waiting()[0].call, why="ask finance first")
    with store.open("pay", rules=ASK) as s, s.turn("pay the invoice") as t:
        assert t.try_call(pay, amount=5).status == "denied"


def test_a_grant_is_given_by_the_local_user_unless_another_is_named(store):
    with store.open("pay") as s, s.turn("look") as t:
        t.say("hello")
    assert store.approvals.grant("pay", "read_*").record.by == store.context.principal
    assert store.approvals.grant("pay", "list_*", by="local:ann").record.by == "local:ann"


def test_a_revoked_grant_is_not_listed(store):
    with store.open("pay") as s, s.turn("look") as t:
        t.say("hello")
    grant = store.approvals.grant("pay", "pay(amount<=10)")
    store.approvals.revoke(grant.id)
    assert store.approvals.grants("pay") == []


def test_a_changed_budget_limits_the_next_turn(store):
    with store.open("work") as s, s.turn("one") as t:
        t.say("done")
    assert store.budgets.change("work", "1 turns") == {"turns": 1}
    assert store.budgets.spent("work")["turns"] == 1
    assert [limit.budget for limit in store.budgets.limits("work")] == [{"turns": 1}]
    assert isinstance(store.budgets.check("work"), budgets.Breach)
    with pytest.raises(stator.BudgetSpent), store.open("work") as s, s.turn("two", new=True):
        pass


def test_a_session_can_be_closed_and_resumed_without_driving_it(store):
    with store.open("work") as s, s.turn("one") as t:
        t.say("done")
    assert isinstance(store.lifecycle.close("work"), lifecycle.Moved)
    assert store.read("work").status == "closed"
    assert store.lifecycle.resume("work").status == "paused"


def test_a_call_in_doubt_is_listed_and_settled_by_its_id(store):
    def wire(amount):
        raise stator.InDoubt("the connection was lost")

    with store.open("pay") as s, s.turn("pay") as t:
        t.try_call(wire, amount=5)
    [doubt] = store.doubts.open("pay")
    store.doubts.settle(doubt.call, "not done", why="the bank has no such payment")
    assert store.doubts.open() == []


def test_the_same_methods_work_in_asyncio(tmp_path):
    async def main():
        async with stator.aio.connect(tmp_path / "store.db", project="shop") as store:
            async with store.open("work") as s, s.turn("one") as t:
                await t.say("done")
            await store.budgets.change("work", "1 turns")
            assert (await store.budgets.spent("work"))["turns"] == 1
            assert await store.approvals.waiting() == []
            assert await store.doubts.open() == []
            return (await store.lifecycle.close("work")).status

    assert asyncio.run(main()) == "closed"
