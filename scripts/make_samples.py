"""Write the two sample sessions that `stator web` shows where there is nothing else: run them, and export them.

python scripts/make_samples.py

One is a payment whose process is killed in the middle; the other is a coding session that ended well.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import stator

FOLDER = Path(__file__).resolve().parent.parent / "src/stator/surfaces/web/samples"
PROJECT = "sample"


@stator.tool(effect="read")
def find_invoice(number: int) -> dict[str, object]:
    return {"number": number, "to": "Paper & Co", "amount": 1290, "currency": "EUR"}


@stator.tool(effect="write")
def pay(invoice: int, amount: int) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "paid"


@stator.tool(effect="read")
def run_tests() -> str:
    return "14 passed"


def payment(store: stator.Store) -> None:
    """A payment that is cut off: nobody knows whether it happened."""
    opened = store.open("pay-invoice-42 (sample)", agent="payments")
    with opened as session, session.turn("Pay invoice 42 if it is below 2,000 euros.") as turn:
        found = turn.call(find_invoice, number=42)
        why = "1,290 euros is below the limit of 2,000"
        turn.decide("pay it now", topic="invoice 42", why=why)
        turn.call(pay, invoice=42, amount=int(str(found["amount"])))


def coding(store: stator.Store) -> None:
    """A bug that was found and mended."""
    with store.open("fix-login (sample)", agent="coder") as session:
        with session.turn("Users are logged out every few minutes. Find out why.") as turn:
            turn.plan("find where sessions expire", status="done")
            turn.plan("mend it and test it")
            turn.fact("cause", "the cookie's lifetime is in seconds, the setting in minutes")
            turn.dead_end("the clock of the server", why="it is right to the second")
            turn.say("The setting is 30 minutes, but the cookie is given 30 seconds.")
        with session.turn("Mend it.") as turn:
            turn.decide(
                "convert where the setting is read",
                topic="where to convert",
                why="every other reader of the setting expects seconds too",
                over=["convert where the cookie is made"],
            )
            turn.file("src/login/settings.py", "modified")
            turn.file("tests/test_login.py", "created")
            turn.call(run_tests)
            turn.plan("mend it and test it", status="done")
            turn.say("Done: the lifetime is converted in settings.py, and a test covers it.")
        session.close()


def main() -> int:
    if len(sys.argv) == 3:
        with stator.connect(sys.argv[1], project=PROJECT) as store:
            {"payment": payment, "coding": coding}[sys.argv[2]](store)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder, "samples.db"))
        for name in ("coding", "payment"):
            subprocess.run([sys.executable, __file__, place, name], check=False)
        with stator.connect(place) as store:
            for row in store.sessions().rows:
                if row.record.mode == "driven":
                    path = FOLDER / f"{row.record.name.partition(' ')[0]}.stator"
                    path.unlink(missing_ok=True)
                    store.export(row.id, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
