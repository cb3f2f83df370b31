"""What a hook costs an agent: `python -m bench.hook [--rounds 20] [--write]`.

Runs `stator-hook` as an agent does, once for each line, and gives the CPU time of the child (user and
system, the interpreter's start among it): for a line with nothing to redact, for one that may hold a
secret, and for the start of a session, which is answered with a brief. An interpreter that does
nothing is run in turn with them, so that a busy machine can be told from a slow program.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import stator
from stator.surfaces.hook import line_of

RESULTS = Path(__file__).with_name("RESULTS-hook.md")
BEGIN, END = "<!-- measured -->\n", "<!-- end -->\n"
TURNS = 50
"""Of the session that is told of, with three calls each."""
CODE = "def total(items):\n    return sum(item.price for item in items)\n" * 60
AIMS = {"a line, nothing to redact": 30, "a line that may hold a secret": 50, "session start": 150}


def program() -> list[str]:
    """The program as it is installed, or as a module where it is not."""
    found = shutil.which("stator-hook", path=str(Path(sys.executable).parent))
    return [found] if found else [sys.executable, "-m", "stator.surfaces.hook"]


def cpu_ms(words: list[str], data: bytes, folder: Path) -> float:
    """CPU time of one run."""
    environ = {"HOME": str(folder), "PATH": os.environ["PATH"]}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        words, input=data, env=environ, cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def said(name: str, folder: Path, **more: Any) -> dict[str, Any]:
    about = {"hook_event_name": name, "cwd": str(folder), "conversation_id": "bench"}
    return {**about, "permission_mode": "default", **more}


def conversation(folder: Path) -> Iterator[dict[str, Any]]:
    yield said("sessionStart", folder)
    for turn in range(TURNS):
        yield said("beforeSubmitPrompt", folder, generation_id=f"g{turn}", prompt=f"do {turn}")
        for n in range(3):
            call = {"tool_use_id": f"t{turn}-{n}", "tool_name": "Shell"}
            yield said("preToolUse", folder, **call, tool_input={"command": f"ls {n}"})
            yield said("postToolUse", folder, **call, tool_output=CODE)
        yield said("stop", folder)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        post = {"tool_use_id": "t", "tool_name": "Shell"}
        harmless = said("postToolUse", folder, **post, tool_output=CODE)
        secret = {"tool_output": f"{CODE}\nexport API_KEY=abcdefgh12345678"}
        lines = {
            "a line, nothing to redact": harmless,
            "a line that may hold a secret": harmless | secret,
            "session start": said("sessionStart", folder, source="resume"),
        }
        bare: list[float] = []
        took: dict[str, list[float]] = {what: [] for what in lines}
        for _ in range(given.rounds):
            bare.append(cpu_ms([sys.executable, "-c", "pass"], b"", folder))
            for what, one in lines.items():
                data = json.dumps(one).encode()
                took[what].append(cpu_ms([*program(), "cursor"], data, folder))
    rows = [("python, doing nothing", bare, "")]
    rows += [(what, times, f"≤ {AIMS[what]}") for what, times in took.items()]
    table = "| | median ms | least ms | × nothing | aim |\n|---|---|---|---|---|\n" + "".join(
        f"| {what} | {median(times):.0f} | {min(times):.0f} | {median(times) / median(bare):.1f} | {aim} |\n"
        for what, times, aim in rows
    )
    print(table)
    if given.write:
        text = RESULTS.read_text(encoding="utf-8")
        head, _, rest = text.partition(BEGIN)
        RESULTS.write_text(
            head + BEGIN + "\n" + table + "\n" + END + rest.partition(END)[2], "utf-8"
        )


if __name__ == "__main__":
    main()
