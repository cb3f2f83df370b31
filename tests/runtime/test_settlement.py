"""Settling calls in doubt, and refusing to settle others."""

from __future__ import annotations

import msgspec
import pytest

import stator
from runtime.test_lifecycle import abandon
from runtime.waiting import ask_for
from stator.errors import Ambiguous, Busy, InvalidInput, NotFound, WrongState
from stator.runtime.driving import lifecycle, settlement
from stator.runtime.views.glance.calls import not_ok

ANN = "local:ann"


@stator.tool(effect="write")
def pay(amount):
    raise stator.InDoubt("connection lost")


def settle(store, call, verdict="done", **options):
    return settlement.settle(store.port, store.context, call, verdict, by=ANN, **options)


def doubts(store, **where):
    return settlement.doubts(store.as_read, **where)


@pytest.fixture
def doubted(either):
    """A session with a payment in doubt, which ended normally."""
    with either.open("paid") as s, s.turn("pay") as t:
        t.try_call(pay, amount=5)
    (row,) = s.calls(status="in doubt")
    return either, s.id, row.call


def test_a_call_in_doubt_is_listed_with_all_details(doubted):
    store, session, call = doubted
    (doubt,) = doubts(store)
    assert (doubt.session, doubt.name, doubt.call, doubt.tool) == (session, "paid", call, "pay")
    assert (doubt.arguments, doubt.turn, doubt.attempt) == ({"amount": 5}, 1, 1)
    assert (doubt.cause, doubt.effect) == ("the tool does not know", "write")
    assert doubt.since > 0
    assert doubts(store, project="elsewhere") == []
    assert doubts(store, session=session) == [doubt]


@pytest.mark.parametrize(
    ("verdict", "status"), [("done", "ok"), ("not done", "error"), ("run again", "error")]
)
def test_settling_records_the_verdict_and_the_reason(doubted, verdict, status):
    store, _, call = doubted
    settled = settle(store, call, verdict, why="looked at the bank")
    (row,) = store.read("paid").calls()
    assert (row.status, row.cause, row.outcome) == (status, verdict, settled.seq)
    commit = store.read("paid").commit(f"@{settled.seq}")
    assert (commit.kind, commit.call, commit.tool) == ("settlement", call, "pay")
    assert (commit.actor, commit.value("principal")) == ("user", ANN)
    assert commit.value("why") == "looked at the bank"
    assert doubts(store) == []


def test_a_call_settled_as_done_can_have_a_value(doubted):
    store, _, call = doubted
    seq = settle(store, call, value={"id": "re_1", "fee": 0.5}).seq
    assert store.read("paid").commit(f"@{seq}").value("output") == {"id": "re_1", "fee": 0.5}


def test_settling_without_a_value_records_no_output(doubted):
    store, _, call = doubted
    assert not store.read("paid").commit(f"@{settle(store, call).seq}").has("output")


def test_a_call_settled_as_not_done_cannot_have_a_value(doubted):
    store, _, call = doubted
    with pytest.raises(InvalidInput, match="value"):
        settle(store, call, "not done", value=3)
    with pytest.raises(InvalidInput, match="verdict"):
        settle(store, call, "perhaps")


@pytest.mark.parametrize("ended", ["close", "archive"])
def test_a_call_can_be_settled_after_its_session_ended(doubted, ended):
    store, session, call = doubted
    lifecycle.close(store.port, store.context, session)
    if ended == "archive":
        lifecycle.archive(store.port, store.context, session)
    settle(store, call[-8:])
    assert doubts(store) == []


def test_a_call_can_be_settled_while_its_session_is_driven(doubted):
    store, _, call = doubted
    with store.open("paid") as s, s.turn("go on") as t:
        settle(store, call)
        t.fact("still", "here")


