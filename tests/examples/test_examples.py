"""The examples do what they say: adopting Stator makes a loop shorter, and a crash harmless.

Each runs in a process of its own, as a reader would run it, and is killed with SIGKILL where the
money has just moved.
"""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import stator

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
PAIRS = [("anthropic_before", "anthropic_after"), ("openai_before", "openai_after")]
DURABLE = ["anthropic_after", "openai_after", "dispatch_wrapped", "async_loop"]
ANSWER = "Paid 42.00 to ACME; the receipt is in receipt.txt.\n"


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "invoice.txt").write_text("ACME, 4200 cents\n")
    return tmp_path


def run(name, shop, *, crash=""):
    """Run an example in a folder; what it did there."""
    return subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        cwd=shop,
        env={"PATH": os.environ["PATH"], "HOME": str(shop), "CRASH": crash}
        | {"STATOR_STORE": str(shop / "agent.db")},
        capture_output=True,
        text=True,
        timeout=60,
    )


def left(shop):
    """The files a run left, and what is in them."""
    return {path.name: path.read_text() for path in shop.glob("*.txt")}


def lines_of_loop(name):
    """Lines of the function `run` that are neither blank nor comment."""
    source = (EXAMPLES / f"{name}.py").read_text()
    (loop,) = [
        node
        for node in ast.parse(source).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == "run"
    ]
    lines = source.splitlines()[loop.lineno - 1 : loop.end_lineno]
    return len([line for line in lines if line.strip() and not line.strip().startswith("#")])


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_the_loop_is_shorter_than_it_was(before, after):
    assert lines_of_loop(after) < lines_of_loop(before)


@pytest.mark.parametrize("name", [*DURABLE, "anthropic_before", "openai_before"])
def test_every_loop_gives_the_same_answer_and_the_same_files(name, shop):
    done = run(name, shop)
    assert done.stdout == ANSWER, done.stderr
    assert left(shop) == {
        "invoice.txt": "ACME, 4200 cents\n",
        "ledger.txt": "ACME 4200\n",
        "receipt.txt": "42.00 to ACME\n",
    }


@pytest.mark.parametrize("name", DURABLE)
def test_killed_after_paying_and_run_again_it_has_paid_once(name, shop):
    assert run(name, shop, crash="after").returncode == -signal.SIGKILL
    done = run(name, shop)
    assert done.stdout == ANSWER, done.stderr
    assert left(shop)["ledger.txt"] == "ACME 4200\n"
    assert left(shop)["receipt.txt"] == "42.00 to ACME\n"


@pytest.mark.parametrize("name", DURABLE)
def test_killed_before_paying_it_does_not_pay_and_the_model_looks_into_the_ledger(name, shop):
    assert run(name, shop, crash="before").returncode == -signal.SIGKILL
    run(name, shop)
    assert "ledger.txt" not in left(shop)
    with stator.connect(shop / "agent.db") as store:
        looked = store.read("pay-invoice").calls(tool="read_file")
    assert len(looked) == 2, "when the outcome is unknown, the model looks into the ledger"


@pytest.mark.parametrize("name", DURABLE)
def test_killed_twice_it_has_still_paid_once(name, shop):
    for where in ("after", "receipt"):
        assert run(name, shop, crash=where).returncode == -signal.SIGKILL
    assert run(name, shop).stdout == ANSWER
    assert left(shop)["ledger.txt"] == "ACME 4200\n"


@pytest.mark.parametrize("before", ["anthropic_before", "openai_before"])
def test_the_loop_as_it_was_pays_twice(before, shop):
    run(before, shop, crash="after")
    run(before, shop)
    assert left(shop)["ledger.txt"] == "ACME 4200\nACME 4200\n"


@pytest.mark.parametrize(
    ("crash", "answer"), [("", "paid\n"), ("before", "paid\n"), ("after", "found in the ledger\n")]
)
def test_a_payment_that_can_be_looked_up_is_made_exactly_once(crash, answer, shop):
    if crash:
        assert run("payment", shop, crash=crash).returncode == -signal.SIGKILL
    done = run("payment", shop)
    assert done.stdout == answer, done.stderr
    assert len(left(shop)["ledger.txt"].splitlines()) == 1


def test_the_basket_is_repaired_and_the_record_says_why(shop):
    run("fix_basket", shop)
    with stator.connect(shop / "agent.db") as store:
        view = store.read("fix-basket")
        (decision,) = view.decisions(standing=True)
        touched = {change.path for change in view.files()}
    assert decision.record.what == "count cents"
    assert touched == {"basket.py", "money.py"}
    check = subprocess.run([sys.executable, "-m", "unittest", "-q"], cwd=shop, capture_output=True)
    assert check.returncode == 0, check.stderr
