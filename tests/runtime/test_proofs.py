"""A driver and what it accepts: proofs that are too weak, signatures that were moved, copied or used before."""

from __future__ import annotations

import asyncio
import os
import sqlite3

import msgspec
import pytest
from msgspec.structs import replace

import stator
from stator import aio
from stator.approvals import Rule
from stator.errors import ApprovalNeeded, CallDenied, NotProven
from stator.machine import below, boot
from stator.model.calls import approval
from stator.model.log.commit import Draft, Upsert
from stator.owner.approver import Approver, KnownApprovers, Signer
from stator.owner.folder import UserFolder
from stator.runtime.branches.rerun import terms
from stator.runtime.driving import approvals, proofs
from stator.runtime.driving.proofs import Recognised
from stator.runtime.driving.tools import declare

ANN = "local:ann"
WORDS = "correct horse battery"
BY_PASSPHRASE = [Rule(tool="pay", action="ask", proof="passphrase")]
IN_TERMINAL = [Rule(tool="pay", action="ask", proof="terminal")]
TERMINAL = Recognised("terminal")
paid: list[int] = []


@stator.tool()
def pay(amount: int) -> str:
    paid.append(amount)
    return "paid"


@stator.tool(name="pay")
def pay_and_lose_the_connection(amount: int) -> str:
    paid.append(amount)
    raise stator.InDoubt("connection lost")


@stator.tool(approve=True)
def deploy() -> str:
    return "deployed"


@pytest.fixture(autouse=True)
def nothing_paid():
    paid.clear()


@pytest.fixture
def approver(tmp_path):
    """The person's key; the store fixtures below know it."""
    found = Approver(UserFolder(str(tmp_path / "data" / "stator")))
    found.set_passphrase(WORDS)
    return found


@pytest.fixture
def person(approver):
    """The person, who has typed the passphrase."""
    key = approver.unlock(WORDS)
    assert key is not None
    return Recognised("passphrase", key.sign)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store whose user has that data folder; this process counts as the person's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with stator.connect(tmp_path / "agent.db", project="shop") as opened:
        opened.context = replace(opened.context, below=lambda store: "")
        yield opened


def is_answered(store, rules, tool=pay, name="x") -> bool:
    """Whether the payment is made when the program runs again."""
    try:
        with store.open(name, rules=rules) as s, s.turn("pay") as t:
            t.call(tool, amount=500)
    except ApprovalNeeded:
        return False
    return True


def waiting_call(store, rules, **options) -> str:
    assert not is_answered(store, rules, **options)
    return str(store.approvals.waiting(options.get("name", "x"))[-1].call)


def approved(store, call: str, how: Recognised, **options):
    return approvals.approve(store.port, store.context, call, by=ANN, how=how, **options)


def put(store, session: str, record) -> None:
    """Append a grant as any program of this user can, with the mark of this store."""
    marked = approval.sign(record, session, store.info().id, store.port.ownership)
    draft = Draft(
        id=store.context.mint("commit"), session=session, kind="approval", actor="user",
        principal=ANN, tool="pay", status="approved", changes=(Upsert("approvals", marked),),
    )  # fmt: skip
    store.port.append(session, [draft])


# -- demands --------------------------------------------------------------------------------------


def test_a_waiting_call_says_what_it_demands(store):
    waiting_call(store, BY_PASSPHRASE)
    (item,) = store.approvals.waiting("x")
    assert item.proof == "passphrase"


def test_a_call_without_a_demand_records_none(store):
    call = waiting_call(store, [Rule(tool="pay", action="ask")])
    (entry,) = store.port.entries(store.read("x").id, "calls", keys=[call])
    assert entry.record.proof == ""


def test_a_program_cannot_approve_a_call_that_demands_a_person(store):
    call = waiting_call(store, IN_TERMINAL)
    with pytest.raises(NotProven, match="demands a stronger proof: terminal"):
        store.approvals.approve(call, by=ANN)
    assert not is_answered(store, IN_TERMINAL)


def test_a_grant_of_a_program_in_advance_does_not_answer_a_call_that_demands_more(store):
    call = waiting_call(store, IN_TERMINAL)
    store.approvals.grant("x", "pay", by=ANN)
    assert store.approvals.waiting("x")[0].answer == ""
    assert not is_answered(store, IN_TERMINAL)
    approved(store, call, TERMINAL)
    assert is_answered(store, IN_TERMINAL)


def test_the_passphrase_answers_a_demand_for_a_passphrase(store, person):
    call = waiting_call(store, BY_PASSPHRASE)
    grant = approved(store, call, person)
    assert grant.record.proof == "passphrase"
    assert store.approvals.waiting("x")[0].answer == "approved"
    assert is_answered(store, BY_PASSPHRASE)
    assert paid == [500]


