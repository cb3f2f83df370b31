"""A payment whose tool can find out, after a crash, whether it happened.

    python payment.py                  pays; run again after a crash, it looks before it pays again
    CRASH=after python payment.py      is killed when the bank has taken the money
    CRASH=before python payment.py     is killed just before that

The idempotency key of a call is the same in every attempt, also after a restart. The bank books it with
the payment, and the look-up finds the payment by it.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import stator

LEDGER = Path("ledger.txt")


def look_into_ledger(intent: Any) -> Any:
    """Find out what became of a payment in doubt. Stator asks this before anything is paid again."""
    booked = LEDGER.read_text() if LEDGER.exists() else ""
    return ("done", "found in the ledger") if intent.key in booked else "not_done"


@stator.tool(effect="write", reconcile=look_into_ledger)
def pay(to: str, cents: int, idempotency_key: str) -> str:
    """The bank: every line of its ledger is money that is gone."""
    crash("before")
    with LEDGER.open("a") as ledger:
        ledger.write(f"{to} {cents} {idempotency_key}\n")
    crash("after")
    return "paid"


def crash(when: str) -> None:
    if os.environ.get("CRASH") == when:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    with stator.open("pay-acme", agent="demo") as s, s.turn("pay the invoice of ACME") as t:
        print(t.call(pay, to="ACME", cents=4200))
