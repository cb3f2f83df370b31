"""The seeded workload: the turns of a coding agent, the same bytes for every peer.

A turn = user message 200 B + assistant message 1.5 KB + 3 tool calls (input 300 B; output
lognormal, 4 KB on average, clipped to 40 B..200 KB, code-like) + state changes (2 files,
1 decision, plan progress): about 15 KB.

Texts are cut from the standard library's sources, which every machine has; they depend on the
Python version, so results carry a fingerprint. Half of the files (by a hash of their names) are
never used here: a compression dictionary may be trained on that half only.

Making texts is slow, so there is a pool of 2,000 turns' texts, optionally kept in a cache
directory; turn k takes texts k mod 2,000 and marks each with its own number, so that no payload
occurs twice and storing equal payloads once gains nothing. State changes are drawn anew for
every k. With `fresh_decisions` every turn decides a new topic and the state grows for ever;
without it, turns decide again and again about 200 topics.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypedDict

SEED = 20240611
POOL = 2_000
USER_BYTES, ANSWER_BYTES, INPUT_BYTES = 200, 1_500, 300
PATTERN_BYTES_MAX = 150
OUTPUT_MEAN, OUTPUT_SIGMA, OUTPUT_MIN, OUTPUT_MAX = 4_096, 1.3, 40, 200_000
STARTED, TURN_SECONDS = 1_718_100_000.0, 37.5

ADJECTIVES = (
    "stable flaky cached lazy strict partial remote local atomic async typed legacy".split()
)
NOUNS = (
    "parser session token buffer index router schema adapter cursor handler snapshot queue".split()
)
VERBS = (
    "refactor fix extend inline replace validate cache split rename guard retry document".split()
)
PLAN_STATUSES = ("pending", "in_progress", "done", "blocked")


class FileChange(TypedDict):
    op: str  # edit | create
    before: str
    after: str
    added: int
    removed: int


class Decision(TypedDict):
    choice: str
    why: str
    confidence: float


class Delta(TypedDict):
    files: dict[str, FileChange]
    decision: dict[str, Decision]  # one topic
    plan: dict[str, str]  # one step


class Call(TypedDict):
    id: str
    name: str
    input: str  # valid JSON, exactly INPUT_BYTES long
    output: str


class Turn(TypedDict):
    turn: int  # 1, 2, 3, ...
    ts: float
    user: str
    assistant: str
    tools: list[Call]
    delta: Delta


class State(TypedDict):
    """What a session's turns amount to. A file's record also carries the turn that touched it."""

    files: dict[str, dict[str, Any]]
    decisions: dict[str, Decision]
    plan: dict[str, str]


# ---- what every peer stores ------------------------------------------------------------------


def records(turn: Turn) -> list[dict[str, Any]]:
    """The 8 records of a turn: prompt; 3 × intent and outcome; answer with state changes."""
    k = turn["turn"]
    out: list[dict[str, Any]] = [{"kind": "prompt", "turn": k, "text": turn["user"]}]
    for call in turn["tools"]:
        intent = {"id": call["id"], "name": call["name"], "input": call["input"]}
        out.append({"kind": "intent", "turn": k, **intent})
        out.append({"kind": "outcome", "turn": k, "id": call["id"], "output": call["output"]})
    out.append({"kind": "answer", "turn": k, "text": turn["assistant"], "delta": turn["delta"]})
    return out


def logical(turn: Turn) -> int:
    """The bytes of content in a turn, however they are stored."""
    calls = sum(
        len(c["input"]) + len(c["output"]) + len(c["id"]) + len(c["name"]) for c in turn["tools"]
    )
    delta = len(json.dumps(turn["delta"], separators=(",", ":")))
    return len(turn["user"]) + len(turn["assistant"]) + calls + delta


def empty() -> State:
    return {"files": {}, "decisions": {}, "plan": {}}


def fold(state: State, delta: Delta, turn: int) -> State:
    """Apply one turn's changes to `state`, in place."""
    state["files"].update(
        {path: {**change, "turn": turn} for path, change in delta["files"].items()}
    )
    state["decisions"].update(delta["decision"])
    state["plan"].update(delta["plan"])
    return state


# ---- the workload ----------------------------------------------------------------------------


class Texts(TypedDict):
    """The slow part of a turn, made once."""

    user: str
    assistant: str
    tools: list[dict[str, str]]  # name, input, output


