"""Approvals: waiting calls, and grants that apply to one call, a session or a project."""

from __future__ import annotations

import msgspec
import pytest

import stator
from runtime.conftest import memory_store
from runtime.waiting import ask_for
from stator.errors import (
    Ambiguous,
    Conflict,
    Erased,
    InvalidInput,
    NotFound,
    WrongState,
)
from stator.model.calls.approval import answer
from stator.model.log.commit import Upsert
from stator.model.records.types import ApprovalRecord
from stator.runtime.base import project_session
from stator.runtime.driving import approvals

ANN = "local:ann"


@pytest.fixture
def paid(either):
    """A session with a waiting payment, whose driver has ended."""
    with either.open("paid") as s, s.turn("pay the invoice"):
        call = ask_for(s, "pay", "payments above 100", amount=500, to="ACME")
    return either, s.id, call


def waiting(store, **where):
    return approvals.waiting(store.port, now=store.context.clock(), **where)


def answered(store, session, **changed):
    """The verdict of the grant that applies to the first waiting call, or to a changed copy of it."""
    (item, *_) = waiting(store, session=session)
    given = {
        "tool": item.tool,
        "digest": item.digest,
        "arguments": item.arguments,
        "call": item.call,
        "now": store.context.clock(),
    }
    found = answer(approvals.standing(store.port, session), **{**given, **changed})
    return getattr(found and found.record, "verdict", None)


def test_a_waiting_call_is_listed_with_all_details(paid):
    store, session, call = paid
    (item,) = waiting(store)
    assert (item.session, item.name, item.call, item.tool) == (session, "paid", call, "pay")
    assert item.arguments == {"amount": 500, "to": "ACME"}
    assert (item.effect, item.turn, item.why) == ("write", 1, "payments above 100")
    assert item.since > 0
    intent = store.port.commits(session, after=item.seq - 1, upto=item.seq)[0]
    assert item.digest == intent.value("input_hash")


def test_waiting_calls_can_be_listed_by_session_project_or_store(paid):
    store, session, _ = paid
    with store.open("other", project="elsewhere") as other:
        ask_for(other, "pay", amount=1)
    assert len(waiting(store)) == 2
    assert [item.session for item in waiting(store, project="shop")] == [session]
    assert [item.session for item in waiting(store, session=other.id)] == [other.id]


def test_a_closed_session_has_no_waiting_calls(paid):
    store, _, call = paid
    store.open("paid").close()
    assert waiting(store) == []
    with pytest.raises(WrongState):
        approvals.approve(store.port, store.context, call, by=ANN)


def test_approving_a_call_approves_no_other_call(paid):
    store, session, call = paid
    grant = approvals.approve(store.port, store.context, call, by=ANN)
    assert grant.record.by == ANN
    assert answered(store, session) == "approved"
    assert answered(store, session, call="c_" + "0" * 32) is None
    assert answered(store, session, digest="0" * 64) is None
    assert answered(store, session, tool="refund") is None
    assert [item.answer for item in waiting(store)] == ["approved"]


def test_the_log_names_who_approved(paid):
    store, _, call = paid
    approvals.approve(store.port, store.context, call[-8:], by=ANN)
    commit = store.read("paid").commit("head")
    assert (commit.kind, commit.call, commit.value("principal")) == ("approval", call, ANN)
    assert (commit.actor, commit.epoch, commit.provenance.source) == ("user", 0, "user")


def test_approving_without_a_principal_is_refused(paid):
    store, _, call = paid
    with pytest.raises(InvalidInput, match="who gives it"):
        approvals.approve(store.port, store.context, call, by="")


def test_the_objects_an_agent_uses_cannot_approve():
    for held in (stator.Session, stator.Turn, stator.Store):
        assert not {"approve", "grant", "deny"} & set(dir(held))


def test_a_call_can_be_denied_with_a_reason(paid):
    store, session, call = paid
    approvals.deny(store.port, store.context, call, by=ANN, why="ask finance first")
    assert answered(store, session) == "denied"
    assert store.read("paid").commit("head~1").value("why") == "ask finance first"


def test_the_last_verdict_on_a_call_applies(paid):
    store, session, call = paid
    approvals.deny(store.port, store.context, call, by=ANN)
    approvals.approve(store.port, store.context, call, by="local:bob")
    assert answered(store, session) == "approved"
    assert len(approvals.standing(store.port, session)) == 1