def test_a_denial_by_a_program_answers_a_demand_for_a_passphrase(store):
    call = waiting_call(store, BY_PASSPHRASE)
    store.approvals.deny(call, by=ANN, why="no")
    with pytest.raises(CallDenied, match="no"):
        is_answered(store, BY_PASSPHRASE)


def test_a_tool_that_asks_by_itself_demands_what_the_project_demands(store, tmp_path):
    (tmp_path / "stator.toml").write_text('proof = "passphrase"\n')
    with pytest.raises(ApprovalNeeded), store.open("x") as s, s.turn("go") as t:
        t.call(deploy)
    assert store.approvals.waiting("x")[0].proof == "passphrase"


def test_a_rule_cannot_demand_less_than_the_project(store, tmp_path):
    (tmp_path / "stator.toml").write_text('proof = "passphrase"\n')
    waiting_call(store, IN_TERMINAL)
    assert store.approvals.waiting("x")[0].proof == "passphrase"


def test_a_rerun_demands_what_the_rules_demand(store, tmp_path):
    (tmp_path / "stator.toml").write_text(
        '[[approval]]\ntool = "pay"\naction = "ask"\nproof = "terminal"\n'
    )
    asked = terms(store.context, "ask", "runs again")
    assert asked.gate(declare(pay), {"amount": 5})[::2] == ("ask", "terminal")
    assert asked.gate(declare(deploy), {}) == ("ask", "runs again", "")


def test_below_a_driver_a_grant_for_a_call_that_demands_nothing_is_recorded_with_that(store):
    store.context = replace(store.context, below=lambda store: "driver 4711 (agent.py)")
    rules = [Rule(tool="pay", action="ask")]
    grant = store.approvals.approve(waiting_call(store, rules), by=ANN)
    assert grant.record.below == "driver 4711 (agent.py)"
    assert is_answered(store, rules)


def test_below_a_driver_the_passphrase_itself_is_refused(store, person):
    call = waiting_call(store, BY_PASSPHRASE)
    store.context = replace(store.context, below=lambda store: "driver 4711 (agent.py)")
    with pytest.raises(NotProven, match="runs below driver 4711"):
        approved(store, call, person)
    assert store.approvals.grants("x") == []


def test_the_driver_itself_counts_as_below_the_driver(store):
    with store.open("x"):
        assert below(store.port, {}).startswith(f"driver {os.getpid()} (")


def test_the_asynchronous_api_demands_the_same(store, tmp_path):
    call = waiting_call(store, IN_TERMINAL)

    async def ask() -> None:
        async with aio.connect(tmp_path / "agent.db", project="shop") as opened:
            (item,) = await opened.approvals.waiting("x")
            assert item.proof == "terminal"
            await opened.approvals.approve(call, by=ANN)

    with pytest.raises(NotProven):
        asyncio.run(ask())


# -- forgery --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "signature", ["", ":", "00:00", "\n", "é:é", "KEY:", "KEY:" + "00" * 64, "KEY:zz"]
)
def test_a_grant_that_only_claims_a_passphrase_is_void(store, approver, signature):
    call = waiting_call(store, BY_PASSPHRASE)
    signature = signature.replace("KEY", approver.public)
    approved(store, call, Recognised("passphrase", lambda data: signature))
    assert [grant.state for grant in store.approvals.grants("x")] == ["void"]
    assert not is_answered(store, BY_PASSPHRASE)


def test_a_void_grant_does_not_answer_a_call_that_demands_nothing(store, approver):
    rules = [Rule(tool="pay", action="ask")]
    approved(store, waiting_call(store, rules), Recognised("passphrase", lambda data: "x:y"))
    assert not is_answered(store, rules)


def test_the_key_of_a_passphrase_does_not_count_as_a_listed_key(store, person):
    rules = [Rule(tool="pay", action="ask", proof="signed")]
    approved(store, waiting_call(store, rules), Recognised("signed", person.sign))
    assert not is_answered(store, rules)


def test_a_grant_copied_from_another_session_is_void(store, person):
    waiting_call(store, BY_PASSPHRASE, name="a")
    waiting_call(store, BY_PASSPHRASE)
    here = store.read("a").id
    given = approvals.grant(store.port, store.context, here, "pay", by=ANN, how=person)
    put(store, store.read("x").id, given.record)
    assert not is_answered(store, BY_PASSPHRASE)
    assert is_answered(store, BY_PASSPHRASE, name="a")


