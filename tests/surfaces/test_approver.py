"""Setting the passphrase of approvals, listing keys, and what `approvals` and `doctor` say about it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import stator
from runtime.waiting import ask_for
from stator.approvals import Rule
from stator.owner import ancestry
from surfaces.paying_agent import PROGRAM, typed

WORDS = "correct horse battery"


AGENT_ABOVE = ancestry.below({}, {})
"""The agent that runs these tests: commands of their own processes would be refused below it."""


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.setenv("COLUMNS", "240")
    if AGENT_ABOVE:
        pytest.skip("the tests themselves run below an agent")


@pytest.fixture
def words(tmp_path):
    """Write a passphrase to a file."""

    def write(text: str) -> str:
        file = tmp_path / f"words {len(text)}"
        file.write_text(text + "\n")
        return str(file)

    return write


@pytest.fixture
def file():
    """The approver's file of the user whom the tests play."""
    return Path(os.environ["HOME"], ".local/share/stator/approver")


@pytest.fixture
def waits(store):
    """A payment that waits and demands a passphrase."""
    rules = [Rule(tool="pay", action="ask", proof="passphrase")]
    with stator.connect(store, project="shop").open("shop", rules=rules) as s, s.turn("pay") as t:
        with pytest.raises(stator.ApprovalNeeded) as waiting:
            t.call(pay, amount=5)
        return waiting.value.ids["call"]


@stator.tool()
def pay(amount: int) -> str:
    return "paid"


def pem(path, key) -> str:
    path.write_bytes(key)
    return str(path)