@pytest.mark.parametrize(("verdict", "failed"), [("done", 0), ("not done", 1)])
def test_a_call_settled_as_done_is_no_more_known_as_not_ok(doubted, verdict, failed):
    store, session, call = doubted
    settle(store, call, verdict)
    counts = store.read(session).counts
    assert (counts.failed, not_ok(store.as_read, session, counts)) == (1, failed)


def test_a_call_can_be_settled_only_once(doubted):
    store, _, call = doubted
    settled = settle(store, call)
    with pytest.raises(WrongState, match=rf"it ended ok \(@{settled.seq}\)"):
        settle(store, call, "not done")
    assert len([c for c in store.read("paid").log() if c.kind == "settlement"]) == 1


def test_settling_an_ended_call_is_refused(either):
    with either.open("a") as s, s.turn("go") as t:
        t.call(len, "abc")
    with pytest.raises(WrongState, match="it ended ok"):
        settle(either, s.calls()[0].call)


def test_settling_a_running_call_is_busy(either):
    failures: list[str] = []

    @stator.tool(effect="write")
    def slow():
        try:
            settle(either, s.calls()[0].call)
        except Busy as busy:
            failures.append(busy.holder.program)

    with either.open("a") as s, s.turn("go") as t:
        t.call(slow)
    assert failures == [either.context.program]


def test_settling_a_call_that_awaits_approval_is_refused(either):
    with either.open("a") as s, s.turn("go"):
        call = ask_for(s, "pay", amount=5)
    with pytest.raises(WrongState, match="has not begun"):
        settle(either, call)
    assert doubts(either) == []


def test_an_open_write_of_a_dead_driver_is_listed_as_in_doubt(either):
    session, _ = abandon(either, "left")
    head = either.port.head(session)
    (doubt,) = doubts(either)
    assert (doubt.tool, doubt.cause) == ("pay", "process died")
    assert either.port.head(session) == head


def test_settling_a_call_of_a_dead_driver_records_its_end_in_one_transaction(either):
    session, _ = abandon(either, "left")
    (doubt,) = doubts(either)
    settle(either, doubt.call)
    kinds = [c.kind for c in either.port.commits(session)[-6:]]
    assert kinds == ["outcome", "outcome", "turn_end", "run_end", "pause", "settlement"]
    row = either.port.session(session)
    assert (row.record.status, row.record.reason) == ("paused", "process died")
    assert either.read("left").commit("head").value("principal") == ANN


def test_an_open_read_of_a_dead_driver_is_not_in_doubt(either):
    abandon(either, "left")
    (look,) = [row for row in either.read("left").calls() if row.tool == "look"]
    with pytest.raises(WrongState, match="only reads"):
        settle(either, look.call)


def test_a_fork_can_settle_an_inherited_call_for_itself(doubted):
    store, session, call = doubted
    fork = store.fork("paid", as_name="fork")
    assert [doubt.session for doubt in doubts(store)] == [session]
    settle(store, call, session=fork.id)
    assert fork.calls()[0].status == "ok"
    assert store.read("paid").calls()[0].status == "in doubt"


def test_an_unknown_call_is_not_found(doubted):
    store, _, call = doubted
    for text in (
        "c_ffffffff",
        "ffffffff",
        "",
        "xyz",
        call[:-1] + ("0" if call[-1] != "0" else "1"),
    ):
        with pytest.raises(NotFound):
            settle(store, text)


def test_an_id_suffix_shared_by_several_calls_is_ambiguous(either):
    ids = iter(f"{n:024x}{'ab' * 4}" for n in range(1, 99))
    either.context = msgspec.structs.replace(
        either.context, mint=lambda kind: f"{kind[0] if kind != 'commit' else 'k'}_{next(ids)}"
    )
    with either.open("a") as s, s.turn("go") as t:
        t.try_call(pay, amount=1)
        t.try_call(pay, amount=2)
    with pytest.raises(Ambiguous) as several:
        settle(either, "abababab")
    assert len(several.value.candidates) == 2
