"""How fast a session leaves and arrives: `python -m bench.bundles DIR`. Prints measures as JSON.

The workload's session is exported and imported, each in a process of its own; CPU of the work itself, per commit,
without loading code.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import stator
from bench.peers.base import RELAXED
from bench.peers.ours import Stator
from bench.workload import Workload
from stator.runtime.bundles import transfer as _  # noqa: F401 - loaded late, and no part of what a commit takes

TURNS, ROUNDS = 500, 3
NAME = "work"


def build(folder: Path, workload: Workload) -> Path:
    """The store that is exported from."""
    folder.mkdir()
    peer = Stator()
    peer.open(folder, RELAXED)
    peer.new(NAME)
    for turn in workload.turns(TURNS):
        peer.append(NAME, turn)
    peer.close()
    return peer.files()[0]


def measured(what: str, source: Path, file: Path) -> None:
    """In a process of its own: do it once and print what it took."""
    with stator.connect(source, project="bench") as store:
        began = time.process_time()
        if what == "export":
            made = store.export(NAME, file, replace=True)
            content, size = made.logical, made.bytes
        else:
            content, size = 0, store.import_bundle(file).bytes
        cpu = time.process_time() - began
        commits = store.read(NAME).counts.commits
    found = {"cpu": cpu, "content": content, "file": size, "peak": peak_mb(), "commits": commits}
    print(json.dumps(found))


def peak_mb() -> float:
    """The most memory this process had; what `getrusage` says is inherited."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def run(what: str, source: Path, file: Path) -> dict[str, float]:
    words = [sys.executable, "-m", "bench.bundles", what, str(source), str(file)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    if len(sys.argv) > 2:
        measured(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
        return
    folder = Path(sys.argv[1])
    file = folder / "work.stator"
    store = build(folder / "source", Workload(cache=folder / "cache"))
    out, back = [], []
    for number in range(ROUNDS):
        out.append(run("export", store, file))
        target = folder / f"target{number}"
        target.mkdir()
        back.append(run("import", target / "agent.db", file))
        shutil.rmtree(target)
    commits = out[0]["commits"]
    found = {
        "bundle_export_us": median(one["cpu"] for one in out) / commits * 1e6,
        "bundle_import_us": median(one["cpu"] for one in back) / commits * 1e6,
        "bundle_over_content": out[0]["file"] / out[0]["content"],
        "bundle_mb_peak": max(one["peak"] for one in (*out, *back)),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
