"""An agent with a shell tries to approve its own payment: real processes, real terminals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stator.owner import ancestry
from surfaces import paying_agent
from surfaces.paying_agent import PROGRAM, typed
from surfaces.recorded import program

AGENT = paying_agent.__file__
PASSPHRASE = "correct horse battery"
APPROVE = [*PROGRAM, "approve", "CALL"]
SHELL = " ".join(APPROVE)
PTY = f"import pty; pty.spawn({APPROVE!r})"
LIBRARY = """
import stator
with stator.connect() as store:
    store.approvals.grant("x", "pay", by="local:ann")
    store.approvals.approve("CALL", by="local:ann")
"""
FORGED = """
import stator
from msgspec.structs import replace
from stator.owner.approver import Signer
from stator.runtime.driving import approvals
from stator.runtime.driving.proofs import Recognised
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
own = Signer(Ed25519PrivateKey.generate())
with stator.connect() as store:
    context = replace(
        store.context, below=lambda store: "", started_by=lambda store, session: ""
    )
    for proof in ("passphrase", "signed"):
        how = Recognised(proof, own.sign)
        approvals.grant(store.port, context, store.read("x").id, "pay", by="local:ann", how=how)
        approvals.approve(store.port, context, "CALL", by="local:ann", how=how)
"""
BELOW = {
    "directly": APPROVE,
    "by a shell": ["sh", "-c", SHELL],
    "in a session of its own": ["setsid", "--wait", *APPROVE],
    "without hangups": ["nohup", *APPROVE],
    "in a terminal of script": ["script", "-qec", SHELL, "/dev/null"],
    "in a terminal of Python": [sys.executable, "-c", PTY],
    "by the library": [sys.executable, "-c", LIBRARY],
}


AGENT_ABOVE = ancestry.below({}, {})
"""The agent that runs these tests: commands of their own processes would be refused below it."""


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """A store of its own; no agent may be above the tests that play the person."""
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "agent.db"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    monkeypatch.setenv("COLUMNS", "240")
    for variable in ancestry.VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    if AGENT_ABOVE:
        pytest.skip("the tests themselves run below an agent")


@pytest.fixture
def passphrase(tmp_path):
    """The person's passphrase is set; it is in a file only where the person needs it."""
    file = tmp_path / "typed"
    file.write_text(PASSPHRASE)
    done = program("init", "--approver", "--passphrase-file", str(file))
    assert done.code == 0, done.err
    return str(file)


def run(proof: str, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, AGENT, proof, *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_paid() -> bool:
    """Whether the payment was made, after the agent was given every chance."""
    return os.path.exists("paid")


def waiting() -> str:
    (item,) = [json.loads(line) for line in program("approvals", "--json").out.splitlines()]
    assert item["answer"] == ""
    return str(item["call"])


def grants() -> list[dict[str, str]]:
    return [
        json.loads(line) for line in program("approvals", "--grants", "--json").out.splitlines()
    ]


@pytest.mark.parametrize("proof", ["", "terminal", "passphrase"])
@pytest.mark.parametrize("how", BELOW)
def test_an_agent_cannot_approve_from_its_own_shell(passphrase, how, proof):
    command = BELOW[how]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    said = run(proof, *command)
    run(proof)
    assert not is_paid()
    said = said.replace("\r", "")
    assert "this command runs below driver" in said or "an agent does not approve its own" in said
    waiting()


def test_without_a_demand_a_process_without_ancestors_can_approve():
    """The known limit of ancestry: only a passphrase or a signature proves a person."""
    run("", sys.executable, AGENT, "orphaned", *APPROVE)
    run("")
    assert is_paid()


def test_the_driver_itself_may_record_the_answer_of_its_user_and_the_record_says_so():
    program_text = (
        "import stator\n"
        "store = stator.connect()\n"
        "with store.open('x', rules=[stator.Rule(tool='pay')]) as s, s.turn('pay') as t:\n"
        "    store.approvals.grant('x', 'pay', by='local:ann')\n"
        "    t.call(stator.tool(lambda: open('paid', 'w').close(), name='pay', effect='write'))\n"
    )
    subprocess.run([sys.executable, "-c", program_text], check=True)
    assert is_paid()
    assert " · below driver " in program("log", "x").out


def test_a_guessed_passphrase_approves_nothing_even_from_a_process_without_ancestors(passphrase):
    said = run("passphrase", sys.executable, AGENT, "orphaned", *APPROVE)
    assert "the passphrase was wrong 3 times; nothing was recorded" in said
    run("passphrase")
    assert not is_paid()
    assert grants() == []


def test_a_process_without_ancestors_in_a_terminal_of_its_own_evades_the_demand_for_a_terminal():
    """The known limit of ancestry: only a passphrase or a signature proves a person."""
    run("terminal", sys.executable, AGENT, "orphaned", *APPROVE)
    run("terminal")
    assert is_paid()


def test_a_grant_signed_by_a_key_of_the_agent_is_void(passphrase):
    run("passphrase", sys.executable, "-c", FORGED)
    run("passphrase")
    assert not is_paid()
    assert {grant["state"] for grant in grants()} == {"void"}
    found = program("doctor")
    assert found.code == 1
    assert "no key that is known here signed it" in found.out


def test_an_agent_cannot_set_the_passphrase_itself(tmp_path):
    other = tmp_path / "other"
    other.write_text("the agent's own words")
    said = run("passphrase", *PROGRAM, "init", "--approver", "--passphrase-file", str(other))
    assert "who may approve is not set by an agent" in said
    assert "no passphrase is set" in program("doctor", "--json").out


def test_the_person_approves_with_the_passphrase_in_a_terminal(passphrase):
    run("passphrase")
    code, shown = typed([*PROGRAM, "approve", waiting()], ["wrong", PASSPHRASE])
    assert (code, "the passphrase is wrong, try again" in shown) == (0, True)
    assert [(grant["proof"], grant["below"]) for grant in grants()] == [("passphrase", "")]
    run("passphrase")
    assert is_paid()


def test_the_person_approves_in_a_terminal_where_that_is_demanded():
    run("terminal")
    assert program("approve", waiting()).code == 2
    assert typed([*PROGRAM, "approve", waiting()], [])[0] == 0
    run("terminal")
    assert is_paid()


def test_a_passphrase_typed_below_the_agent_is_refused_before_it_is_asked_for(passphrase):
    said = run("passphrase", *APPROVE, "--passphrase-file", passphrase)
    assert "this command runs below driver" in said
    assert "one that no agent started" in said
    run("passphrase")
    assert not is_paid()


def test_a_denial_needs_no_proof(passphrase):
    run("passphrase")
    assert program("deny", waiting(), "--why", "no").code == 0
    done = subprocess.run(
        [sys.executable, AGENT, "passphrase"], capture_output=True, text=True, check=False
    )
    assert "pay denied: no" in done.stderr
    assert not is_paid()


def test_a_terminal_that_is_asked_for_and_missing_is_an_error_not_a_weaker_proof(monkeypatch):
    from stator.errors import NotProven
    from stator.surfaces.cli.parts import person

    monkeypatch.setattr(person, "is_terminal", lambda: False)
    with pytest.raises(NotProven, match="no terminal"):
        person.Person(proof="terminal").recognise("", lambda: "")
    assert person.Person().recognise("", lambda: "").proof == "program"
