"""How fast 10,000 sessions are searched: `python -m bench.search [--sessions 10000] [--dir DIR] [--write]`.

Builds the store once (a turn of the workload in each session), fills the index, then asks: rare
words, words of nearly every commit, phrases and beginnings, 20 of each, the index up to date as in
`stator search`. Gives the median and the 95th percentile, the size of the index against that of the
store, and how fast it was filled. `--keep DIR` leaves the store there and takes the one that is.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

import stator
from bench.peers.base import RELAXED
from bench.peers.ours import Stator
from bench.report import rewrite
from bench.workload import NOUNS, VERBS, Workload
from stator.model.log.query import SessionQuery
from stator.runtime.base.pages import matching
from stator.runtime.facade.store import Store

RESULTS = Path(__file__).with_name("RESULTS-search.md")
ASKED = 20
COMMON = "return self if in def none import for name the value not is raise str len true else import class".split()


def build(folder: Path, sessions: int) -> Path:
    """The store that is searched: a session a turn."""
    path = folder / "stator.db"
    if path.exists():
        return path
    peer = Stator()
    peer.open(folder, RELAXED)
    for n, turn in enumerate(Workload(cache=folder / "cache").turns(sessions)):
        peer.append(f"work-{n}", turn)
        peer.leave(f"work-{n}")
    peer.close()
    return path


def fill(path: Path) -> tuple[float, float]:
    """Make the index anew; wall and CPU seconds."""
    for name in ("-search", "-search-wal", "-search-shm"):
        path.with_name(path.name + name).unlink(missing_ok=True)
    with stator.connect(path, project="bench") as store:
        wall, cpu = time.perf_counter(), time.process_time()
        store.search("nothing")
        return time.perf_counter() - wall, time.process_time() - cpu


def questions(sessions: int) -> dict[str, list[str]]:
    r = random.Random(7)
    pairs = [(r.choice(VERBS), r.choice(NOUNS)) for _ in range(ASKED)]
    return {
        "rare word": [f"work-{r.randrange(sessions)}" for _ in range(ASKED)],
        "common word": [COMMON[n % len(COMMON)] for n in range(ASKED)],
        "two words": [f"{one} {other}" for one, other in pairs],
        "phrase": [f'"the {other}"' for _, other in pairs],
        "beginning": [f"{one[:4]}*" for one, _ in pairs],
        "nothing there": [f"zzz{n}" for n in range(ASKED)],
    }


def ask(
    store: Store, texts: list[str], project: str | None
) -> tuple[list[float], list[float], float]:
    """Milliseconds each, of wall and of CPU time, and how many hits on average."""
    times: list[float] = []
    cpu: list[float] = []
    hits = 0
    for text in texts:
        begun, worked = time.perf_counter(), time.process_time()
        hits += len(store.search(text, project=project))
        times.append((time.perf_counter() - begun) * 1000)
        cpu.append((time.process_time() - worked) * 1000)
    return times, cpu, hits / len(texts)


def erase(path: Path) -> float:
    """Erase one session of a copy, once it was searched; seconds."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        for name in ("", "-search"):
            shutil.copyfile(f"{path}{name}", Path(folder, path.name + name))
        with stator.connect(Path(folder, path.name), project="bench") as store:
            plan = store.erasing("work-5")
            begun = time.perf_counter()
            store.erase(plan)
            return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--dir", type=Path, default=None)
    parser.add_argument("--keep", type=Path, default=None)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.dir) as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        path = build(folder, given.sessions)
        wall, cpu = fill(path)
        with stator.connect(path, project="bench") as store:
            commits = sum(row.head for row in matching(store.port, SessionQuery()))
            rows = []
            for what, texts in questions(given.sessions).items():
                for project in (None, "bench"):
                    times, cpus, hits = ask(store, texts, project)
                    p95s = f"{quantiles(times, n=20)[-1]:.0f} | {quantiles(cpus, n=20)[-1]:.0f}"
                    of = "a project" if project else "the store"
                    rows.append(
                        f"| {what}, in {of} | {median(times):.0f} | {median(cpus):.0f} | {p95s} | {hits:.0f} |"
                    )
        erased = erase(path)
        index, whole = os.path.getsize(f"{path}-search"), os.path.getsize(path)
    table = [
        f"{given.sessions:,} sessions, {commits:,} commits, a store of {whole / 1e6:.0f} MB; an index of "
        f"{index / 1e6:.0f} MB, filled in {wall:.0f} s ({cpu:.0f} s of CPU; {commits / wall:,.0f} commits a second). "
        f"Erasing one session took {erased:.1f} s.",
        "",
        "| 20 questions each | median ms | of CPU | p95 ms | of CPU | hits |",
        "|---|---|---|---|---|---|",
        *rows,
    ]
    print("\n".join(table))
    if given.write:
        rewrite(RESULTS, table)


if __name__ == "__main__":
    main()
