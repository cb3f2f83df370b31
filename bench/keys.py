"""`python -m bench.keys`: how long it takes to find the turn of a key in a session of 100,000 turns with keys.

Target: at most 1 ms of CPU, for the oldest key, the newest, one that is not there, and one that holds
a secret. The session is opened again before each round, so that nothing is in memory.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import stator
from stator.runtime.driving.again import once

TARGET_MS = 1.0
ROUNDS = 20
SECRET = "deploy AKIA" + "IOSFODNN7EXAMPLQ"


def fill(path: Path, turns: int) -> None:
    """A session with that many turns, each with a key of its own."""
    with (
        stator.connect(path, durability="relaxed", project="bench") as store,
        store.open("keys") as session,
    ):
        for n in range(turns):
            key = SECRET if n == turns // 2 else f"order {n}"
            with session.turn("pay", key=key) as t:
                t.end(value=n)


def measured(act: Callable[[], Any]) -> float:
    began = time.process_time()
    act()
    return (time.process_time() - began) * 1000


def lookups(path: Path, turns: int) -> dict[str, list[float]]:
    """ms of CPU by what is looked for."""
    keys = {
        "oldest": "order 0",
        "newest": f"order {turns - 1}",
        "not there": "order -1",
        "with a secret": SECRET,
    }
    found: dict[str, list[float]] = {name: [] for name in (*keys, "once, from the record")}
    for _ in range(ROUNDS):
        with stator.connect(path, project="bench") as store, store.open("keys") as session:
            driver = session._driver
            scrub = driver.scrub
            for name, key in keys.items():
                look = partial(once.attempts_at, driver.store, driver.id, key, scrub)
                found[name].append(measured(look))
            found["once, from the record"].append(measured(partial(session.once, "order 7", print)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keys.db"
        began = time.process_time()
        fill(path, options.n)
        each = (time.process_time() - began) * 1000 / options.n
        print(f"{options.n:,} turns with keys, {each:.2f} ms of CPU each; target {TARGET_MS} ms")
        for name, times in lookups(path, options.n).items():
            said = "ok" if statistics.median(times) <= TARGET_MS else "over"
            print(
                f"{name:>22}  {statistics.median(times):6.3f} ms median, {max(times):6.3f} worst  {said}"
            )


if __name__ == "__main__":
    main()
