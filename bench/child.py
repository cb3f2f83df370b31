"""The measuring process: holds one peer, obeys commands on stdin, answers on stdout, in JSON Lines.

A process per peer, so that libraries do not disturb each other and memory can be measured. What
is timed is timed here, around the peer's methods; making turns and counting answers is not.
"""

from __future__ import annotations

import gc
import json
import os
import random
import resource
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from bench.peers import load
from bench.peers.base import Peer
from bench.workload import Workload, logical

CHUNK = 50  # turns made ahead of the clock
TENTH = 10
Reply = dict[str, Any]


class Bench:
    """The commands. Every argument and answer is JSON."""

    def __init__(self, peer: Peer, workload: Workload) -> None:
        self.peer: Any = peer
        self.workload = workload
        self.wall = array("d")
        self.cpu = array("d")
        self.loaded: list[Any] = []

    # ---- life

    def describe(self) -> Reply:
        peer = self.peer
        return {
            "name": peer.name,
            "version": peer.version,
            "note": peer.note,
            "native": sorted(peer.native),
            "durabilities": sorted(peer.durabilities),
        }

    def open(self, directory: str, durability: str, options: Reply) -> Reply:
        Path(directory).mkdir(parents=True, exist_ok=True)
        self.peer.open(Path(directory), durability, **options)
        return {}

    def new(self, session: str) -> Reply:
        self.peer.new(session)
        return {}

    def close(self) -> Reply:
        """Close, and say how large the store is then."""
        self.peer.close()
        return {"bytes": _size(self.peer.files())}

    # ---- appending

    def append(
        self, session: str, start: int, count: int, seconds: float, disk_bytes: float
    ) -> Reply:
        """Append turns until done, or out of time or disk. Times per turn are kept for `slope`."""
        before = len(self.wall)
        written = content = 0
        turns = self.workload.turns(count, start)
        while (chunk := list(islice(turns, CHUNK))) and seconds > 0:
            content += sum(map(logical, chunk))
            prepared = [self.peer.prepare(turn) for turn in chunk]
            at = _bytes_written()
            seconds -= self._append_timed(session, prepared)
            written += _bytes_written() - at
            if _size(_with_logs(self.peer.files())) > disk_bytes:
                break
        wall, cpu = self.wall[before:], self.cpu[before:]
        return {
            "turns": len(wall),
            "wall_s": sum(wall),
            "cpu_s": sum(cpu),
            "logical_bytes": content,
            "written_bytes": written,
        }

    def _append_timed(self, session: str, prepared: list[Any]) -> float:
        append = self.peer.append
        began = time.perf_counter()
        for turn in prepared:
            wall, cpu = time.perf_counter(), time.process_time()
            append(session, turn)
            self.cpu.append(time.process_time() - cpu)
            self.wall.append(time.perf_counter() - wall)
        return time.perf_counter() - began

    def slope(self) -> Reply:
        """The last tenth of all turns appended here against the first tenth."""
        part = max(1, len(self.wall) // TENTH)
        return {
            "late_early_wall": sum(self.wall[-part:]) / sum(self.wall[:part]),
            "late_early_cpu": sum(self.cpu[-part:]) / max(1e-9, sum(self.cpu[:part])),
        }

    def preload(self, start: int, count: int) -> Reply:
        """Make turns now, for an `append_loaded` that must start at once."""
        self.loaded = [self.peer.prepare(turn) for turn in self.workload.turns(count, start)]
        return {}

    def append_loaded(self, session: str) -> Reply:
        began = time.monotonic()  # the same clock in all processes
        self._append_timed(session, self.loaded)
        return {"began": began, "ended": time.monotonic(), "turns": len(self.loaded)}

    def append_tiny(self, prefix: str, count: int, seconds: float) -> Reply:
        """Many sessions of one small turn, if the peer can list sessions at all."""
        self.peer.new(f"{prefix}-0")
        self.peer.append(f"{prefix}-0", self.peer.prepare(self.workload.tiny(1)))
        if self.peer.list_sessions(1) is NotImplemented:
            return {"sessions": 0}
        deadline = time.monotonic() + seconds
        made = 1
        while made < count and time.monotonic() < deadline:
            session = f"{prefix}-{made}"
            self.peer.new(session)
            self.peer.append(session, self.peer.prepare(self.workload.tiny(1 + made)))
            self.peer.leave(session)
            made += 1
        return {"sessions": made}

    # ---- asking

    def cli_log(self, session: str) -> Reply:
        return {"command": self.peer.cli_log(session)}

    def resume(self, directory: str, durability: str, session: str) -> Reply:
        """Open in a fresh process and get what an agent needs to go on: the hot page, or all."""
        ask = getattr(self.peer, "hot", self.peer.state)
        began = time.process_time()
        self.peer.open(Path(directory), durability)
        answer = ask(session)
        took = time.process_time() - began
        if answer is NotImplemented:
            return {"ms": None, "counts": None}
        return {"ms": took * 1e3, "counts": answer.get("counts") or _counts(answer)}

    def resident(self, session: str, turn: Any) -> Reply:
        """Go on with the session for a turn; then the most memory this process ever had."""
        self.peer.append(session, self.peer.prepare(turn))
        return {"mb": _peak_mb()}

    def memory(self) -> Reply:
        return {"mb": _peak_mb()}

    def ask_state(self, session: str, repeats: int, seconds: float) -> Reply:
        """The whole state. Its size: what ours says it decoded, or the length as JSON."""
        full = getattr(self.peer, "full_state", None)
        ask = full or self.peer.state
        times, answers = _timed(lambda _: ask(session), [0] * repeats, seconds)
        if not times:
            return {"ms": None}
        state = self.peer.state(session)
        size = answers[-1] if full else len(json.dumps(state, separators=(",", ":")))
        return {"ms": median(times), "bytes": size, "counts": _counts(state)}

    def ask_state_at(self, session: str, turns: list[int], seconds: float) -> Reply:
        """The hot state at turns (ours) or the whole (peers)."""
        hot = getattr(self.peer, "hot_at", None)
        ask = hot or self.peer.state_at
        times, answers = _timed(lambda turn: ask(session, turn), turns, seconds)
        return _summary(times) | {"hot": bool(hot), "counts": [_counts(a) for a in answers]}

    def ask_diff(self, session: str, turns: list[int], seconds: float) -> Reply:
        times, answers = _timed(lambda turn: self.peer.diff(session, turn), turns, seconds)
        return _summary(times) | {"counts": [_counts(a) for a in answers]}

    def ask_files_last(self, session: str, n: int, repeats: int, seconds: float) -> Reply:
        ask = self.peer.files_last
        times, answers = _timed(lambda _: ask(session, n), [0] * repeats, seconds)
        return _summary(times) | {"paths": list(answers[-1]) if answers else None}

    def ask_brief(self, session: str, repeats: int, seconds: float) -> Reply:
        """What the next session must know: ours only, no peer has one."""
        ask = getattr(self.peer, "brief", None)
        times, _ = _timed(lambda _: ask(session), [0] * repeats, seconds) if ask else ([], [])
        return _summary(times)

    def ask_fork(self, session: str, turns: list[int], seconds: float) -> Reply:
        times, _ = _timed(lambda turn: self.peer.fork(session, turn), turns, seconds)
        return _summary(times) | {"forks": len(times)}

    def ask_list(self, limit: int) -> Reply:
        """The first call only: later ones are helped by what it read."""
        times, answers = _timed(lambda _: self.peer.list_sessions(limit), [0], 1)
        return _summary(times) | {"sessions": len(answers[0]) if answers else 0}


# ---- measuring -------------------------------------------------------------------------------


def _timed(
    ask: Callable[[int], Any], arguments: list[int], seconds: float
) -> tuple[list[float], list[Any]]:
    """Milliseconds of CPU and answers, one per argument, until out of time; nothing if unanswerable."""
    times: list[float] = []
    answers: list[Any] = []
    deadline = time.perf_counter() + seconds
    for argument in arguments:
        began = time.process_time()
        answer = ask(argument)
        ended = time.process_time()
        if answer is NotImplemented:
            return [], []
        times.append((ended - began) * 1e3)
        answers.append(answer)
        if time.perf_counter() > deadline:
            break
    return times, answers


def _summary(times: list[float]) -> Reply:
    return {"ms": median(times), "ms_max": max(times)} if times else {"ms": None}


def _counts(answer: Any) -> dict[str, int]:
    return {name: len(answer[name]) for name in ("files", "decisions", "plan")}


def _bytes_written() -> int:
    """Bytes this process passed to write calls, all threads; 0 where /proc has no such file."""
    try:
        with open("/proc/self/io", "rb") as f:
            return int(next(line for line in f if line.startswith(b"wchar:")).split()[1])
    except OSError:
        return 0


def _peak_mb() -> float:
    """Peak resident memory of this program.

    Not ru_maxrss on Linux: there it survives exec, so a large parent's memory would count.
    """
    try:
        with open("/proc/self/status", "rb") as f:
            line = next(line for line in f if line.startswith(b"VmHWM:"))
            return int(line.split()[1]) / 1024
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1024**2 if sys.platform == "darwin" else 1024)


