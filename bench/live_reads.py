"""What it costs to watch a session that another process drives: `python -m bench.live_reads DIR`. Prints JSON.

A driver appends until about a thousand commits are in no index yet, and a turn more before every question. Questions
are asked in a process of its own that stays (warm), and once in fresh processes (cold): head, hot page, difference of
the last turn, brief, and the first page of a hundred sessions that are all being driven. CPU in milliseconds, medians.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import stator
from bench.peers.base import RELAXED
from bench.peers.ours import Stator
from bench.workload import Workload

SESSION = "work"
TURNS = 70
"""13 commits each: the tail is as long as it gets."""
ASKS, FRESH, LIVE = 5, 3, 100
QUESTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "head": lambda store, view: view.head,
    "hot": lambda store, view: view.hot(),
    "diff": lambda store, view: view.diff(),
    "brief": lambda store, view: view.brief(),
    "list": lambda store, view: store.sessions(limit=100),
}


def reader(path: str, name: str) -> None:
    """Answers each line with the CPU of that question."""
    with stator.connect(path, read_only=True, project="bench") as store:
        view = store.read(name)
        for line in sys.stdin:
            ask = QUESTIONS[line.strip()]
            began = time.process_time()
            ask(store, view)
            print((time.process_time() - began) * 1e3, flush=True)


class Reader:
    def __init__(self, path: Path, name: str) -> None:
        words = [sys.executable, "-m", "bench.live_reads", "reader", str(path), name]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, what: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def one_session(folder: Path, workload: Workload) -> dict[str, float]:
    peer = Stator()
    peer.open(folder, RELAXED)
    peer.new(SESSION)
    turns = workload.turns(10_000)
    path = peer.files()[0]

    def fill() -> None:
        """Have the tail long again, should it have been flushed."""
        live: Any = peer._store.port
        while len(live._appender.live[peer._sessions[SESSION].id].place.tail) < 12 * TURNS:
            peer.append(SESSION, next(turns))

    found: dict[str, float] = {}
    for _ in range(TURNS):
        peer.append(SESSION, next(turns))
    asked = [name for name in QUESTIONS if name != "list"]
    cold: dict[str, list[float]] = {name: [] for name in asked}
    for name in asked:
        for _ in range(FRESH):
            fill()
            watcher = Reader(path, SESSION)
            cold[name].append(watcher.ask(name))
            watcher.close()
    watcher = Reader(path, SESSION)
    for name in asked:
        watcher.ask(name)
    for name in asked:
        times = []
        for _ in range(ASKS):
            peer.append(SESSION, next(turns))
            fill()
            times.append(watcher.ask(name))
        found[f"live_{name}_ms"] = median(times)
        found[f"live_{name}_cold_ms"] = median(cold[name])
    watcher.close()
    peer.close()
    return found


def many_sessions(folder: Path, workload: Workload) -> dict[str, float]:
    peer = Stator()
    peer.open(folder, RELAXED)
    for number in range(LIVE):
        peer.new(f"s{number}")
        peer.append(f"s{number}", workload.tiny(number + 1))
    first = Reader(peer.files()[0], "s0")
    cold = first.ask("list")
    times = []
    for number in range(ASKS):
        peer.append(f"s{number}", workload.tiny(200 + number))
        times.append(first.ask("list"))
    first.close()
    peer.close()
    return {"live_list_ms": median(times), "live_list_cold_ms": cold}


def main() -> None:
    if sys.argv[1] == "reader":
        reader(sys.argv[2], sys.argv[3])
        return
    folder = Path(sys.argv[1])
    workload = Workload(cache=folder / "cache")
    for name in ("one", "many"):
        (folder / name).mkdir()
    found = one_session(folder / "one", workload) | many_sessions(folder / "many", workload)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
