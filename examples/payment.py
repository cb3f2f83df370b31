"""An agent that pays, written to be killed while it does: the second act of `make demo`.

    python payment.py               run it; run it again after a crash and it goes on
    python payment.py --no-probe    the same, with a bank that cannot be asked

`CRASH=after` in the environment kills it (SIGKILL) when the bank has taken the money.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import stator

LEDGER = Path("ledger.txt")
PROMPT = "pay the invoice of ACME"


@stator.tool(effect="read")
def read_invoice(path: str) -> str:
    return Path(path).read_text().strip()


@stator.tool(effect="write")
def pay(to: str, cents: int, idempotency_key: str) -> str:
    """The bank: every line of its ledger is money that is gone."""
    with LEDGER.open("a") as ledger:
        ledger.write(f"{to} {cents} {idempotency_key}\n")
    if os.environ.get("CRASH") == "after":
        say("pay", "the bank has taken the money, and now the process is killed")
        os.kill(os.getpid(), signal.SIGKILL)
    return f"paid {cents} cents to {to}"


def look_into_ledger(intent: Any) -> Any:
    """The probe: what became of a call that nobody vouches for? Asked once, after a crash."""
    booked = LEDGER.read_text() if LEDGER.exists() else ""
    found = intent.key in booked
    say("probe", f"is {intent.key[:8]}… in the ledger? {'yes' if found else 'no'}")
    return ("done", "paid, says the ledger") if found else "not_done"


def report(found: Any) -> None:
    """What the last run left, in people's words."""
    if not found.interrupted:
        return
    say("!", f"the last run stopped in turn {found.turn} ({found.cause.partition(' · ')[0]})")
    for call in found.settled:
        say("known", f"{shown(call)} ended {call.status}; it will not run again")
    for call in found.in_doubt:
        say("in doubt", f"{shown(call)} may or may not have happened")


def shown(call: Any) -> str:
    return f"{call.tool}({', '.join(f'{name}={value}' for name, value in call.arguments.items())})"


def say(mark: str, text: str) -> None:
    print(f"  {mark:<9} {text}", flush=True)


def main() -> int:
    probed = "--no-probe" not in sys.argv
    tool = pay.using(reconcile=look_into_ledger) if probed else pay
    with stator.open("pay-acme" if probed else "pay-acme-blind", agent="demo") as s:
        report(s.recovery)
        with s.turn(PROMPT) as t:
            say(f"t{t.number}", PROMPT + (" (continued)" if t.continued else ""))
            to, amount = t.call(read_invoice, path="invoice.txt").split()
            done = t.try_call(tool, to=to, cents=int(amount))
            if done.status == "in doubt":
                raise done.to_error()  # leaves the turn interrupted: the next run goes on here
            again = " (not run again)" if done.replayed else ""
            say("pay", f"{done.value or 'done, says somebody who looked'}{again}")
            t.say(f"ACME has its {amount} cents.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except stator.InDoubt as error:
        say("stopped", error.what)
        sys.exit(1)
