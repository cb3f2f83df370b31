"""A store with something for every page: doubts, a fork, a compaction, files, costs, hostile text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import stator
from stator.runtime.facade.store import Store

HOSTILE = (
    "<script>alert(1)</script><svg onload=alert(2)><a href='javascript:alert(3)'>x</a>"
    "data:text/html,<b>x</b> \x1b[31mred\x1b[0m \u202eevil\u202c \x00end {{ 7 * 7 }}"
)
KILLED = """
import os, signal, stator

@stator.tool(effect="write")
def pay(to, cents):
    os.kill(os.getpid(), signal.SIGKILL)

with stator.connect({store!r}, project={project!r}) as store:
    with store.open("pay-acme", agent="payer") as s, s.turn("pay the invoice of ACME", key="17") as t:
        t.call(pay, to="ACME", cents=4200)
"""


@stator.tool(effect="read")
def read_file(path: str) -> str:
    return f"text of {path}\n" * 20


@stator.tool(effect="write", files="path")
def write_file(path: str, text: str) -> str:
    return f"wrote {len(text)} characters"


@stator.tool(effect="write")
def run(command: str) -> str:
    if "fail" in command:
        raise RuntimeError("exit 1: 3 tests failed")
    return "ok"


WORK = (
    ("read how the checkout charges a card", "checkout/charge.py", "one charge a basket"),
    ("write a test for the double charge", "tests/test_charge.py", "a test before the fix"),
    ("count money in cents", "checkout/money.py", "whole cents, no floats"),
    ("show the total with tax", "checkout/totals.py", "tax is added last"),
    ("retry the bank when it times out", "checkout/bank.py", "three tries, then a person"),
    ("keep the receipt", "checkout/receipts.py", "receipts are never changed"),
    ("send the receipt by mail", "checkout/mail.py", "mail goes out after the charge"),
    ("make the basket survive a restart", "checkout/basket.py", "the basket lives in the database"),
    ("let a clerk cancel an order", "checkout/cancel.py", "cancelling needs a reason"),
    ("log every charge", "checkout/charge.py", "one line a charge"),
    ("check the card before the charge", "checkout/cards.py", "the bank checks, we do not"),
    ("round discounts", "checkout/totals.py", "discounts are rounded down"),
    ("name the shop on the receipt", "checkout/receipts.py", "the name comes from settings"),
    ("clean up old baskets", "checkout/basket.py", "after thirty days"),
    ("fix the double charge", "checkout/charge.py", "lock the row of the order"),
)
"""What is asked in each turn, the file it is about, and what is decided."""


def fill(path: Path, *, hostile: bool = True) -> None:
    """Record sessions of every kind into a new store."""
    with stator.connect(path, project="shop") as store:
        _checkout(store)
        if hostile:
            _hostile(store)
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    program = KILLED.format(store=str(path), project="shop")
    subprocess.run([sys.executable, "-c", program], check=False, env=environment)


def _checkout(store: Store) -> None:
    with store.open("checkout", agent="coder") as s:
        for n, (asked, path, choice) in enumerate(WORK, 1):
            with s.turn(asked) as t:
                t.call(read_file, path=path)
                t.call(write_file, path=path, text="x = 1\n")
                t.try_call(run, command="pytest -q fail" if n % 5 == 0 else "pytest -q")
                t.decide(choice, topic=f"topic {n % 3}", why="it is simpler", over=["not to"])
                t.plan(asked, status="done" if n < 13 else "pending")
                t.say(f"Done: {asked}. The tests {'fail' if n % 5 == 0 else 'pass'}.")
        s.compact()
    store.fork("checkout", at="t14", as_name="checkout-keys")
    with store.open("checkout-keys") as f, f.turn("fix the double charge") as t:
        t.decide("idempotency keys", topic="topic 0", why="they survive a restart")
        t.call(run, command="pytest -q")
        t.say("Every charge has a key now; the tests pass.")


def _hostile(store: Store) -> None:
    with store.open(f"hostile {HOSTILE[:30]}", agent="<b>agent</b>") as s:
        with s.turn(HOSTILE) as t:
            t.call(read_file, path=HOSTILE)
            t.decide(HOSTILE, topic=HOSTILE, why=HOSTILE)
            t.fact(HOSTILE, HOSTILE)
            t.file("src/<img src=x onerror=alert(4)>.py", "modified")
            t.say(HOSTILE)
        with s.turn("a very long line") as t:
            t.call(run, command="y" * 10_000_000)
            t.say("<b>" * 500_000)
