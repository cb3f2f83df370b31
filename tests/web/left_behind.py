"""A program that leaves behind what waits for a person in each of some stores, and is killed there while it pays.

python left_behind.py PROOF STORE…
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import stator
from stator.approvals import Rule


def look_into_ledger(intent: Any) -> str:
    return "not_done"


@stator.tool(effect="write", reconcile=look_into_ledger)
def pay(to: str, cents: int, idempotency_key: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "paid"


@stator.tool(effect="write")
def migrate(database: str) -> str:
    return "migrated"


@stator.tool(effect="write")
def shell(command: str) -> str:
    raise RuntimeError("exit status 1: 10 of 12 pass")


def leave(place: str, proof: str) -> None:
    with stator.connect(place, project="shop", durability="relaxed") as store:
        with store.open("fix-login", agent="claude-code") as s, s.turn("Make the tests pass") as t:
            t.plan("Write the view", "done", check="python -m pytest tests/view", order=1)
            t.plan("Ship it", "pending", order=2)
            t.try_call(shell, command="python -m pytest tests/view")
            t.decide(
                "Shared sandbox, one owner",
                topic="tests reach the database",
                why="the page runs elsewhere",
            )
            t.say(
                "Two tests still fail.",
                usage={"tokens": 1280, "tokens:cache_read": 900, "money:usd": 42_000},
            )
        rules = [Rule(tool="migrate", action="ask", proof=proof)]
        try:
            with (
                store.open("move-data", agent="demo", rules=rules) as s,
                s.turn("Move the data") as t,
            ):
                t.call(migrate, database="shop.db")
        except stator.ApprovalNeeded:
            pass
        store.contribute("fix-login").flag("review", why="it never ran the linter")
        with store.open("pay-acme", agent="demo") as s, s.turn("Pay the invoice of ACME") as t:
            t.call(pay, to="ACME", cents=4200)


def main(proof: str, *places: str) -> None:
    with (
        stator.connect("memory:") as store,
        store.open("x") as s,
        s.turn("load everything once") as t,
    ):
        t.try_call(shell, command="true")
    for place in places:
        child = os.fork()
        if not child:
            leave(place, proof)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL


if __name__ == "__main__":
    main(*sys.argv[1:])