@pytest.fixture
def pair(tmp_path):
    """A key pair in two files, as openssl writes them."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return pem(tmp_path / "key.pem", private), pem(tmp_path / "key.pub", public)


# -- setting it -----------------------------------------------------------------------------------


def test_a_passphrase_is_set_in_a_file_that_only_its_user_can_read(ask, words, file):
    answer = ask("init", "--approver", "--passphrase-file", words(WORDS))
    assert answer.code == 0
    assert f"created {file}" in answer.out
    assert file.stat().st_mode & 0o777 == 0o600
    assert WORDS not in file.read_text()


def test_a_passphrase_is_typed_twice(file, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    assert typed([*PROGRAM, "init", "--approver"], [WORDS, "another"])[0] == 2
    assert not file.exists()
    assert typed([*PROGRAM, "init", "--approver"], [WORDS, WORDS])[0] == 0
    assert file.exists()


def test_the_answer_as_json_has_the_public_key(ask, words, file):
    found = json.loads(ask("init", "--approver", "--passphrase-file", words(WORDS), "--json").out)
    assert (found["approver"], found["replaced"]) == (str(file), False)
    assert found["public"] in file.read_text()


def test_a_passphrase_is_changed_only_by_who_knows_the_old_one(ask, words, file):
    ask("init", "--approver", "--passphrase-file", words(WORDS))
    before = file.read_bytes()
    new = words("a new passphrase")
    answer = ask("init", "--approver", "--passphrase-file", new)
    assert (answer.code, file.read_bytes()) == (2, before)
    assert "there is no terminal to ask for it" in answer.err
    wrong = ("--old-passphrase-file", words("wrong"))
    assert ask("init", "--approver", "--passphrase-file", new, *wrong).code == 2
    assert file.read_bytes() == before
    right = ("--old-passphrase-file", words(WORDS))
    answer = ask("init", "--approver", "--passphrase-file", new, *right)
    assert (answer.code, file.read_bytes() == before) == (0, False)
    assert "signed with the old passphrase are void" in answer.out


def test_a_short_passphrase_is_refused(ask, words, file):
    assert "at least 8" in ask("init", "--approver", "--passphrase-file", words("1234567")).err
    assert not file.exists()


def test_a_machine_without_the_package_is_told_how_to_install_it(ask, words, monkeypatch, file):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    answer = ask("init", "--approver", "--passphrase-file", words(WORDS))
    assert answer.code == 2
    assert "pip install 'stator[crypto]'" in answer.err
    assert not file.exists()


@pytest.mark.parametrize("variable", ["CLAUDECODE", "GEMINI_CLI", "CODEX_SANDBOX", "STATOR_RUN"])
def test_who_may_approve_is_not_set_below_an_agent(ask, words, file, monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    answer = ask("init", "--approver", "--passphrase-file", words(WORDS))
    assert answer.code == 2
    assert f"(${variable})" in answer.err
    assert not file.exists()


# -- approving ------------------------------------------------------------------------------------


def test_a_waiting_call_shows_that_it_needs_the_passphrase(waits, ask):
    assert "needs: an approval with your passphrase" in ask("approvals").out
    assert json.loads(ask("approvals", "--json").lines[0])["proof"] == "passphrase"


def test_without_a_passphrase_the_error_says_how_to_set_one(waits, ask):
    answer = ask("approve", waits)
    assert answer.code == 2
    assert "no passphrase is set for approvals" in answer.err
    assert "stator init --approver" in answer.err


def test_the_right_passphrase_approves_and_a_wrong_one_records_nothing(waits, ask, words):
    ask("init", "--approver", "--passphrase-file", words(WORDS))
    answer = ask("approve", waits, "--passphrase-file", words("wrong"))
    assert (answer.code, ask("approvals", "--grants", "--json").out) == (2, "")
    assert "is wrong; nothing was recorded" in answer.err
    answer = ask("approve", waits, "--passphrase-file", words(WORDS))
    assert answer.code == 0
    assert " · passphrase · " in answer.out
    for command in (["log", "shop"], ["approvals", "--grants"]):
        assert " · passphrase" in ask(*command).out


def test_an_error_as_json_has_its_code(waits, ask):
    error = json.loads(ask("approve", waits, "--json").err.splitlines()[-1])
    assert error["code"] == "E_PROOF"


def test_a_listed_key_signs_an_approval(waits, ask, words, pair):
    private, public = pair
    refused = ask("approve", waits, "--signing-key", private)
    assert "is not a key that may approve here" in refused.err
    assert ask("init", "--approver-key", public).code == 0
    answer = ask("approve", waits, "--signing-key", private)
    assert (answer.code, " · signed · " in answer.out) == (0, True)
    assert json.loads(ask("approvals", "--json").lines[0])["answer"] == "approved"


def test_where_a_passphrase_is_set_it_is_needed_to_list_a_key(ask, words, pair):
    ask("init", "--approver", "--passphrase-file", words(WORDS))
    assert ask("init", "--approver-key", pair[1]).code == 2
    answer = ask("init", "--approver-key", pair[1], "--passphrase-file", words(WORDS))
    assert (answer.code, "listed " in answer.out) == (0, True)


@pytest.mark.parametrize("text", ["", "-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----"])
def test_a_file_without_a_key_is_refused(waits, ask, tmp_path, text):
    bad = tmp_path / "bad"
    bad.write_text(text)
    assert ask("init", "--approver-key", str(bad)).code == 2
    assert ask("approve", waits, "--signing-key", str(bad)).code == 2
    assert ask("approve", waits, "--signing-key", str(tmp_path / "none")).code == 3


def test_an_unknown_proof_is_refused(waits, ask):
    assert "unknown proof 'face'" in ask("approve", waits, "--proof", "face").err


def test_a_project_that_demands_a_passphrase_asks_for_it_in_advance_too(store, ask, words):
    Path("stator.toml").write_text('proof = "passphrase"\n')
    assert ask("approve", "--pattern", "pay", "-s", "fix-login").code == 2
    ask("init", "--approver", "--passphrase-file", words(WORDS))
    file = ("--passphrase-file", words(WORDS))
    assert ask("approve", "--pattern", "pay", "-s", "fix-login", *file).code == 0


def test_why_says_who_approved_a_call_about_a_file_and_how(store, ask):
    with stator.connect(store, project="shop").open("fix-login") as s, s.turn("edit") as t:
        call = ask_for(s, "edit", path="auth.py")
        assert ask("approve", call).code == 0
        t.file("auth.py", "modified")
    assert "approved by local:" in ask("why", "auth.py", "-s", "fix-login").out
    assert " · below driver " in ask("why", "auth.py", "-s", "fix-login").out


# -- what the set-up proves -----------------------------------------------------------------------


def test_doctor_says_that_anyone_can_approve_while_no_passphrase_is_set(store, ask):
    out = ask("doctor").out
    assert "any process of this user can approve, also the agent: no passphrase is set" in out
    assert "stator init --approver" in out


def test_doctor_says_what_a_passphrase_proves_and_what_it_does_not(store, ask, words, file):
    ask("init", "--approver", "--passphrase-file", words(WORDS))
    found = json.loads(ask("doctor", "--json").out)
    assert f"cannot forge a signed approval, unless it replaces {file}" in found["approvals"]
    assert "without a demand for proof, any process of this user can approve" in found["approvals"]


def test_doctor_finds_a_demand_that_nobody_can_satisfy(store, ask):
    Path("stator.toml").write_text('proof = "passphrase"\n')
    answer = ask("doctor")
    assert answer.code == 1
    assert "demands a passphrase, and none is set: nothing can be approved" in answer.out


def test_doctor_and_grants_show_approvals_of_a_replaced_key_as_void(waits, ask, words, file):
    ask("init", "--approver", "--passphrase-file", words(WORDS))
    ask("approve", waits, "--passphrase-file", words(WORDS))
    file.unlink()
    ask("init", "--approver", "--passphrase-file", words("of another one"))
    assert ask("approvals", "--grants").lines[1].endswith(" · void")
    assert "is void: it claims the proof passphrase" in ask("doctor").out


def test_a_damaged_approver_file_is_reported_and_stops_no_list(waits, ask, words, file):
    ask("init", "--approver", "--passphrase-file", words(WORDS))
    file.write_text("{}")
    assert "no signed approval can be verified" in ask("approvals").out
    assert "does not hold an approver's key" in ask("doctor").out


# -- the agent's own surfaces ---------------------------------------------------------------------


def test_the_mcp_server_offers_no_way_to_approve():
    from stator.surfaces.mcp.tools import definitions, registry

    source = Path(definitions.__file__).read_text() + Path(registry.__file__).read_text()
    assert "approv" not in source.lower()


def test_no_module_of_the_agents_surfaces_can_record_a_grant():
    surfaces = Path(stator.__file__).parent / "surfaces"
    files = [surfaces / "hook.py", surfaces / "hook_answer.py"]
    files += [*(surfaces / "mcp").rglob("*.py"), *(surfaces / "proxy").rglob("*.py")]
    found = [file.name for file in files if "driving.approvals" in file.read_text()]
    found += [file.name for file in files if ".approvals" in file.read_text()]
    assert found == []