def _with_logs(paths: Any) -> Iterator[Path]:
    """Files and their WALs: what is really on the disk while the store is open."""
    for path in paths:
        yield path
        yield path.with_name(path.name + "-wal")


def _size(paths: Any) -> int:
    return sum(path.stat().st_size for path in paths if path.exists())


# ---- the loop --------------------------------------------------------------------------------


def warm_up(bench: Bench, directory: str, durability: str, options: Reply) -> Reply:
    """A few turns in a store thrown away: first-call costs are not the first turns' costs."""
    bench.open(directory, durability, options)
    bench.new("warm")
    for turn in bench.workload.turns(3):
        bench.peer.append("warm", bench.peer.prepare(turn))
    bench.close()
    gc.collect()
    return {}


def _answer(bench: Bench, request: Reply) -> Reply:
    command = request.pop("command")
    try:
        if command == "warm_up":
            return warm_up(bench, **request)
        answer: Reply = getattr(bench, command)(**request)
        return answer
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    target, cache = sys.argv[1:3]
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not look like an answer
    random.seed(0)
    workload = Workload(cache=Path(cache))
    try:
        bench = Bench(load(target), workload)
        first: Reply = bench.describe()
    except ImportError as error:
        first = {"missing": str(error)}
    print(json.dumps(first), file=replies, flush=True)
    if "missing" in first:
        return
    for line in sys.stdin:
        print(json.dumps(_answer(bench, json.loads(line))), file=replies, flush=True)


if __name__ == "__main__":
    main()
