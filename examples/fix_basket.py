"""An agent repairs a shop's basket in two turns: real files, real tests, and a record of its choices.

    python fix_basket.py    in an empty folder; then ask: stator log, stator why money.py

What a model would choose is written out here, so that no key is needed. The tools are ordinary
functions; the decorator says what a call may do to the world, and which file it touches.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import stator

BASKET = "def total(prices):\n    return sum(prices)\n"
WITH_FLOATS = "def total(prices):\n    return sum(map(float, prices))\n"
MONEY = 'def cents(price):\n    return int(price.replace(".", ""))\n'
WITH_CENTS = """\
from money import cents


def total(prices):
    whole = sum(map(cents, prices))
    return f"{whole // 100}.{whole % 100:02}"
"""
TESTS = """\
import unittest
from basket import total


class TotalTest(unittest.TestCase):
    def test_three_dimes(self):
        self.assertEqual(str(total(["0.10", "0.10", "0.10"])), "0.30")
"""


@stator.tool(effect="read", files="path")
def read_file(path: str) -> str:
    return Path(path).read_text()


@stator.tool(effect="idempotent", files="path")
def write_file(path: str, text: str) -> None:
    Path(path).write_text(text)


@stator.tool(effect="read")
def run_tests() -> str:
    """The last line of the test run: OK, or how many tests failed."""
    command = [sys.executable, "-B", "-m", "unittest", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.stderr.strip().splitlines()[-1]


def main() -> None:
    Path("basket.py").write_text(BASKET)
    Path("test_basket.py").write_text(TESTS)
    with stator.open("fix-basket", agent="demo") as s:
        s.track(contents=True)  # keep what files held, so that they can be shown and restored
        with s.turn("the basket's total is wrong: fix it") as t:
            t.call(read_file, path="basket.py")
            t.decide("add floats", topic="money", why="the smallest change")
            t.call(write_file, path="basket.py", text=WITH_FLOATS)
            t.dead_end("adding floats", why=f"0.10 three times is not 0.30: {t.call(run_tests)}")
        with s.turn("count in cents here too") as t:
            t.decide("count cents", topic="money", why="as the shop does", over=["use Decimal"])
            t.call(write_file, path="money.py", text=MONEY)
            t.call(write_file, path="basket.py", text=WITH_CENTS)
            t.say(f"Totals are whole cents now. Tests: {t.call(run_tests)}")


if __name__ == "__main__":
    main()
