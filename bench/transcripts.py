"""How fast transcripts come in, beside agentsview: `python -m bench.transcripts DIR`. Prints measures as JSON.

A hundred made-up transcripts of Claude Code, 100 MB, are imported by `stator import` and by `agentsview sync`, each in
a process of its own with an empty home; then again, unchanged, also a thousand of them; then ten lines are added to a
turn of 3 MB. CPU is what the system says of the process.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

SESSIONS, MANY = 100, 1_000
BYTES, SMALL = 1_000_000, 20_000
"""Of one transcript: of the hundred, of the thousand."""
ONE_TURN = 3_000_000
MORE_LINES = 10
ROUNDS = 9
"""Each takes the difference of two processes, which is a tenth of either."""
CALLS = 6
"""Calls a turn, in the transcripts that are made."""
OUTPUT = 6_000
"""Characters a call gives back, on average."""
Measures = dict[str, float]


class Writer:
    """Lines as Claude Code writes them, with made-up words in them."""

    def __init__(self, seed: int = 7, cwd: str = "/home/dev/shop") -> None:
        self._cwd = cwd
        self._random = random.Random(seed)
        self._words = [f"{self._random.randrange(16**8):x}"[: 3 + n % 6] for n in range(5_000)]
        self.session = self._id()
        self._last: str | None = None
        self._at = 1_760_000_000

    def turn(self, calls: int = CALLS) -> list[str]:
        """A prompt, some calls, and what is said in the end."""
        prompt = self._line("user", {"role": "user", "content": self._text(200)})
        return [prompt, *self.calls(calls), self._answer([self._said(600)])]

    def calls(self, count: int) -> list[str]:
        """Calls and their results, two lines each."""
        lines: list[str] = []
        for _ in range(count):
            call = f"toolu_{self._id()[:20]}"
            command = {"command": f"grep -rn {self._text(12)} src", "description": self._text(30)}
            asked = {"type": "tool_use", "id": call, "name": "Bash", "input": command}
            lines.append(self._answer([self._said(120), asked]))
            output = self._text(self._random.randrange(2 * OUTPUT))
            result = {"type": "tool_result", "tool_use_id": call, "content": output}
            more = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
            said = {"role": "user", "content": [result]}
            lines.append(self._line("user", said, toolUseResult=more))
        return lines

    def _said(self, size: int) -> dict[str, object]:
        return {"type": "text", "text": self._text(size)}

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
            "cwd": self._cwd, "sessionId": self.session, "version": "2.1.325",
            "gitBranch": "main", "type": kind, "message": message, "uuid": name,
            "timestamp": stamp, **more,
        }  # fmt: skip
        return json.dumps(whole) + "\n"

    def _text(self, size: int) -> str:
        return " ".join(self._random.choices(self._words, k=size // 7 + 1))[: size + 1]

    def _id(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128)))


def make(folder: Path, count: int, size: int) -> None:
    """Transcripts where Claude Code keeps them, of about that size each."""
    for number in range(count):
        writer = Writer(number)
        path = folder / f"{writer.session}.jsonl"
        written = 0
        with path.open("w", encoding="utf-8") as file:
            while written < size:
                written += sum(map(file.write, writer.turn()))


def home(folder: Path, name: str) -> tuple[Path, Path]:
    """An empty home, and the folder of transcripts in it."""
    place = folder / name
    transcripts = place / ".claude" / "projects" / "-home-dev-shop"
    transcripts.mkdir(parents=True)
    return place, transcripts


def ran(command: list[str], place: Path, **more: str) -> tuple[Measures, bytes]:
    """CPU and wall seconds and peak MB of a program; what it printed."""
    environ = {"HOME": str(place), "PATH": os.environ["PATH"], **more}
    began = time.perf_counter()
    out = place / "out"
    with out.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environ, cwd=place)
        _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(
            f"{command[:3]}: exit code {process.returncode}: {out.read_bytes()[-400:]!r}"
        )
    cpu = used.ru_utime + used.ru_stime
    return {"cpu": cpu, "wall": wall, "mb": used.ru_maxrss / 1024}, out.read_bytes()


def ours(place: Path, source: Path) -> tuple[Measures, dict[str, Any]]:
    words = [sys.executable, "-m", "stator", "import", str(source), "--json"]
    took, out = ran([*words, "--store", str(place / "store.db")], place)
    return took, json.loads(out[out.index(b"{") :])


def commits_of(place: Path) -> int:
    words = [sys.executable, "-m", "stator", "sql", "SELECT count(*) AS n FROM commits", "--json"]
    _, out = ran([*words, "--store", str(place / "store.db")], place)
    found: int = json.loads(out[out.index(b"{") :])["n"]
    return found


def beside_agentsview(folder: Path) -> Measures:
    mine, transcripts = home(folder, "ours")
    make(transcripts, SESSIONS, BYTES)
    took, _ = ours(mine, transcripts)
    again, _ = ours(mine, transcripts)
    found = {
        "import_100_cpu_s": took["cpu"],
        "import_100_wall_s": took["wall"],
        "import_mb_peak": took["mb"],
        "import_us_per_commit": took["cpu"] / commits_of(mine) * 1e6,
        "import_100_again_cpu_s": again["cpu"],
    }
    program = shutil.which("agentsview", path=str(Path(sys.executable).parent))
    if program is None:
        print("agentsview: not installed", file=sys.stderr)
        return found
    theirs, copies = home(folder, "agentsview")
    shutil.copytree(transcripts, copies, dirs_exist_ok=True)
    alone = {"AGENTSVIEW_NO_DAEMON": "1"}
    other, _ = ran([program, "sync"], theirs, **alone)
    other_again, _ = ran([program, "sync"], theirs, **alone)
    return found | {
        "agentsview_100_cpu_s": other["cpu"],
        "agentsview_100_wall_s": other["wall"],
        "agentsview_100_again_cpu_s": other_again["cpu"],
        "import_cpu_over_agentsview": took["cpu"] / other["cpu"],
        "import_wall_over_agentsview": took["wall"] / other["wall"],
    }


def unchanged(folder: Path) -> Measures:
    place, transcripts = home(folder, "many")
    make(transcripts, MANY, SMALL)
    ours(place, transcripts)
    again, _ = ours(place, transcripts)
    return {"import_1000_again_wall_s": again["wall"], "import_1000_again_cpu_s": again["cpu"]}


def ten_more_lines(folder: Path) -> Measures:
    """CPU of a process that takes in ten more lines of a long turn, less that of one that finds nothing new."""
    place, transcripts = home(folder, "turn")
    writer = Writer(5)
    path = transcripts / f"{writer.session}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(writer.turn())
        written = 0
        file.writelines(writer.turn()[:1])
        while written < ONE_TURN:
            written += sum(map(file.write, writer.calls(1)))
    ours(place, path)
    spent: list[float] = []
    for _ in range(ROUNDS):
        nothing, _ = ours(place, path)
        with path.open("a", encoding="utf-8") as file:
            file.writelines(writer.calls(MORE_LINES // 2))
        more, _ = ours(place, path)
        spent.append(more["cpu"] - nothing["cpu"])
    return {"import_ten_lines_ms": sorted(spent)[len(spent) // 2] * 1e3}


def main() -> None:
    folder = Path(sys.argv[1])
    print(json.dumps(beside_agentsview(folder) | unchanged(folder) | ten_more_lines(folder)))


if __name__ == "__main__":
    main()
