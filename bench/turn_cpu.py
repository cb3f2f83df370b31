"""The CPU of a turn: `python -m bench.turn_cpu DIR`. Prints measures as JSON.

Stator in its three durabilities, OpenAI Agents' SQLiteSession and raw apsw append the same turns in one process, in
slices that take turns, in reversed order every other round: whatever else the machine does meets all alike. A ratio is
the median over the rounds. Then the CPU inside the store's own `append`, per commit, and fsyncs per turn, which strace
counts in a process of its own.
"""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.peers import load
from bench.peers.base import BARRIER, FULL, RELAXED, Peer
from bench.workload import Turn, Workload

OURS = "bench.peers.ours:Stator"
RAW = "bench.peers.raw_apsw:RawApsw"
OPENAI = "bench.peers.openai_agents:OpenAIAgents"
CONTESTANTS = (
    ("full", OURS, FULL),
    ("barrier", OURS, BARRIER),
    ("relaxed", OURS, RELAXED),
    ("raw_full", RAW, FULL),
    ("raw_relaxed", RAW, RELAXED),
    ("openai", OPENAI, FULL),
)
ROUNDS, SLICE, WARM = 15, 20, 40
TRACED = 20
"""Turns whose fsyncs are counted."""
SESSION = "work"


class Runner:
    """One contestant and the CPU of each of its slices."""

    def __init__(self, name: str, target: str, durability: str, folder: Path) -> None:
        self.name = name
        self.peer: Any = load(target)
        place = folder / name
        place.mkdir()
        self.peer.open(place, durability)
        self.peer.new(SESSION)
        self.cpu: list[float] = []
        self.wall: list[float] = []

    def append(self, turns: Sequence[Turn]) -> None:
        prepared = [self.peer.prepare(turn) for turn in turns]
        wall, cpu = time.perf_counter(), time.process_time()
        for turn in prepared:
            self.peer.append(SESSION, turn)
        self.cpu.append((time.process_time() - cpu) / len(turns))
        self.wall.append((time.perf_counter() - wall) / len(turns))


def race(folder: Path, workload: Workload) -> list[Runner]:
    runners = []
    for name, target, durability in CONTESTANTS:
        try:
            runners.append(Runner(name, target, durability, folder))
        except ImportError:
            print(f"{name}: not installed", file=sys.stderr)
    turns = workload.turns(WARM + ROUNDS * SLICE)
    first = [next(turns) for _ in range(WARM)]
    for runner in runners:
        runner.append(first)
        runner.cpu.clear()
        runner.wall.clear()
    for number in range(ROUNDS):
        part = [next(turns) for _ in range(SLICE)]
        gc.collect()
        for runner in runners[:: -1 if number % 2 else 1]:
            runner.append(part)
    for runner in runners:
        runner.peer.close()
    return runners


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    return median(a / b for a, b in zip(above, below, strict=True))


def compared(runners: list[Runner]) -> dict[str, float]:
    """What the race says."""
    by = {runner.name: runner for runner in runners}
    found = {f"turn_cpu_ms_{name}": median(by[name].cpu) * 1e3 for name in by}
    found["turn_cpu_relaxed_over_raw"] = ratio(by["relaxed"].cpu, by["raw_relaxed"].cpu)
    found["turn_cpu_full_over_raw"] = ratio(by["full"].cpu, by["raw_full"].cpu)
    found["turn_wall_full_over_raw"] = ratio(by["full"].wall, by["raw_full"].wall)
    found["raw_fsync_ms"] = median(by["raw_full"].wall) * 1e3 / 8
    if "openai" in by:
        found["turn_cpu_full_over_openai"] = ratio(by["full"].cpu, by["openai"].cpu)
        found["turn_wall_full_over_openai"] = ratio(by["full"].wall, by["openai"].wall)
    return found


def store_cpu(folder: Path, workload: Workload) -> dict[str, float]:
    """µs of CPU inside `append` of the store, per commit: the median over slices."""
    peer: Any = load(OURS)
    place = folder / "store"
    place.mkdir()
    peer.open(place, RELAXED)
    peer.new(SESSION)
    spent = commits = 0
    port: Any = peer._store.port
    inner: Callable[..., Any] = port.append

    def append(session: str, drafts: Sequence[Any], **more: Any) -> Any:
        nonlocal spent, commits
        began = time.thread_time_ns()
        answer = inner(session, drafts, **more)
        spent += time.thread_time_ns() - began
        commits += len(drafts)
        return answer

    port.append = append
    slices: list[float] = []
    turns = workload.turns(ROUNDS * SLICE + WARM)
    for number, turn in enumerate(turns):
        if number >= WARM and (number - WARM) % SLICE == 0:
            if commits and number > WARM:
                slices.append(spent / commits / 1e3)
            spent = commits = 0
        peer.append(SESSION, turn)
    peer.close()
    return {"store_cpu_us_per_commit": median(slices)}


def fsyncs(folder: Path) -> dict[str, float]:
    """Per turn, by durability; nothing where there is no strace."""
    if shutil.which("strace") is None:
        print("fsyncs: not counted, there is no strace here", file=sys.stderr)
        return {}
    return {
        f"fsyncs_{durability}": (
            _traced(folder, durability, 2 * TRACED) - _traced(folder, durability, TRACED)
        )
        / TRACED
        for durability in (FULL, BARRIER, RELAXED)
    }


def _traced(folder: Path, durability: str, turns: int) -> int:
    place = folder / f"traced-{durability}-{turns}"
    place.mkdir()
    out = place / "trace"
    watch = ["strace", "-f", "-e", "trace=fsync,fdatasync", "-o", str(out)]
    work = [sys.executable, "-m", "bench.turn_cpu", str(place), durability, str(turns)]
    subprocess.run([*watch, *work], check=True, timeout=600, stdout=subprocess.DEVNULL)
    lines = out.read_text().splitlines()
    return sum("sync(" in line and " resumed>" not in line for line in lines)


def work(folder: Path, durability: str, turns: int) -> None:
    """What is traced: some turns, without what the end of a store costs."""
    peer: Peer = load(OURS)
    place = folder / "store"
    place.mkdir()
    peer.open(place, durability)
    peer.new(SESSION)
    for turn in Workload(cache=folder.parent / "cache").turns(turns):
        peer.append(SESSION, turn)
    peer.close()


def main() -> None:
    folder = Path(sys.argv[1])
    if len(sys.argv) > 2:
        work(folder, sys.argv[2], int(sys.argv[3]))
        return
    workload = Workload(cache=folder / "cache")
    workload.prepare(WARM + ROUNDS * SLICE + 1)
    found = compared(race(folder, workload)) | store_cpu(folder, workload) | fsyncs(folder)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
