"""Stator over PostgreSQL: `python -m bench.postgres DIR [PART,…]`. Prints measures as JSON.

A server of its own, with fsync on. Ours, raw inserts of the same bytes in as many transactions, and peers where they
are installed append the same turns in slices that take turns, in reversed order every other round; a ratio is the
median over the rounds. CPU is that of the client and, apart, that of the server. Round trips are counted on the wire.

Parts: append, peers, writers, long (10,000 turns, and the questions about that session), listing (100,000 sessions).
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote

from bench import measure
from bench.measure import Settings, start_all
from bench.peers import load
from bench.peers.base import FULL, RELAXED
from bench.postgres_place import Place, WireCounter
from bench.postgres_sessions import make_sessions
from bench.workload import Turn, Workload, logical

OURS = "bench.peers.stator_postgres:StatorPostgres"
RAW = "bench.peers.raw_postgres:RawPostgres"
PEERS = (
    ("langgraph", "bench.peers.langgraph_postgres:LangGraphPostgresFull"),
    ("langgraph_delta", "bench.peers.langgraph_postgres:LangGraphPostgresDelta"),
    ("dbos", "bench.peers.dbos_steps:DbosSteps"),
)
SESSION = "work"
ROUNDS, SLICE, WARM = 15, 20, 20
PEER_ROUNDS, PEER_SLICE = 5, 8
WRITERS, WRITER_TURNS, WRITER_ROUNDS = 16, 12, 3
LONG, LONG_SLICE, LONG_S = 10_000, 500, 170.0
ASKS = 30
SLOW = "&options=" + quote("-c commit_delay=2000 -c commit_siblings=0")
"""Every commit waits 2 ms before it is synced: a disk, or a standby, that takes that long."""
MODES = (("", FULL, ""), ("_slow", FULL, SLOW), ("_relaxed", RELAXED, ""))
"""Suffix, durability and options of what is measured."""
LISTED = 100_000
Found = dict[str, float]


class Runner:
    """One contestant, and what each of its slices took, a turn."""

    def __init__(
        self,
        name: str,
        target: str,
        durability: str,
        place: Place,
        folder: Path,
        options: str = "",
    ) -> None:
        self.name = name
        self.place = place
        self.peer: Any = load(target)
        room = folder / name
        room.mkdir()
        self.peer.open(room, durability, url=place.url + options, tenant=name)
        self.peer.new(SESSION)
        self.slices: list[Found] = []

    def append(self, turns: Sequence[Turn]) -> None:
        prepared = [self.peer.prepare(turn) for turn in turns]
        place, times = self.place, []
        wal, server, cpu = place.wal(), place.cpu(), time.process_time()
        for turn in prepared:
            began = time.perf_counter()
            self.peer.append(SESSION, turn)
            times.append(time.perf_counter() - began)
        spent = {
            "cpu": time.process_time() - cpu,
            "server": place.cpu() - server,
            "wal": place.wal() - wal,
            "wall": sum(times),
        }
        self.slices.append({name: value / len(turns) for name, value in spent.items()})
        self.slices[-1]["typical"] = median(times)
        self.slices[-1]["content"] = sum(map(logical, turns)) / len(turns)

    def all(self, what: str) -> list[float]:
        return [one[what] for one in self.slices]


def race(runners: Sequence[Runner], turns: Any, rounds: int, size: int) -> None:
    for number in range(rounds):
        part = [next(turns) for _ in range(size)]
        gc.collect()
        for runner in runners[:: -1 if number % 2 else 1]:
            runner.append(part)


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    return median(a / b for a, b in zip(above, below, strict=True))


# ---- appending -------------------------------------------------------------------------------


def append(place: Place, folder: Path, workload: Workload) -> Found:
    """A turn against raw inserts of the same bytes: on this disk, on one whose sync takes 2 ms, and not durable."""
    runners = [
        Runner(name + suffix, target, durability, place, folder, options)
        for suffix, durability, options in MODES
        for name, target in (("ours", OURS), ("raw", RAW))
    ]
    turns = workload.turns(WARM + ROUNDS * SLICE)
    race(runners, turns, 1, WARM)
    place.watch.execute("CHECKPOINT")
    for runner in runners:
        runner.slices.clear()
    race(runners, turns, ROUNDS, SLICE)
    by = {runner.name: runner for runner in runners}
    for runner in runners:
        runner.peer.close()
    found: Found = {}
    for suffix, *_ in MODES:
        ours, limit = by["ours" + suffix], by["raw" + suffix]
        found[f"pg_raw_commit{suffix}_ms"] = median(limit.all("wall")) * 1e3 / 8
        server = median(limit.all("server")) or 1e-9  # in ticks: too coarse to divide by the round
        found |= {
            f"pg_turn_wall{suffix}_over_raw": ratio(ours.all("wall"), limit.all("wall")),
            f"pg_turn_cpu{suffix}_over_raw": ratio(ours.all("cpu"), limit.all("cpu")),
            f"pg_turn_server_cpu{suffix}_over_raw": mean(ours.all("server")) / mean(limit.all("server"), server),
            f"pg_turn_ms{suffix}": median(ours.all("wall")) * 1e3,
            f"pg_turn_cpu_ms{suffix}": median(ours.all("cpu")) * 1e3,
            f"pg_turn_server_cpu_ms{suffix}": mean(ours.all("server")) * 1e3,
            f"pg_raw_turn_ms{suffix}": median(limit.all("wall")) * 1e3,
            f"pg_raw_turn_cpu_ms{suffix}": median(limit.all("cpu")) * 1e3,
            f"pg_raw_turn_server_cpu_ms{suffix}": mean(limit.all("server")) * 1e3,
        }  # fmt: skip
    for name, runner in (("pg_wal", by["ours"]), ("pg_raw_wal", by["raw"])):
        found[f"{name}_ratio"] = sum(runner.all("wal")) / sum(runner.all("content"))
        found[f"{name}_bytes_per_turn"] = mean(runner.all("wal"))
    found["pg_content_bytes_per_turn"] = mean(by["ours"].all("content"))
    return found | sizes(place, ROUNDS * SLICE + WARM)


def mean(values: Sequence[float], least: float = 0.0) -> float:
    return max(least, sum(values) / len(values))


def sizes(place: Place, turns: int) -> Found:
    """Bytes on disk a turn: each mode appended the same turns."""
    ours, raw = (
        place.one(
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relkind = 'r' AND n.nspname = %s AND c.relname LIKE %s",
            *which,
        )
        for which in (("stator", "%"), ("public", "raw%"))
    )
    return {
        "pg_disk_bytes_per_turn": float(ours) / turns / len(MODES),
        "pg_raw_disk_bytes_per_turn": float(raw) / turns / len(MODES),
    }


def peers(place: Place, folder: Path, workload: Workload) -> Found:
    """Wall of a turn, of ours and of the peers that are installed. Some of them run threads: no CPU here."""
    runners = [Runner("ours", OURS, FULL, place, folder)]
    for name, target in PEERS:
        try:
            runners.append(Runner(name, target, FULL, place, folder))
        except ImportError as error:
            print(f"{name}: not installed ({error})", file=sys.stderr)
    turns = workload.turns((1 + PEER_ROUNDS) * PEER_SLICE)
    race(runners, turns, 1, PEER_SLICE)
    for runner in runners:
        runner.slices.clear()
    race(runners, turns, PEER_ROUNDS, PEER_SLICE)
    ours = runners[0]
    found: Found = {}
    for runner in runners:
        runner.peer.close()
    for runner in runners[1:]:
        found[f"pg_{runner.name}_wall_over_ours"] = ratio(runner.all("wall"), ours.all("wall"))
        found[f"pg_{runner.name}_wal_over_ours"] = sum(runner.all("wal")) / sum(ours.all("wal"))
    return found


# ---- many writers ----------------------------------------------------------------------------


def writers(place: Place, folder: Path, workload: Workload) -> Found:
    """16 processes, a session each, against 16 that insert raw; in alternating rounds."""
    settings = Settings(folder.parent, writer_turns=WRITER_TURNS)  # where the texts of turns are
    errors: list[str] = []
    rates: dict[str, list[float]] = {"ours": [], "raw": []}
    with ExitStack() as stack:
        who = {}
        for name, target in (("ours", OURS), ("raw", RAW)):
            who[name] = start_all(stack, [target] * WRITERS, settings)
            options = {"url": place.url, "tenant": "writers"}
            for child in who[name]:
                child.call("open", directory=str(folder), durability=FULL, options=options)
                child.call("preload", start=1, count=WRITER_TURNS)
        for number in range(WRITER_ROUNDS):
            for name in ("ours", "raw")[:: -1 if number % 2 else 1]:
                rate = measure._write_together(who[name], f"{name}-{number}", errors, settings)
                if rate:
                    rates[name].append(rate)
        for child in (*who["ours"], *who["raw"]):
            child.call("close")
    if errors:
        print(f"writers: {len(errors)} errors, the first: {errors[0]}", file=sys.stderr)
    found: Found = {"pg_writers_errors": len(errors)}
    if len(rates["ours"]) == len(rates["raw"]) == WRITER_ROUNDS:
        found["pg_writers_over_raw"] = ratio(rates["ours"], rates["raw"])
        found["pg_writers_turns_per_s"] = median(rates["ours"])
        found["pg_writers_raw_turns_per_s"] = median(rates["raw"])
    return found


# ---- one long session, and questions ---------------------------------------------------------


def long(place: Place, folder: Path, workload: Workload) -> Found:
    """The last tenth of many turns against the first, not durable: the disk has no say in it."""
    runner = Runner("long", OURS, RELAXED, place, folder)
    raw = Runner("raw_long", RAW, RELAXED, place, folder)
    turns = workload.turns(WARM + LONG)
    first = [next(turns) for _ in range(WARM)]
    for each in (runner, raw):
        each.append(first)
        each.slices.clear()
    done, until = 0, time.monotonic() + LONG_S
    while done < LONG and time.monotonic() < until:
        part = [next(turns) for _ in range(LONG_SLICE)]
        runner.append(part)
        raw.append(part[:100])
        done += len(part)
    runner.peer.close()
    raw.peer.close()
    tenth = max(1, len(runner.slices) // 10)
    found: Found = {"pg_turns": done}
    for name, values in (
        ("wall", runner.all("typical")),
        ("cpu", [a + b for a, b in zip(runner.all("cpu"), runner.all("server"), strict=True)]),
        ("raw", raw.all("typical")),
    ):
        found[f"pg_late_early_{name}"] = mean(values[-tenth:]) / mean(values[:tenth])
    place.watch.execute("VACUUM ANALYZE")
    return found | questions(place, folder, done)


ASKED: dict[str, Callable[[Any], Any]] = {
    "hot": lambda peer: peer._view(SESSION).hot(),
    "diff": lambda peer: peer._view(SESSION).diff(),
    "turns": lambda peer: peer._view(SESSION).turns(last=100, prompts=True),
    "brief": lambda peer: peer._view(SESSION).brief(),
}


def questions(place: Place, folder: Path, turns: int) -> Found:
    """Round trips and wall of what is asked about the long session."""
    found: Found = {}
    with WireCounter(place.url) as wire:
        peer: Any = load(OURS)
        peer.open(folder, FULL, url=wire.url, tenant="long")
        peer._view(SESSION)
        at = {f"hot_at_{share}": turns * share // 10 for share in (1, 5, 9)}
        asked = dict(ASKED) | {
            name: lambda peer, turn=turn: peer.hot_at(SESSION, turn) for name, turn in at.items()
        }
        for name, ask in asked.items():
            before = wire.trips
            ask(peer)
            found[f"pg_{name}_trips"] = wire.trips - before
        trips = []
        for _ in range(3):
            before = wire.trips
            peer.new(SESSION)
            trips.append(wire.trips - before)
            peer.leave(SESSION)
        found["pg_resume_trips"] = min(trips)
        peer.close()
    peer.open(folder, FULL, url=place.url, tenant="long")  # without the proxy, which takes time
    peer._view(SESSION)
    for name, ask in asked.items():
        times = []
        for _ in range(ASKS):
            began = time.perf_counter()
            ask(peer)
            times.append(time.perf_counter() - began)
        found[f"pg_{name}_ms"] = median(times) * 1e3
    times = []
    for _ in range(10):
        began = time.perf_counter()
        peer.new(SESSION)
        times.append(time.perf_counter() - began)
        peer.leave(SESSION)
    found["pg_resume_ms"] = median(times) * 1e3
    peer.close()
    found["pg_hot_at_trips"] = max(found.pop(f"pg_{name}_trips") for name in at)
    found["pg_hot_at_ms"] = max(found.pop(f"pg_{name}_ms") for name in at)
    return found


# ---- many sessions ---------------------------------------------------------------------------


def listing(place: Place, folder: Path, workload: Workload) -> Found:
    """The first page of many sessions, the first call of new connections; and the tenth page."""
    made = make_sessions(place, folder, workload, LISTED)
    found: Found = {"pg_sessions": made}
    for name, options in (("list", {}), ("list_project", {"project": "p7"})):
        times, next_times = [], []
        for _ in range(ASKS // 3):
            peer: Any = load(OURS)
            peer.open(folder, FULL, url=place.url, tenant="listing")
            began = time.perf_counter()
            page = peer._store.sessions(limit=100, **options)
            times.append(time.perf_counter() - began)
            assert len(page.rows) == 100
            for _ in range(9):
                began = time.perf_counter()
                page = peer._store.sessions(limit=100, cursor=page.cursor, **options)
                next_times.append(time.perf_counter() - began)
            peer.close()
        found[f"pg_{name}_ms"] = median(times) * 1e3
        found[f"pg_{name}_next_ms"] = median(next_times) * 1e3
    return found


PARTS = {each.__name__: each for each in (append, peers, writers, long, listing)}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    chosen = sys.argv[2].split(",") if len(sys.argv) > 2 else list(PARTS)
    workload = Workload(cache=folder / "cache")
    workload.prepare(2_000)
    place = Place(folder)
    found: Found = {}
    try:
        print(f"PostgreSQL {place.version}", file=sys.stderr)
        for name in chosen:
            began, room = time.monotonic(), folder / name
            room.mkdir()
            found |= PARTS[name](place, room, workload)
            took, load_now = time.monotonic() - began, os.getloadavg()[0]
            print(f"  {name}: {took:.0f} s, load {load_now:.1f}", file=sys.stderr)
    finally:
        place.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
