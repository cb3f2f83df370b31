"""What the programs cost that people and agents start: `python -m bench.programs DIR`. Prints measures as JSON.

CPU of the child (user and system, the interpreter's start among it), median; commands and a Python that does nothing
run in turn, so that a busy machine can be told from a slow program. `stator --help`, `ls`, `log`, `diff` into a pipe
and on a terminal; `stator-hook` for a line with nothing to redact, one that may hold a secret, the start of a session
and an event of 20 MB.
"""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import stator
from bench.peers.base import RELAXED
from bench.peers.ours import Stator
from bench.process import cpu_ms, environment
from bench.workload import Workload
from stator.surfaces.hook import line_of

ROUNDS, LARGE_ROUNDS = 7, 3
TURNS = 50
CODE = "def total(items):\n    return sum(item.price for item in items)\n" * 60
LARGE = 20_000_000


def program(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise SystemExit(f"{name} is not installed")
    return found


def on_terminal_ms(
    command: list[str], env: dict[str, str], cwd: Path, *, finds: bool = False
) -> float:
    """CPU of a command that writes to a terminal; `finds`, where it may find something and say so by its exit code."""
    ours, theirs = pty.openpty()
    reading = threading.Thread(target=_drain, args=(ours,))
    reading.start()
    wide = {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
    process = subprocess.Popen(
        command, env=environment(**env, **wide), cwd=cwd, stdin=subprocess.DEVNULL,
        stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    reading.join()
    os.close(ours)
    if process.returncode > finds:
        raise SystemExit(f"{command}: exit code {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1e3


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 65_536):
            pass
    except OSError:  # the other end is closed: nothing more comes
        return


def commands(folder: Path) -> dict[str, float]:
    place = folder / "commands"
    place.mkdir()
    peer = Stator()
    peer.open(place, RELAXED)
    peer.new("work")
    for turn in Workload(cache=folder / "cache").turns(20):
        peer.append("work", turn)
    _, env = peer.cli_log("work")
    peer.close()
    run = program("stator")
    asked = {
        "help": ["--help"],
        "ls": ["ls", "--everywhere"],
        "log": ["log", "work", "-n", "20"],
        "diff": ["diff", "work:t19..t20"],
    }
    times: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        bare = cpu_ms([sys.executable, "-c", "pass"], env, place)
        times.setdefault("python_ms", []).append(bare)
        for name, words in asked.items():
            piped = cpu_ms([run, *words], env, place)
            times.setdefault(f"cli_{name}_ms", []).append(piped)
            if name != "help":
                shown = on_terminal_ms([run, *words], env, place)
                times.setdefault(f"cli_{name}_terminal_ms", []).append(shown)
    return {name: median(values) for name, values in times.items()}


# -- hooks ----------------------------------------------------------------------------------------


def event(name: str, folder: Path, **more: Any) -> dict[str, Any]:
    about = {"hook_event_name": name, "cwd": str(folder), "conversation_id": "bench"}
    return {**about, "permission_mode": "default", **more}


def conversation(folder: Path) -> Iterator[dict[str, Any]]:
    yield event("sessionStart", folder)
    for turn in range(TURNS):
        yield event("beforeSubmitPrompt", folder, generation_id=f"g{turn}", prompt=f"do {turn}")
        for n in range(3):
            call = {"tool_use_id": f"t{turn}-{n}", "tool_name": "Shell"}
            yield event("preToolUse", folder, **call, tool_input={"command": f"ls {n}"})
            yield event("postToolUse", folder, **call, tool_output=CODE)
        yield event("stop", folder)


def prepare(folder: Path) -> None:
    """A store with a session in it."""
    path = folder / ".stator" / "store.db"
    stator.connect(path).close()
    spool = folder / ".stator" / "store.db-spool"
    spool.mkdir(mode=0o700)
    lines = (
        line_of("cursor", str(folder), json.dumps(one).encode()) for one in conversation(folder)
    )
    (spool / "current").write_bytes(b"".join(lines))
    stator.connect(path).close()


def hooks(folder: Path) -> dict[str, float]:
    place = folder / "hooks"
    place.mkdir()
    prepare(place)
    post = {"tool_use_id": "t", "tool_name": "Shell"}
    harmless = event("postToolUse", place, **post, tool_output=CODE)
    secret = {"tool_output": f"{CODE}\nexport API_KEY=abcdefgh12345678"}
    large = {"tool_output": (CODE * (LARGE // len(CODE) + 1))[:LARGE]}
    lines = {
        "hook_plain_ms": harmless,
        "hook_secret_ms": harmless | secret,
        "hook_start_ms": event("sessionStart", place, source="resume"),
    }
    rounds = [list(lines.items())] * ROUNDS
    # Last: the start of a session takes in what waits, and would be measured with these.
    rounds += [[("hook_20mb_ms", harmless | large)]] * LARGE_ROUNDS
    times: dict[str, list[float]] = {}
    run = [program("stator-hook"), "cursor"]
    given = place / "event.json"
    for name, one in chain.from_iterable(rounds):
        given.write_text(json.dumps(one))
        with given.open("rb") as source:
            times.setdefault(name, []).append(cpu_ms(run, {}, place, source))
    return {name: median(values) for name, values in times.items()}


def main() -> None:
    folder = Path(sys.argv[1])
    os.environ["HOME"] = str(folder)  # the stores made here are this user's own, in every process
    print(json.dumps(commands(folder) | hooks(folder)))


if __name__ == "__main__":
    main()
