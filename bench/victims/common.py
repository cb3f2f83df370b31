"""What every victim shares: the bank, and a model that is a script.

python -m bench.victims.NAME start     in the folder of the attempt; killed where $CRASH says
python -m bench.victims.NAME resume    the way the framework says to go on
python -m bench.victims.NAME look      what it kept of the payment, as one line of JSON
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROMPT = "pay ACME 4200 cents"
ASK = {"to": "ACME", "cents": 4200}
PAID = "ACME is paid."
UNKNOWN = "I do not know whether ACME was paid; somebody must look."
DOUBT = "may or may not have happened"
LEDGER, SHOWN = Path("ledger.txt"), Path("shown.jsonl")


def pay(to: str, cents: int) -> str:
    """Pay somebody. Takes effect at once: a line in the bank's ledger, on disk."""
    crash("before")
    with LEDGER.open("a") as ledger:
        ledger.write(f"{to} {cents}\n")
        ledger.flush()
        os.fsync(ledger.fileno())
    crash("after")
    return f"paid {cents} cents to {to}"


def crash(where: str) -> None:
    if os.environ.get("CRASH") == where:
        os.kill(os.getpid(), signal.SIGKILL)


def think(items: list[dict[str, str]]) -> str:
    """What the model says to what it is shown: "" asks for the payment, else it is the answer.

    An item is {"what": "prompt" | "call" | "result", "text": …}. It does what a careful model does:
    asked to pay and shown no payment, it pays; shown a result, it is done; told that nobody knows, it
    says so instead of paying again.
    """
    with SHOWN.open("a") as file:
        file.write(json.dumps(items) + "\n")
    if any(DOUBT in item["text"] for item in items):
        return UNKNOWN
    return PAID if any(item["what"] == "result" for item in items) else ""


def main(
    start: Callable[[], Any], resume: Callable[[], Any], kept: Callable[[], list[str]]
) -> None:
    mode = sys.argv[1]
    if mode == "look":
        print(json.dumps(kept()))
    else:
        print({"start": start, "resume": resume}[mode]())