@dataclass
class Workload:
    """Turns by number. With `cache`, the pool is read from (and by `prepare` kept in) that directory."""

    seed: int = SEED
    fresh_decisions: bool = True
    cache: Path | None = None

    def __post_init__(self) -> None:
        self._pool: list[Texts] = []
        self._lines: Iterator[str] | None = None

    def turns(self, n: int, start: int = 1) -> Iterator[Turn]:
        """Turns start .. start + n - 1, made as they are asked for."""
        return (self.turn(k) for k in range(start, start + n))

    def turn(self, k: int) -> Turn:
        texts = self._texts((k - 1) % POOL)
        return {
            "turn": k,
            "ts": STARTED + k * TURN_SECONDS,
            "user": _mark(texts["user"], f"[{k}] "),
            "assistant": _mark(texts["assistant"], f"[{k}] "),
            "tools": [_call(k, j, call) for j, call in enumerate(texts["tools"])],
            "delta": self.delta(k),
        }

    def tiny(self, k: int) -> Turn:
        """A turn of about 1 KB, for measures that need many sessions and no content."""
        turn = self.turn(k)
        turn["assistant"] = turn["assistant"][:80]
        turn["tools"] = [{**call, "output": call["output"][:OUTPUT_MIN]} for call in turn["tools"]]
        return turn

    def delta(self, k: int) -> Delta:
        """Only the state changes of turn k; needs no texts, so folding many turns is cheap."""
        r = random.Random(self.seed * 1_000_033 + k)
        files: dict[str, FileChange] = {}
        while len(files) < 2:
            files[_path(r)] = _file_change(r)
        topic = f"topic_{k}" if self.fresh_decisions else f"topic_{r.randrange(200)}"
        why, choice = _sentences(r, 160), _sentences(r, 90)
        decision: Decision = {"choice": choice, "why": why, "confidence": round(r.random(), 3)}
        plan = {f"step_{r.randrange(30)}": r.choice(PLAN_STATUSES)}
        return {"files": files, "decision": {topic: decision}, "plan": plan}

    def prepare(self, n: int) -> None:
        """Write the pool, as far as n turns need it, into the cache directory."""
        if self.cache is None or (
            self._file().exists() and _line_count(self._file()) >= min(n, POOL)
        ):
            return
        self.cache.mkdir(parents=True, exist_ok=True)
        partial = self._file().with_suffix(f".{os.getpid()}.partial")
        with partial.open("w", encoding="utf-8") as out:
            for i in range(min(n, POOL)):
                out.write(json.dumps(_make_texts(self.seed, i)) + "\n")
        partial.replace(self._file())

    def fingerprint(self) -> str:
        """Digest of the first 20 turns: equal fingerprints mean equal bytes."""
        h = hashlib.sha256()
        for turn in self.turns(20):
            h.update(json.dumps(turn, sort_keys=True).encode())
        return h.hexdigest()[:16]

    def _file(self) -> Path:
        assert self.cache is not None
        return self.cache / f"pool-{self.seed}-{len(corpus_files())}.jsonl"

    def _texts(self, i: int) -> Texts:
        """Texts i; the cache file is read only as far as asked for, to stay small in memory."""
        while len(self._pool) <= i:
            self._pool.append(self._next_texts())
        return self._pool[i]

    def _next_texts(self) -> Texts:
        if self._lines is None:
            cached = self.cache is not None and self._file().exists()
            self._lines = self._file().open(encoding="utf-8") if cached else iter(())
        line = next(self._lines, None)
        return json.loads(line) if line else _make_texts(self.seed, len(self._pool))


def _line_count(path: Path) -> int:
    with path.open("rb") as f:
        return sum(1 for _ in f)


def _mark(text: str, tag: str) -> str:
    """The same length, but unique to its turn."""
    return tag + text[len(tag) :]


def _call(k: int, j: int, call: dict[str, str]) -> Call:
    tag = f"{k}.{j}"
    return {
        "id": f"call_{k}_{j}_{(k * 3 + j) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFF:012x}",
        "name": call["name"],
        "input": call["input"][: -len(tag) - 2] + tag + '"}',  # inside its last string: still JSON
        "output": _mark(call["output"], f"[{tag}] "),
    }


def _path(r: random.Random) -> str:
    """A few files are touched all the time, many hardly ever."""
    noun = NOUNS[min(len(NOUNS), int(r.paretovariate(1))) - 1]
    return f"src/{noun}/{r.choice(ADJECTIVES)}_{min(399, int(r.paretovariate(0.7)))}.py"


def _file_change(r: random.Random) -> FileChange:
    return {
        "op": r.choice(("edit", "edit", "edit", "create")),
        "before": f"{r.getrandbits(128):032x}",
        "after": f"{r.getrandbits(128):032x}",
        "added": r.randrange(80),
        "removed": r.randrange(40),
    }


# ---- texts -----------------------------------------------------------------------------------

Source = tuple[str, list[str]]  # name, lines


@cache
def corpus_files(half: str = "test") -> tuple[Path, ...]:
    """The standard library's source files in one half: 'test' (this workload) or 'train'."""
    root = Path(os.__file__).parent
    names = sorted(p.relative_to(root).as_posix() for p in root.rglob("*.py"))
    wanted = half == "test"
    return tuple(
        root / name
        for name in names
        if "site-packages" not in name and (hashlib.sha256(name.encode()).digest()[0] & 1) == wanted
    )


