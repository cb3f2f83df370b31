"""How fast transcripts come in, and in how much memory.

    python -m bench.import FOLDER [--gb 2] [--dir DIR] [--write]

FOLDER is imported as it is, then again. Then a transcript of Claude Code of that many gigabytes is made
in DIR, imported, imported again unchanged, and deleted. Each import is `stator import` in a process of
its own; its peak memory and CPU time are what the system says of that process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS-import.md")
MB = 1_000_000
CALLS = 6
"""Calls a turn, in the transcript that is made."""
OUTPUT = 6_000
"""Characters a call gives back, on average."""


@dataclass(frozen=True)
class Took:
    what: str
    bytes: int
    wall: float
    cpu: float
    peak: float
    told: dict[str, int]

    @property
    def row(self) -> str:
        speed = self.bytes / MB / self.wall
        numbers = " | ".join(f"{self.told[name]:,}" for name in ("imported", "turns", "calls"))
        return (
            f"| {self.what} | {self.bytes / MB:,.0f} | {speed:.1f} | "
            f"{self.bytes / MB / self.cpu:.1f} | {self.wall:.1f} | {self.peak:.0f} | {numbers} |"
        )


def imported(what: str, path: Path, store: Path, size: int) -> Took:
    """`stator import`, measured."""
    words = [sys.executable, "-m", "stator.surfaces.cli.main", "import", str(path), "--json"]
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([*words, "--store", str(store)], stdout=out, cwd=store.parent)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        told = json.load(out)
    return Took(what, size, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, told)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


# -- a transcript ---------------------------------------------------------------------------------


class Writer:
    """Lines as Claude Code writes them, with made-up words in them."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._words = [f"{self._random.randrange(16**8):x}"[: 3 + n % 6] for n in range(5_000)]
        self._session = self._id()
        self._last: str | None = None
        self._at = 1_760_000_000

    def turn(self) -> list[str]:
        """A prompt, some calls, and what is said in the end."""
        lines = [self._line("user", {"role": "user", "content": self._text(200)})]
        for _ in range(CALLS):
            call = f"toolu_{self._id()[:20]}"
            command = {"command": f"grep -rn {self._text(12)} src", "description": self._text(30)}
            asked = {"type": "tool_use", "id": call, "name": "Bash", "input": command}
            lines.append(self._answer([{"type": "text", "text": self._text(120)}, asked]))
            output = self._text(self._random.randrange(2 * OUTPUT))
            result = {"type": "tool_result", "tool_use_id": call, "content": output}
            more = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
            said = {"role": "user", "content": [result]}
            lines.append(self._line("user", said, toolUseResult=more))
        return [*lines, self._answer([{"type": "text", "text": self._text(600)}])]

    def _answer(self, blocks: list[dict[str, object]]) -> str:
        usage = {"input_tokens": 900, "output_tokens": 60}
        named = {"id": f"msg_{self._id()[:20]}", "type": "message", "role": "assistant"}
        said = {**named, "model": "made-up-1", "content": blocks, "usage": usage}
        return self._line("assistant", said)

    def _line(self, kind: str, message: dict[str, object], **more: object) -> str:
        name, parent = self._id(), self._last
        self._last = name
        self._at += 1
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(self._at))
        whole = {
            "parentUuid": parent, "isSidechain": False, "userType": "external",
            "cwd": "/home/dev/shop", "sessionId": self._session, "version": "2.1.325",
            "gitBranch": "main", "type": kind, "message": message, "uuid": name,
            "timestamp": stamp, **more,
        }  # fmt: skip
        return json.dumps(whole) + "\n"

    def _text(self, size: int) -> str:
        return " ".join(self._random.choices(self._words, k=size // 7 + 1))[: size + 1]

    def _id(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128)))


def make(path: Path, size: int) -> int:
    """Write a transcript of about that size."""
    writer = Writer()
    written = 0
    with path.open("w") as file:
        while written < size:
            written += sum(file.write(line) for line in writer.turn())
    return path.stat().st_size


# -- the report -----------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gb", type=float, default=2.0)
    parser.add_argument("--dir", type=Path, default=None)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.dir) as name:
        base = Path(name)
        real, made = base / "real.db", base / "made.db"
        folder, large = given.folder.resolve(), base / f"{uuid.UUID(int=7)}.jsonl"
        size = size_of(folder)
        took = [imported("recorded sessions", folder, real, size)]
        took.append(imported("… again, unchanged", folder, real, size))
        size = make(large, int(given.gb * 1000 * MB))
        took.append(imported("one made-up transcript", large, made, size))
        took.append(imported("… again, unchanged", large, made, size))
        stored = made.stat().st_size
    table = "\n".join(one.row for one in took)
    table += f"\n\nThe store of the made-up transcript is {stored / MB:,.0f} MB."
    print(table)
    if given.write:
        text = RESULTS.read_text()
        begin, end = text.index("| what"), text.index("## What it says")
        head = text[begin:].split("\n", 2)[:2]
        RESULTS.write_text(text[:begin] + "\n".join([*head, table, "", ""]) + text[end:])


if __name__ == "__main__":
    main()