def test_two_calls_with_the_same_arguments_need_two_verdicts(either):
    with either.open("twice") as s, s.turn("go"):
        one, two = ask_for(s, "pay", amount=5), ask_for(s, "pay", amount=5)
    approvals.approve(either.port, either.context, one, by=ANN)
    assert answered(either, s.id, call=two) is None
    approvals.deny(either.port, either.context, two, by=ANN)
    assert answered(either, s.id, call=one) == "approved"
    assert answered(either, s.id, call=two) == "denied"


def test_a_session_grant_applies_to_every_call_with_the_same_arguments(paid):
    store, session, call = paid
    approvals.approve(store.port, store.context, call, by=ANN, scope="session")
    assert answered(store, session, call="c_" + "0" * 32) == "approved"
    assert answered(store, session, digest="0" * 64) is None


def test_a_pattern_grant_applies_to_every_matching_call(paid):
    store, session, call = paid
    approvals.approve(
        store.port, store.context, call, by=ANN, scope="session", pattern="pay(amount<=1000)"
    )
    small = {"digest": "0" * 64, "call": "c_" + "0" * 32}
    assert answered(store, session, **small, arguments={"amount": 7}) == "approved"
    assert answered(store, session, **small, arguments={"amount": 7000}) is None


def test_a_pattern_that_does_not_match_the_call_is_refused(paid):
    store, session, call = paid
    with pytest.raises(InvalidInput, match="does not match"):
        approvals.approve(store.port, store.context, call, by=ANN, pattern="pay(amount<=100)")
    assert approvals.standing(store.port, session) == []


def test_a_grant_can_be_given_before_any_call_asks(paid):
    store, session, _ = paid
    approvals.grant(store.port, store.context, session, "pay(to=ACME)", by=ANN)
    assert answered(store, session) == "approved"
    approvals.grant(store.port, store.context, session, "pay(amount>100)", by=ANN, verdict="denied")
    assert answered(store, session) == "denied"


def test_a_grant_expires(paid):
    store, session, call = paid
    until = store.context.clock() + 3_600_000_000
    approvals.approve(store.port, store.context, call, by=ANN, scope="session", expires=until)
    assert answered(store, session) == "approved"
    assert answered(store, session, now=until) is None
    assert [g.state for g in approvals.grants(store.port, now=until)] == ["expired"]
    with pytest.raises(InvalidInput, match="passed already"):
        approvals.approve(store.port, store.context, call, by=ANN, expires=1)


def test_a_project_grant_applies_to_all_sessions_of_that_project_only(paid):
    store, _, call = paid
    grant = approvals.approve(store.port, store.context, call, by=ANN, scope="project")
    row = store.port.session(grant.session)
    assert (row.record.mode, row.record.project) == ("project", "shop")
    for name, project, expected in (("b", "shop", "approved"), ("c", "elsewhere", None)):
        with store.open(name, project=project) as s:
            ask_for(s, "pay", amount=500, to="ACME")
        assert answered(store, s.id) == expected
    approvals.approve(store.port, store.context, call, by=ANN, scope="project", pattern="pay")
    modes = [row.record.mode for row in store.sessions(project="shop").rows]
    assert modes.count("project") == 1


def test_the_session_of_a_project_is_never_the_last_used_session(paid):
    store, session, call = paid
    approvals.approve(store.port, store.context, call, by=ANN, scope="project")
    assert store.read("last").id == session


def test_an_ordinary_session_with_the_reserved_name_is_a_conflict(paid):
    store, _, call = paid
    with store.open(project_session.PROJECT_SESSION):
        pass
    with pytest.raises(Conflict):
        approvals.approve(store.port, store.context, call, by=ANN, scope="project")


def test_a_grant_can_be_revoked(paid):
    store, session, call = paid
    grant = approvals.approve(store.port, store.context, call, by=ANN, scope="session")
    approvals.revoke(store.port, store.context, grant.id[-8:], by="local:bob")
    assert answered(store, session) is None
    assert store.read("paid").commit("head").value("principal") == "local:bob"
    with pytest.raises(NotFound):
        approvals.revoke(store.port, store.context, grant.id, by=ANN)


