"""How fast a session leaves and arrives: `python -m bench.bundle [--turns 500] [--dir DIR] [--write]`.

Builds the workload's session once, then exports and imports it in processes of their own, and
gives MB of content per second of wall and of CPU time, the size of the file, and the peak memory
of each process.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.peers.base import RELAXED
from bench.peers.ours import Stator
from bench.report import rewrite
from bench.workload import Workload

RESULTS = Path(__file__).with_name("RESULTS-bundle.md")
NAME = "work"


def build(folder: Path, turns: int) -> None:
    """The store that is exported from."""
    peer = Stator()
    peer.open(folder, RELAXED)
    peer.new(NAME)
    for turn in Workload(cache=folder.parent / "cache").turns(turns):
        peer.append(NAME, turn)
    peer.close()


def measured(what: str, source: Path, file: Path) -> None:
    """In a process of its own: do it once and print what it took."""
    import stator

    before = peak_kb()
    with stator.connect(source, project="bench") as store:
        wall, cpu = time.perf_counter(), time.process_time()
        if what == "export":
            made = store.export(NAME, file, replace=True)
            content, size = made.logical, made.bytes
        else:
            content, size = 0, store.import_bundle(file).bytes
        took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    told = {"content": content, "file": size, "peak": peak_kb(), "base": before}
    print(json.dumps({**took, **told}))


def peak_kb() -> int:
    """The most memory this process had; what `getrusage` says is inherited."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def run(what: str, source: Path, file: Path) -> dict[str, float]:
    words = [sys.executable, "-m", "bench.bundle", "--one", what, str(source), str(file)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def line(what: str, rounds: list[dict[str, float]], content: float) -> str:
    wall, cpu = (median(one[name] for one in rounds) for name in ("wall", "cpu"))
    peak = max(one["peak"] for one in rounds) / 1024
    base = max(one["base"] for one in rounds) / 1024
    mb = content / 1e6
    return f"| {what} | {mb / wall:.1f} | {mb / cpu:.1f} | {wall:.2f} | {peak:.0f} (began with {base:.0f}) |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, default=None)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        measured(given.one[0], Path(given.one[1]), Path(given.one[2]))
        return
    with tempfile.TemporaryDirectory(dir=given.dir) as folder:
        source, file = Path(folder, "source"), Path(folder, "x.stator")
        source.mkdir()
        build(source, given.turns)
        store = next(source.glob("*.db"))
        out = [run("export", store, file) for _ in range(given.rounds)]
        back = []
        for n in range(given.rounds):
            target = Path(folder, f"target{n}")
            target.mkdir()
            back.append(run("import", target / "agent.db", file))
            shutil.rmtree(target)
        content = out[0]["content"]
        table = [
            f"{given.turns:,} turns, {content / 1e6:.1f} MB of content, "
            f"{out[0]['file'] / content:.2f} of it in the file; median of {given.rounds} processes.",
            "",
            "| | MB/s | MB per CPU second | seconds | peak MB |",
            "|---|---|---|---|---|",
            line("export", out, content),
            line("import", back, content),
        ]
    print("\n".join(table))
    if given.write:
        rewrite(RESULTS, table)


if __name__ == "__main__":
    main()