@cache
def corpus(half: str = "test") -> tuple[Source, ...]:
    """The ASCII sources of a half, so that characters are bytes."""
    root = Path(os.__file__).parent
    out: list[Source] = []
    for path in corpus_files(half):
        data = path.read_bytes()
        if len(data) > 400 and data.isascii():
            out.append((path.relative_to(root).as_posix(), data.decode("ascii").split("\n")))
    return tuple(out)


def _make_texts(seed: int, i: int) -> Texts:
    r = random.Random(seed * 1_000_003 + i)
    _, lines = r.choice(corpus())
    at = r.randrange(len(lines))
    answer = _sentences(r, 700) + "\n```python\n" + "\n".join(lines[at : at + 60])
    return {
        "user": _sentences(r, USER_BYTES),
        "assistant": answer[:ANSWER_BYTES].ljust(ANSWER_BYTES),
        "tools": [_make_call(r) for _ in range(3)],
    }


def _make_call(r: random.Random) -> dict[str, str]:
    name, output, _ = r.choices(TOOLS, [weight for _, _, weight in TOOLS])[0]
    size = int(math.exp(r.gauss(math.log(OUTPUT_MEAN) - OUTPUT_SIGMA**2 / 2, OUTPUT_SIGMA)))
    size = max(OUTPUT_MIN, min(OUTPUT_MAX, size))
    return {"name": name, "input": _make_input(r), "output": output(r, size)[:size].ljust(size)}


def _make_input(r: random.Random) -> str:
    """JSON arguments of exactly INPUT_BYTES; the last value is plain text of at least 24 bytes."""
    name, lines = r.choice(corpus())
    at = r.randrange(len(lines))
    pattern = "\n".join(lines[at : at + 12])[:PATTERN_BYTES_MAX]
    while True:
        text = json.dumps({"file_path": "/repo/" + name[-60:], "pattern": pattern, "why": ""})
        if (room := INPUT_BYTES - len(text)) >= 24:
            return text[:-2] + _sentences(r, room) + '"}'
        pattern = pattern[:-8]


def _sentences(r: random.Random, size: int) -> str:
    out, length = [], -2  # n sentences have n - 1 separators
    while length < size:
        where = f"{r.choice(NOUNS)}_{r.randrange(300)}.py"
        what = f"{r.choice(VERBS)} the {r.choice(ADJECTIVES)} {r.choice(NOUNS)}"
        text = f"{what} in {where} so that {r.choice(NOUNS)} stays {r.choice(ADJECTIVES)}"
        out.append(text)
        length += len(text) + 2
    return ". ".join(out)[:size]


def _joined(pieces: Iterator[str], size: int) -> str:
    """Pieces, a line each, until there are `size` bytes."""
    out, length = [], 0
    for piece in pieces:
        out.append(piece)
        length += len(piece) + 1
        if length > size:
            break
    return "\n".join(out)


def _read_output(r: random.Random, size: int) -> str:
    def numbered() -> Iterator[str]:
        _, lines = r.choice(corpus())
        start = r.randrange(len(lines))
        while True:
            for i in range(start, len(lines)):
                yield f"{i + 1:6d}\t{lines[i]}"
            _, lines = r.choice(corpus())
            start = 0

    return _joined(numbered(), size)


def _grep_output(r: random.Random, size: int) -> str:
    def hits() -> Iterator[str]:
        while True:
            name, lines = r.choice(corpus())
            for _ in range(r.randrange(1, 8)):
                i = r.randrange(len(lines))
                yield f"{name}:{i + 1}:{lines[i]}"

    return _joined(hits(), size)


def _test_output(r: random.Random, size: int) -> str:
    def results() -> Iterator[str]:
        yield " test session starts ".center(80, "=")
        while True:
            name, lines = r.choice(corpus())
            if r.random() < 0.85:
                test = f"test_{r.choice(VERBS)}_{r.choice(NOUNS)}_{r.randrange(99)}"
                yield f"{name}::{test} PASSED [{r.randrange(100):3d}%] ({r.random() * 3:.3f}s)"
            else:
                i = r.randrange(len(lines))
                yield f"{name}:{i}: AssertionError: {r.getrandbits(64):#x} != {r.getrandbits(64):#x}"
                yield ">   " + "\n    ".join(lines[i : i + 4])

    return _joined(results(), size)


def _list_output(r: random.Random, size: int) -> str:
    def rows() -> Iterator[str]:
        while True:
            when = f"Jun {r.randrange(1, 30):2d} {r.randrange(24):02d}:{r.randrange(60):02d}"
            name, _ = r.choice(corpus())
            yield f"-rw-r--r-- 1 dev dev {r.randrange(200_000):8d} {when} {name} {r.getrandbits(160):040x}"

    return _joined(rows(), size)


TOOLS: tuple[tuple[str, Callable[[random.Random, int], str], int], ...] = (
    ("Read", _read_output, 4),
    ("Grep", _grep_output, 2),
    ("Bash", _test_output, 2),
    ("Ls", _list_output, 1),
    ("Edit", _read_output, 1),
)
