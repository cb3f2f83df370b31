"""What an approval proves, what a rule demands, and which grants are enough."""

from __future__ import annotations

import msgspec
import pytest

from stator.approvals import Rule, parse_policy
from stator.errors import InvalidInput
from stator.model.calls.approval import end_since_boot, is_expired, parse_proof
from stator.model.calls.proof import PROOFS, demanded, is_enough, signed_bytes
from stator.model.records.types import ApprovalRecord

HOUR = 3600 * 1_000_000


def grant(**fields) -> ApprovalRecord:
    return ApprovalRecord(tool="pay", by="local:ann", **fields)


@pytest.mark.parametrize("demand", PROOFS)
@pytest.mark.parametrize("proof", PROOFS)
def test_a_grant_is_enough_if_its_proof_is_at_least_as_strong_as_the_demand(proof, demand):
    strong = PROOFS.index(proof) >= PROOFS.index(demand)
    assert is_enough(grant(proof=proof), demand) is strong


@pytest.mark.parametrize("proof", PROOFS)
def test_a_grant_given_below_an_agent_is_enough_for_no_demand(proof):
    given = grant(proof=proof, below="driver 4711 (agent.py)")
    assert [is_enough(given, demand) for demand in ("", *PROOFS)] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_a_denial_is_always_enough():
    assert is_enough(grant(verdict="denied", below="agent claude"), "signed")


def test_a_proof_that_this_release_does_not_know_is_the_weakest():
    assert not is_enough(grant(proof="retina"), "terminal")


def test_the_strongest_demand_counts():
    assert demanded(["", "terminal", "passphrase", "program"]) == "passphrase"
    assert demanded(["program", ""]) == ""
    assert demanded([]) == ""


@pytest.mark.parametrize(
    "changed",
    [
        {"arguments": "f" * 64},
        {"attempt": 2},
        {"below": "x"},
        {"by": "local:eve"},
        {"call": "c_1"},
        {"expires": 5},
        {"ends": "b:5"},
        {"nonce": "00"},
        {"pattern": "*"},
        {"proof": "signed"},
        {"scope": "project"},
        {"tool": "refund"},
        {"verdict": "denied"},
    ],
)
def test_a_signature_covers_every_field_of_the_grant(changed):
    given = grant(proof="passphrase")
    other = msgspec.structs.replace(given, **changed)
    assert signed_bytes(given, "s_1", "here") != signed_bytes(other, "s_1", "here")


def test_the_fields_that_a_signature_covers_are_all_but_itself_and_the_mark():
    covered = {"tool", "arguments", "attempt", "below", "by", "call", "ends", "expires", "nonce"}
    covered |= {"pattern", "proof", "scope", "verdict"}
    assert set(ApprovalRecord.__struct_fields__) == covered | {"signature", "sure"}


def test_a_signature_covers_session_and_store():
    given = grant()
    assert len({signed_bytes(given, s, store) for s in ("s_1", "s_2") for store in "ab"}) == 4


# -- rules ----------------------------------------------------------------------------------------


def test_a_rule_of_a_policy_file_demands_a_proof():
    text = '[[approval]]\ntool = "pay"\naction = "ask"\nproof = "passphrase"'
    assert parse_policy(text) == [Rule(tool="pay", proof="passphrase")]


def test_a_policy_file_demands_a_proof_for_every_rule():
    assert parse_proof('proof = "signed"\n[[approval]]\naction = "ask"') == "signed"
    assert parse_proof("") == ""


@pytest.mark.parametrize("text", ['proof = "face"', "proof = 3", '[proof]\nof = "x"'])
def test_an_unknown_proof_in_a_policy_file_is_refused(text):
    with pytest.raises(InvalidInput) as refused:
        parse_proof(text)
    assert refused.value.path == "$.proof"


@pytest.mark.parametrize("proof", ["face", 3])
def test_an_unknown_proof_in_a_rule_is_refused(proof):
    with pytest.raises(InvalidInput) as refused:
        Rule(tool="pay", proof=proof)
    assert refused.value.path == "$.proof"


@pytest.mark.parametrize("action", ["allow", "deny"])
def test_only_a_rule_that_asks_demands_a_proof(action):
    with pytest.raises(InvalidInput, match="only a rule that asks"):
        Rule(tool="pay", action=action, proof="terminal")


# -- expiry ---------------------------------------------------------------------------------------


def test_a_grant_expires_by_the_time_since_boot_though_the_clock_was_set_back():
    given = grant(expires=2 * HOUR, ends=end_since_boot("b1:500", HOUR))
    assert not is_expired(given, HOUR, f"b1:{HOUR + 499}")
    assert is_expired(given, HOUR, f"b1:{HOUR + 500}")


def test_the_time_since_another_boot_says_nothing():
    given = grant(expires=2 * HOUR, ends=end_since_boot("b1:500", HOUR))
    assert not is_expired(given, HOUR, f"b2:{9 * HOUR}")
    assert not is_expired(given, HOUR, "")


def test_a_machine_that_does_not_say_when_it_started_records_no_end():
    assert end_since_boot("", HOUR) == ""