def test_revoking_an_ambiguous_or_unknown_grant_is_refused(paid):
    store, session, _ = paid
    for pattern in ("a", "b"):
        approvals.grant(store.port, store.context, session, pattern, by=ANN)
    ids = [grant.id for grant in approvals.grants(store.port, now=0)]
    shared = next((n for n in range(1, 16) if ids[0][-n:] == ids[1][-n:]), None)
    with pytest.raises(NotFound):
        approvals.revoke(store.port, store.context, "", by=ANN)
    if shared:
        with pytest.raises(Ambiguous):
            approvals.revoke(store.port, store.context, ids[0][-shared:], by=ANN)


def test_grants_survive_pausing_closing_and_resuming(paid):
    store, session, call = paid
    approvals.approve(store.port, store.context, call, by=ANN, scope="session")
    store.open("paid").close()
    with store.open("paid"):
        assert answered(store, session) == "approved"


def test_a_fork_starts_without_grants_and_waiting_calls(paid):
    store, _, call = paid
    approvals.approve(store.port, store.context, call, by=ANN, scope="session")
    fork = store.fork("paid")
    assert approvals.standing(store.port, fork.id) == []
    assert waiting(store, session=fork.id) == []


def test_a_grant_from_another_store_does_not_apply(paid):
    store, session, call = paid
    approvals.approve(store.port, store.context, call, by=ANN, scope="session")
    here = memory_store()
    here.ingest(list(store.read("paid").log()))
    assert [item.call for item in waiting(here)] == [call]
    assert approvals.standing(here.port, session) == []
    assert [g.state for g in approvals.grants(here.port, now=0)] == ["imported"]
    assert answered(here, session) is None
    approvals.approve(here.port, here.context, call, by=ANN, scope="session")
    assert answered(here, session) == "approved"


def test_a_forged_grant_does_not_apply(paid):
    """Neither a driver nor a reader of the log can make the signature of a grant."""
    store, session, call = paid
    real = approvals.approve(store.port, store.context, call, by=ANN).record
    with store.open("paid") as s:
        wider = msgspec.structs.replace(real, arguments="", pattern="*", scope="session", call="")
        for forged in (wider, ApprovalRecord(tool="pay", pattern="*", scope="session", by=ANN)):
            s._driver.append([s._draft("approval", changes=(Upsert("approvals", forged),))])
    assert [e.record for e in approvals.standing(store.port, session)] == [real]


def test_only_a_waiting_call_can_be_approved(paid):
    store, _, _ = paid
    with store.open("done") as s, s.turn("go") as t:
        t.call(len, "abc")
    (row,) = s.calls()
    with pytest.raises(WrongState, match="does not wait"):
        approvals.approve(store.port, store.context, row.call, by=ANN)
    with pytest.raises(NotFound):
        approvals.approve(store.port, store.context, "ffffffff", by=ANN)
    with pytest.raises(NotFound):
        approvals.deny(store.port, store.context, "what?", by=ANN)


def test_a_call_with_erased_arguments_cannot_be_approved(paid):
    store, session, call = paid
    (item,) = waiting(store)
    store.contribute(session).erase(f"@{item.seq}", fields=("input", "input_hash"))
    (item,) = waiting(store)
    assert (item.arguments, item.digest) == (None, "")
    with pytest.raises(Erased):
        approvals.approve(store.port, store.context, call, by=ANN)


def test_an_unknown_scope_is_refused(paid):
    store, _, call = paid
    with pytest.raises(InvalidInput, match="unknown scope"):
        approvals.approve(store.port, store.context, call, by=ANN, scope="forever")


def test_a_waiting_call_is_listed_as_awaiting_approval(store):
    @stator.tool(approve=True)
    def pay(amount):
        return amount

    with pytest.raises(stator.ApprovalNeeded), store.open("shop") as s, s.turn("pay") as t:
        t.call(pay, amount=5)
    view = store.read("shop")
    assert [row.status for row in view.calls()] == ["awaiting approval"]
    assert [row.tool for row in view.calls(status="awaiting approval")] == ["pay"]
    assert view.calls(status="started") == []
    assert [row.tool for row in store.calls(statuses=("awaiting approval",)).rows] == ["pay"]