@pytest.mark.parametrize("changed", [{"pattern": "*"}, {"expires": 0, "ends": ""}, {"below": ""}])
def test_a_grant_that_was_changed_after_it_was_signed_is_void(store, person, changed):
    waiting_call(store, BY_PASSPHRASE)
    session = store.read("x").id
    until = store.context.clock() + 10**12
    store.context = replace(store.context, below=lambda store: "a run")
    given = approvals.grant(
        store.port, store.context, session, "pay", by=ANN, how=person, expires=until
    )
    put(store, session, msgspec.structs.replace(given.record, **changed))
    assert not is_answered(store, BY_PASSPHRASE)


def test_a_grant_that_was_withdrawn_and_is_put_back_is_void(store, person):
    waiting_call(store, BY_PASSPHRASE)
    session = store.read("x").id
    given = approvals.grant(store.port, store.context, session, "pay", by=ANN, how=person)
    store.approvals.revoke(given.id)
    put(store, session, given.record)
    assert [grant.state for grant in store.approvals.grants("x")] == ["void"]
    assert not is_answered(store, BY_PASSPHRASE)


def used_up(store, person):
    """A payment that was approved and whose outcome is not known; it is to run again."""
    lost = {"tool": pay_and_lose_the_connection}
    given = approved(store, waiting_call(store, BY_PASSPHRASE, **lost), person)
    with pytest.raises(stator.InDoubt):
        is_answered(store, BY_PASSPHRASE, **lost)
    store.doubts.settle(given.record.call, "run again", by=ANN)
    assert paid == [500]
    return given


def test_a_used_grant_that_is_put_back_does_not_answer_the_next_attempt(store, person):
    given = used_up(store, person)
    put(store, store.read("x").id, given.record)
    assert not is_answered(store, BY_PASSPHRASE)
    assert paid == [500]


def test_a_used_grant_that_is_revived_with_sql_does_not_answer_the_next_attempt(
    store, person, tmp_path
):
    used_up(store, person)
    store.close()
    with sqlite3.connect(tmp_path / "agent.db") as database:
        gone = database.execute("DELETE FROM rec WHERE c = 16 AND op = 0").rowcount
    database.close()
    with stator.connect(tmp_path / "agent.db", project="shop") as again:
        assert gone
        assert not is_answered(again, BY_PASSPHRASE)
    assert paid == [500]


def test_a_signed_grant_for_a_call_is_about_one_attempt_at_it(store, person):
    """Also if the whole log was replaced, so that nothing shows that the grant was used."""
    approved(store, waiting_call(store, BY_PASSPHRASE), person)
    standing = approvals.standing_in(store.port, store.read("x").id)
    counts = [
        len(proofs.enough(store.port, store.context, standing, "passphrase", attempt))
        for attempt in (1, 2)
    ]
    assert counts == [1, 0]


def test_a_new_approval_of_the_same_call_answers_the_next_attempt(store, person):
    used_up(store, person)
    call = waiting_call(store, BY_PASSPHRASE)
    approved(store, call, person)
    assert is_answered(store, BY_PASSPHRASE)
    assert paid == [500, 500]


def test_the_same_pattern_can_be_granted_again_after_it_was_withdrawn(store, person):
    waiting_call(store, BY_PASSPHRASE)
    session = store.read("x").id
    for _ in range(2):
        given = approvals.grant(store.port, store.context, session, "pay", by=ANN, how=person)
        last = given
        store.approvals.revoke(given.id)
    approvals.grant(store.port, store.context, session, "pay", by=ANN, how=person)
    assert last.record.nonce
    assert is_answered(store, BY_PASSPHRASE)


# -- keys -----------------------------------------------------------------------------------------


def test_after_the_passphrase_was_changed_older_grants_are_void(store, approver, person):
    call = waiting_call(store, BY_PASSPHRASE)
    approved(store, call, person)
    approver.set_passphrase("another one of mine")
    with stator.connect(store.info().url, project="shop") as again:
        assert [grant.state for grant in again.approvals.grants("x")] == ["void"]
        assert not is_answered(again, BY_PASSPHRASE)


def test_a_driver_that_runs_keeps_the_key_it_began_with(store, approver, person):
    with store.open("x", rules=BY_PASSPHRASE) as s, s.turn("pay") as t:
        with pytest.raises(ApprovalNeeded) as waits:
            t.call(pay, amount=500)
        approver.set_passphrase("the agent's own words")
        own = approver.unlock("the agent's own words")
        approved(store, waits.value.ids["call"], Recognised("passphrase", own.sign))
        approvals.grant(
            store.port, store.context, s.id, "pay", by=ANN, how=Recognised("passphrase", own.sign)
        )
        with pytest.raises(ApprovalNeeded):
            t.call(pay, amount=500)
        approvals.grant(store.port, store.context, s.id, "pay", by=ANN, how=person)
        assert t.call(pay, amount=500) == "paid"


