"""Lifecycle changes by a process that does not drive the session."""

from __future__ import annotations

import pytest

from runtime.waiting import ask_for
from stator.errors import Busy, InvalidInput, WrongState
from stator.model.log.commit import Draft, Upsert
from stator.model.log.query import Lease
from stator.model.records.types import SessionRecord
from stator.runtime.driving import lifecycle

ANN = "local:ann"


def move(how, store, session, **options):
    return getattr(lifecycle, how)(store.port, store.context, session, by=ANN, **options)


@pytest.fixture
def idle(either):
    """A session that ended normally."""
    with either.open("idle") as s, s.turn("go") as t:
        t.fact("a", 1)
    return either, s.id


def abandon(store, name):
    """A session whose driver died during a turn: two calls started, one waits for approval."""
    s = store.open(name)
    t = s.turn("pay")
    for tool, effect in (("pay", "write"), ("look", "read")):
        intent = s.context.mint("commit")
        s._driver.append(
            [
                s._draft(
                    "call",
                    id=intent,
                    call="c_" + intent[2:],
                    tool=tool,
                    effect=effect,
                    attempt=1,
                    input={"amount": 5},
                    status="started",
                )
            ]
        )
    waits = ask_for(s, "refund", amount=5)
    store.port.release(s._driver.lease)
    assert not t.ended
    return s.id, waits


def test_a_session_can_be_closed_and_archived_without_driving_it(idle):
    store, session = idle
    assert move("close", store, session).status == "closed"
    moved = move("archive", store, session)
    assert (moved.status, moved.reason, moved.asked) == ("archived", "done", None)
    assert [c.value("principal") for c in store.port.commits(session)[-2:]] == [ANN, ANN]


def test_a_closed_session_can_be_resumed_and_driven(idle):
    store, session = idle
    move("close", store, session)
    assert move("resume", store, session).status == "paused"
    with store.open("idle") as s:
        assert s.id == session


@pytest.mark.parametrize("how", ["pause", "close"])
def test_a_repeated_transition_appends_nothing(idle, how):
    store, session = idle
    move(how, store, session)
    head = store.port.head(session)
    assert move(how, store, session).status in ("paused", "closed")
    assert store.port.head(session) == head


def test_an_archived_session_cannot_be_resumed(idle):
    store, session = idle
    move("close", store, session)
    move("archive", store, session)
    for how in ("resume", "pause", "close"):
        with pytest.raises(WrongState):
            move(how, store, session)


def test_only_a_closed_session_can_be_archived(idle):
    store, session = idle
    with pytest.raises(WrongState, match="possible from: closed"):
        move("archive", store, session)
    with store.open("idle"):
        pass  # the refusal left no lease


def test_an_unknown_reason_is_refused(idle):
    store, session = idle
    assert move("close", store, session, reason="budget").reason == "budget"
    with pytest.raises(InvalidInput, match="unknown reason"):
        move("pause", store, session, reason="just because")


def test_a_live_driver_is_asked_to_pause_and_keeps_the_session(either):
    with either.open("busy") as s, s.turn("go") as t:
        moved = move("pause", either, s.id, reason="budget")
        assert (moved.status, moved.asked.program) == ("active", either.context.program)
        request = s.commit("head")
        assert (request.kind, request.cause, request.epoch) == ("pause_request", "budget", 0)
        assert request.value("principal") == ANN
        t.fact("still", "here")


@pytest.mark.parametrize("how", ["close", "archive", "resume"])
def test_every_other_transition_of_a_driven_session_is_busy(either, how):
    with either.open("busy") as s:
        with pytest.raises(Busy) as busy:
            move(how, either, s.id)
        assert busy.value.holder.program == either.context.program
        assert s.commit("head").kind == "run"


@pytest.mark.parametrize("how", ["pause", "close", "resume"])
def test_the_end_of_a_dead_driver_is_recorded_first(either, how):
    session, waits = abandon(either, "left")
    move(how, either, session)
    said = [(c.kind, c.tool, c.status, c.cause) for c in either.port.commits(session)[-5:-1]]
    assert sorted(said) == [
        ("outcome", "look", "cancelled", "process died"),
        ("outcome", "pay", "in doubt", "process died"),
        ("run_end", "", "interrupted", "process died"),
        ("turn_end", "", "interrupted", "process died"),
    ]
    died = [c for c in either.port.commits(session)[-5:-1] if c.has("principal")]
    assert died == []  # detected, not reported by a person
    left = {entry.record.tool: entry.record for entry in either.port.entries(session, "calls")}
    assert {tool: record.status for tool, record in left.items()} == {
        "pay": "in doubt",
        "refund": "awaiting approval",
    }
    assert left["refund"].call == waits
    assert either.port.entries(session, "runs") == []


def test_opening_after_that_records_only_a_resume(either):
    session, _ = abandon(either, "left")
    move("pause", either, session)
    head = either.port.head(session).seq
    with either.open("left"):
        kinds = [c.kind for c in either.port.commits(session, after=head)]
    assert kinds == ["resume"]


def test_open_writes_of_a_displaced_driver_are_in_doubt_for_that_reason(either):
    session, _ = abandon(either, "left")
    lease = Lease(session, 7, lifecycle.holder(either.context))
    drafts = lifecycle.close_out(
        either.port,
        lease,
        lambda kind, **said: Draft(id="", session=session, kind=kind, **said),
    )
    assert {draft.cause for draft in drafts} == {"driver displaced"}


def test_a_recorded_session_needs_no_lease(either):
    record = SessionRecord(
        id=either.context.mint("session"), name="fed", mode="recorded", project="shop"
    )
    opening = Draft(
        id=either.context.mint("commit"),
        session=record.id,
        kind="open",
        key="5e" * 16,
        changes=(Upsert("session", record),),
    )
    either.port.create([opening])
    assert move("close", either, record.id).status == "closed"
    assert either.port.commits(record.id)[-1].epoch == 0
