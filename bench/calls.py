"""`python -m bench.calls`: what a recorded call costs beyond its commits, and what many at once save.

Two numbers. The CPU of `t.call` of a tool that does nothing, less that of appending the same two
commits to the same store (target: at most 150 µs). And 64 calls awaited together against the same 64
one by one, durability full: fsyncs (counted by strace, where there is one; target: at most 1/5) and
time (target: never slower).
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import stator
from stator.model.values.ids import retype

CPU_TARGET_US = 150
FSYNC_TARGET = 5
CALLS = 50
ROUNDS = 150
TOGETHER = 64
CONTENT = "content " * 20


@stator.tool(effect="read")
def look(path: str) -> str:
    return CONTENT


async def act(path: str) -> str:
    return CONTENT


# ── CPU of one call ──────────────────────────────────────────────────────────────────────────────


def cpu(folder: Path) -> dict[str, float]:
    """µs of CPU a call, and two bare commits; the best of the rounds, which interleave.

    Relaxed: the kernel's time for an fsync is the disk's business, and the same for both.
    """
    best = {"call": float("inf"), "two commits": float("inf")}
    with (
        stator.connect(folder / "cpu.db", durability="relaxed") as store,
        store.open("calls") as session,
        session.turn("measure") as t,
        store.open(
            "bare"
        ) as bare,  # a session of their own: what is not its own, a driver looks at
        bare.turn("measure"),
    ):

        def two() -> None:
            intent = bare.context.mint("commit")
            same: dict[str, Any] = {"call": retype(intent, "call"), "tool": "look", "attempt": 1}
            given = {"status": "started", "input": {"path": "a.py"}, "effect": "read"}
            bare._store.append(
                bare.id, [bare._draft("call", id=intent, **same, **given)], fresh=True
            )
            ended = {"status": "ok", "output": CONTENT, "actor": "tool", "effect": "read"}
            bare._store.append(bare.id, [bare._draft("outcome", **same, **ended)], fresh=True)

        for _ in range(ROUNDS):
            for name, act in (("call", lambda: t.call(look, path="a.py")), ("two commits", two)):
                began = time.process_time()
                for _ in range(CALLS):
                    act()
                spent = (time.process_time() - began) / CALLS * 1e6
                best[name] = min(best[name], spent)
    return best


# ── many at once ─────────────────────────────────────────────────────────────────────────────────


async def batch(turn: Any, how: str) -> float:
    """Seconds that 64 calls take, awaited together or one by one."""
    began = time.perf_counter()
    calls = [turn.call(act, path=f"{number}.py") for number in range(TOGETHER)]
    if how == "together":
        await asyncio.gather(*calls)
    else:
        for call in calls:
            await call
    return time.perf_counter() - began


async def work(folder: Path, hows: list[str]) -> list[float]:
    """Seconds of these batches, one after the other, in one session."""
    async with (
        stator.aio.connect(folder / "calls.db") as store,
        store.open("calls") as s,
        s.turn("measure") as t,
    ):
        return [await batch(t, how) for how in hows]


def timed(folder: Path, rounds: int) -> list[tuple[float, float]]:
    """Seconds together and one by one, round by round, so that a noisy disk is noisy for both."""
    place = folder / "time"
    place.mkdir()
    spent = asyncio.run(work(place, ["together", "one by one"] * (rounds + 1)))
    return list(zip(spent[2::2], spent[3::2], strict=True))  # the first round warms up


def fsyncs(folder: Path, how: str, rounds: int = 3) -> float:
    """Of 64 calls, without those of opening and leaving."""
    counts = []
    for number in (0, rounds):
        place = folder / f"trace {how} {number}"
        place.mkdir()
        traced = ["strace", "-f", "-e", "trace=fsync,fdatasync", "-o", str(place / "trace")]
        program = [sys.executable, "-m", "bench.calls", "--work", how, "--rounds", str(number)]
        subprocess.run([*traced, *program, "--dir", str(place)], check=True, timeout=600)
        lines = (place / "trace").read_text().splitlines()
        counts.append(sum(" resumed>" not in line and "sync(" in line for line in lines))
    return (counts[1] - counts[0]) / rounds


# ── the report ───────────────────────────────────────────────────────────────────────────────────


def verdict(fine: bool) -> str:
    return "met" if fine else "missed"


def report(folder: Path, rounds: int) -> None:
    spent = cpu(folder)
    beyond = spent["call"] - spent["two commits"]
    print(
        f"one call            {spent['call']:7.0f} µs of CPU; its two commits alone "
        f"{spent['two commits']:.0f} µs\n"
        f"beyond its commits  {beyond:7.0f} µs   target ≤ {CPU_TARGET_US}: "
        f"{verdict(beyond <= CPU_TARGET_US)}\n"
    )
    rounds_s = timed(folder, rounds)
    together, single = (statistics.median(each) * 1000 for each in zip(*rounds_s, strict=True))
    ratios = sorted(many / one for many, one in rounds_s)
    middle = statistics.median(ratios)
    print(
        f"{TOGETHER} calls together   {together:7.0f} ms (median of {rounds})\n"
        f"{TOGETHER} calls one by one {single:7.0f} ms\n"
        f"together ÷ one      {middle:7.2f}   rounds from {ratios[0]:.2f} to {ratios[-1]:.2f}; "
        f"target ≤ 1: {verdict(middle <= 1)}\n"
    )
    if shutil.which("strace") is None:
        print("fsyncs: not counted, there is no strace here")
        return
    many, one = fsyncs(folder, "together"), fsyncs(folder, "one by one")
    print(
        f"fsyncs together     {many:7.1f}\n"
        f"fsyncs one by one   {one:7.1f}\n"
        f"one ÷ together      {one / many:7.1f}   target ≥ {FSYNC_TARGET}: "
        f"{verdict(many * FSYNC_TARGET <= one)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.calls", description=__doc__)
    parser.add_argument("--dir", type=Path, help="where stores are made; its disk is measured")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--work", choices=("together", "one by one"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        asyncio.run(work(args.dir, [args.work] * args.rounds))
        return
    with tempfile.TemporaryDirectory(prefix="stator-calls-", dir=args.dir) as folder:
        report(Path(folder), args.rounds)


if __name__ == "__main__":
    main()