def test_a_passphrase_that_is_set_while_a_driver_runs_does_not_count_for_it(store, tmp_path):
    with store.open("x", rules=BY_PASSPHRASE) as s, s.turn("pay") as t:
        with pytest.raises(ApprovalNeeded):
            t.call(pay, amount=500)
        agents = Approver(UserFolder(str(tmp_path / "data" / "stator")))
        agents.set_passphrase("the agent's own words")
        own = agents.unlock("the agent's own words")
        assert own is not None
        how = Recognised("passphrase", own.sign)
        approvals.grant(store.port, store.context, s.id, "pay", by=ANN, how=how)
        with pytest.raises(ApprovalNeeded):
            t.call(pay, amount=500)


def test_only_the_keys_of_the_environment_count_if_it_names_some(approver, person):
    own = approver.unlock(WORDS)
    data = b"a grant"
    pinned = KnownApprovers({"STATOR_APPROVER_KEYS": own.public})
    other = KnownApprovers({"STATOR_APPROVER_KEYS": "0" * 64, "XDG_DATA_HOME": approver.path[:-16]})
    assert pinned.verifies("passphrase", own.sign(data), data)
    assert not other.verifies("passphrase", own.sign(data), data)


def test_an_environment_with_something_else_than_keys_is_refused():
    with pytest.raises(NotProven, match="no public key"):
        KnownApprovers({"STATOR_APPROVER_KEYS": "ann"}).load()


def test_a_wrong_passphrase_opens_nothing(approver):
    assert approver.unlock("correct horse batterz") is None


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 1}', "\x00", '{"version": 2, "public": "00"}']
)
def test_a_damaged_approver_file_is_an_error_and_not_an_absent_passphrase(approver, text):
    with open(approver.path, "w") as file:
        file.write(text)
    with pytest.raises(NotProven, match="does not hold an approver's key"):
        approver.unlock(WORDS)


def test_an_approver_file_that_others_can_write_is_an_error(approver):
    os.chmod(approver.path, 0o666)
    with pytest.raises(NotProven, match="other users can write it"):
        approver.unlock(WORDS)


def test_the_private_key_is_in_no_file(approver, tmp_path):
    key = approver.unlock(WORDS)._key.private_bytes_raw()
    for file in (tmp_path / "data" / "stator").iterdir():
        assert key not in file.read_bytes()
        assert key.hex().encode() not in file.read_bytes()


def test_a_key_that_the_passphrase_did_not_vouch_for_is_not_listed(approver):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    own = Signer(Ed25519PrivateKey.generate())
    approver.list_key(own.public, None)
    approver.list_key(own.public, own)
    assert approver.listed() == []
    approver.list_key(own.public, approver.unlock(WORDS))
    assert approver.listed() == [own.public]


def test_a_listed_key_answers_a_demand_for_a_signature(store, approver):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    other = Signer(Ed25519PrivateKey.generate())
    approver.list_key(other.public, approver.unlock(WORDS))
    rules = [Rule(tool="pay", action="ask", proof="signed")]
    approved(store, waiting_call(store, rules), Recognised("signed", other.sign))
    assert is_answered(store, rules)


# -- expiry ---------------------------------------------------------------------------------------


def test_a_grant_that_expired_unseen_stays_expired_when_the_clock_is_set_back(store):
    rules = [Rule(tool="pay", action="ask")]
    now, since = store.context.clock(), [1_000_000]
    store.context = replace(store.context, boot=lambda: f"b1:{since[0]}")
    waiting_call(store, rules)
    store.approvals.grant("x", "pay", by=ANN, expires=now + 3600 * 1_000_000)
    since[0] += (
        3601 * 1_000_000
    )  # an hour passes; the clock on the wall is set back, and nothing was committed
    assert [grant.state for grant in store.approvals.grants("x")] == ["expired"]
    assert not is_answered(store, rules)
    assert store.approvals.grants("x") == []


def test_a_call_that_looks_for_its_answer_records_every_expired_grant(store):
    rules = [Rule(tool="*", action="ask")]
    now, since = store.context.clock(), [1_000_000]
    store.context = replace(store.context, boot=lambda: f"b1:{since[0]}")
    waiting_call(store, rules)
    store.approvals.grant("x", "refund", by=ANN, expires=now + 3600 * 1_000_000)
    since[0] += 3601 * 1_000_000
    assert not is_answered(store, rules)
    store.context = replace(store.context, boot=str)  # another boot
    assert store.approvals.grants("x") == []


def test_the_machine_says_how_long_it_has_run():
    name, _, since = boot().partition(":")
    assert name
    assert int(since) > 0
