"""Train the compression dictionary that ships with the package.

    python3.11 scripts/train_dictionary.py            write src/stator/store/dictionary_1.bin
    python3.11 scripts/train_dictionary.py --check    train again and compare with the file

A store never trains on its own content. What is shipped was trained on public text: one half of the
source files of the CPython 3.11 standard library (the other half makes the benchmark's workload and
is not read here), cut into samples shaped like what a session records, plus commit envelopes with
made-up values. Same interpreter, same libraries, same bytes: everything random comes from SEED.

A shipped dictionary never changes: files written with it need it for ever. To improve it, raise
DICT_ID and write `dictionary_2.bin` beside the old one.

To extend: add a function to TEXT_SHAPES (an rng, the corpus and a size, to text) or to
COMMIT_SHAPES (an rng and the corpus, to the caller's part of a commit).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SEED = 1
DICT_ID = 40_001  # 32768..65535: private use, and two bytes in a frame header instead of four
SIZE = 112 * 1024
LEVEL = 3  # the entropy tables are tuned for one level: 3 is the one to compress at
TEXT_SAMPLES = 12_000
COMMIT_SAMPLES = 4_000
OUTPUT = Path(__file__).resolve().parent.parent / "src/stator/store/dictionary_1.bin"
BUILT_PER_MACHINE = ("_sysconfigdata", "config-")  # not source: they hold the builder's own paths

Corpus = list[tuple[str, list[str]]]
json = msgspec.json.Encoder(order="deterministic").encode
msgpack = msgspec.msgpack.Encoder().encode


def corpus() -> Corpus:
    """The training half of the standard library: (relative path, lines), in path order."""
    root = Path(os.__file__).parent
    found: Corpus = []
    for file in sorted(root.rglob("*.py"), key=str):
        name = file.relative_to(root).as_posix()
        if "site-packages" in name or name.startswith(BUILT_PER_MACHINE):
            continue
        if hashlib.md5(f"/{name}".encode(), usedforsecurity=False).digest()[0] & 1:
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if len(text) > 400 and text.isascii():
            found.append((name, text.split("\n")))
    return found


# ── texts: what tools print and models say ───────────────────────────────────────────────────────


def excerpt(r: random.Random, c: Corpus, most: int) -> tuple[str, int, list[str]]:
    """A file's name, the first line's number and up to `most` of its lines."""
    name, lines = r.choice(c)
    start = r.randrange(len(lines))
    return name, start + 1, lines[start : start + most]


def until(size: int, chunks: Iterator[str]) -> str:
    """Join chunks by newline until there are `size` characters."""
    out: list[str] = []
    have = 0
    for chunk in chunks:
        out.append(chunk)
        have += len(chunk) + 1
        if have >= size:
            break
    return "\n".join(out)[:size]


def numbered_read(r: random.Random, c: Corpus, size: int) -> str:
    def lines() -> Iterator[str]:
        while True:
            _, first, text = excerpt(r, c, 400)
            yield from (f"{n:6d}\t{line}" for n, line in enumerate(text, first))

    return until(size, lines())


def plain_read(r: random.Random, c: Corpus, size: int) -> str:
    def lines() -> Iterator[str]:
        while True:
            yield from excerpt(r, c, 400)[2]

    return until(size, lines())


def grep(r: random.Random, c: Corpus, size: int) -> str:
    def lines() -> Iterator[str]:
        while True:
            name, text = r.choice(c)
            for number in sorted(r.randrange(len(text)) for _ in range(r.randint(1, 6))):
                yield f"{name}:{number + 1}:{text[number]}"

    return until(size, lines())


def test_run(r: random.Random, c: Corpus, size: int) -> str:
    defs = [line.strip() for _, text in c[:200] for line in text if "def test_" in line]
    names = [line.split("(")[0].removeprefix("def ") for line in defs]

    def lines() -> Iterator[str]:
        yield f"{' test session starts ':=^80}"
        yield "platform linux -- Python 3.11.7, pytest-8.3.3, pluggy-1.5.0 -- /usr/bin/python3"
        yield "cachedir: .pytest_cache\nrootdir: /repo\nconfigfile: pyproject.toml"
        yield f"collecting ... collected {r.randint(3, 900)} items\n"
        while True:
            name, _, text = excerpt(r, c, 5)
            verdict = r.choices(["PASSED", "FAILED", "SKIPPED", "ERROR"], [80, 12, 6, 2])[0]
            yield f"{name}::{r.choice(names)} {verdict} [{r.randint(0, 100):3d}%]"
            if verdict == "FAILED":
                yield f"{f' {r.choice(names)} ':_^80}\n"
                yield "\n".join(f"    {line}" for line in text)
                yield f">       assert {r.randint(0, 99)} == {r.randint(0, 99)}"
                yield f"E       AssertionError: assert {r.randint(0, 99)} == {r.randint(0, 99)}\n"
                yield f"{name}:{r.randint(1, 900)}: AssertionError"

    return until(size, lines())


def traceback(r: random.Random, c: Corpus, size: int) -> str:
    def lines() -> Iterator[str]:
        while True:
            yield "Traceback (most recent call last):"
            for _ in range(r.randint(1, 7)):
                name, number, text = excerpt(r, c, 1)
                yield f'  File "/usr/lib/python3.11/{name}", line {number}, in {r.choice(WORDS)}'
                yield f"    {text[0].strip()}"
            error = r.choice(["ValueError", "KeyError", "TypeError", "AttributeError", "OSError"])
            yield f"{error}: {prose(r, c, 60)}\n"

    return until(size, lines())


def listing(r: random.Random, c: Corpus, size: int) -> str:
    months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
    owner = r.choice(["root root", "user user", "dev dev", "runner docker"])

    def lines() -> Iterator[str]:
        yield f"total {r.randint(8, 4000)}"
        yield f"drwxr-xr-x  9 {owner}     4096 May  3 10:12 ."
        while True:
            when = f"{r.choice(months)} {r.randint(1, 31):2d} {r.randint(0, 23):02d}"
            yield (
                f"-rw-r--r-- 1 {owner} {r.randint(0, 99999):8d} {when}:{r.randint(0, 59):02d} "
                f"{r.choice(c)[0]}"
            )

    return until(size, lines())


def paths(r: random.Random, c: Corpus, size: int) -> str:
    root = r.choice(["", "./", "src/", "/repo/", "/home/user/project/"])

    def lines() -> Iterator[str]:
        while True:
            yield root + r.choice(c)[0]

    return until(size, lines())


def patch(r: random.Random, c: Corpus, size: int) -> str:
    def lines() -> Iterator[str]:
        while True:
            name, first, text = excerpt(r, c, r.randint(4, 30))
            yield f"diff --git a/{name} b/{name}"
            yield f"index {r.getrandbits(28):07x}..{r.getrandbits(28):07x} 100644"
            yield f"--- a/{name}\n+++ b/{name}"
            yield f"@@ -{first},{len(text)} +{first},{len(text) + r.randint(0, 9)} @@"
            for line in text:
                yield r.choices([" ", "-", "+"], [7, 1, 2])[0] + line

    return until(size, lines())


def prose(r: random.Random, c: Corpus, size: int) -> str:
    """Sentences from comments and docstrings: lines of words, without code."""

    def lines() -> Iterator[str]:
        while True:
            for line in excerpt(r, c, 60)[2]:
                text = line.strip().lstrip("# ")
                if text.count(" ") > 4 and not set(text) & set("()[]{}=_<>|\\@"):
                    yield text

    return " ".join(until(size, lines()).split("\n"))[:size]


OPENINGS = (
    "I'll start by looking at",
    "Let me check",
    "Now I'll update",
    "The problem is in",
    "I've changed",
    "All tests pass now. Here is what I did in",
    "Done. The fix is in",
    "Next, I need to read",
)


def answer(r: random.Random, c: Corpus, size: int) -> str:
    opening = r.choice(OPENINGS)
    name, first, code = excerpt(r, c, r.randint(4, 60))
    said = textwrap.fill(prose(r, c, r.randint(100, 900)), 300)
    language = r.choice(["python", "python", "bash", "json", "diff", ""])
    block = "\n".join(code)
    closing = r.choice(["", "\n\nLet me run the tests.", "\n\nThis is safe because "])
    return f"{opening} `{name}:{first}`.\n\n{said}\n\n```{language}\n{block}\n```{closing}"[:size]


def arguments(r: random.Random, c: Corpus, size: int) -> str:
    """A tool's input as the JSON text that a provider sends."""
    name, first, text = excerpt(r, c, r.randint(1, 12))
    root = r.choice(["", "src/", "/repo/", "/home/user/project/"])
    code = "\n".join(text)[: max(40, size // 2)]
    value: dict[str, Any] = r.choice(
        [
            {"file_path": root + name},
            {"file_path": root + name, "limit": r.randint(1, 900), "offset": first},
            {"file_path": root + name, "old_string": code, "new_string": code + "\n    pass"},
            {"file_path": root + name, "content": code},
            {"path": root + name, "pattern": code[:80], "output_mode": "content", "-n": True},
            {"pattern": code[:60], "glob": "**/*.py", "path": root},
            {"command": f"python -m pytest -q {root}{name}", "description": "Run the tests"},
            {"command": f"grep -rn '{code[:30]}' {root}{name} | head -50", "timeout": 120000},
            {"command": ["bash", "-lc", f"sed -n '{first},{first + 80}p' {root}{name}"]},
            {"query": prose(r, c, 60), "path": root},
        ]
    )
    return msgspec.json.encode(value).decode()


TEXT_SHAPES: list[tuple[int, Callable[[random.Random, Corpus, int], str]]] = [
    (24, numbered_read),
    (8, plain_read),
    (14, grep),
    (10, test_run),
    (4, traceback),
    (6, listing),
    (3, paths),
    (5, patch),
    (6, prose),
    (12, answer),
    (8, arguments),
]


# ── commits: the envelope around them ────────────────────────────────────────────────────────────

WORDS = (
    "auth cache client config cursor error index login main parse queue read request retry run "
    "schema server session setup state store test token update user validate write worker"
).split()
TOOLS = (
    "Read Edit Write Bash Grep Glob Task WebFetch WebSearch TodoWrite MultiEdit LS read_file "
    "write_file list_dir run_command apply_patch shell search_files edit_file http_get sql_query"
).split()
EFFECTS = ("read", "idempotent", "write")
STATUSES = ("ok", "error", "timeout", "cancelled", "denied", "in doubt", "started", "requested")
CAUSES = ("", "", "", "process died", "timeout", "cancelled", "lost connection", "lease lost")
ACTORS = ("agent", "user", "model", "tool", "system")
SOURCES = ("user", "model", "tool", "file", "web", "import")
FILE_OPS = ("read", "created", "modified", "deleted", "renamed", "skipped")
PLAN = ("pending", "in_progress", "done", "blocked", "dropped")
MODELS = ("claude-sonnet-4-5", "claude-opus-4-1", "gpt-5.1", "gpt-5-mini", "gemini-2.5-pro")


def minted(r: random.Random, prefix: str) -> str:
    stamp = 1_760_000_000_000 + r.getrandbits(36)
    return f"{prefix}_{stamp:012x}7{r.getrandbits(12):03x}{r.getrandbits(64) | 1 << 63:016x}"


def digest(r: random.Random) -> str:
    return f"{r.getrandbits(128):032x}"


def put(collection: str, id: str, record: dict[str, Any]) -> tuple[str, str, str, bytes]:
    return ("put", collection, id, json(record))


def usage(r: random.Random) -> dict[str, Any]:
    return {
        "cache_read": r.randint(0, 90_000),
        "cache_write": r.randint(0, 9_000),
        "input": r.randint(0, 90_000),
        "model": r.choice(MODELS),
        "money": r.randint(0, 500_000),
        "currency": "USD",
        "output": r.randint(0, 4_000),
    }


def opening(r: random.Random, c: Corpus) -> dict[str, Any]:
    name = f"{r.choice(['fix', 'add', 'port', 'review'])}-{r.choice(WORDS)}"
    record: dict[str, Any] = {
        "agent": r.choice(["my-agent", "claude-code", "codex", "coder", "assistant"]),
        "aliases": [],
        "budget": {},
        "labels": {"team": r.choice(WORDS)},
        "mode": r.choice(["driven", "recorded", "project"]),
        "name": name,
        "parent": None,
        "project": f"/home/user/{r.choice(WORDS)}",
        "retention": "keep",
        "schema": {"name": "app", "version": 1},
        "status": r.choice(["open", "active", "paused", "closed", "archived"]),
        "tenant": "default",
    }
    return {"kind": "open", "actor": "user", "delta": [put("session", "session", record)]}


def run(r: random.Random, c: Corpus) -> dict[str, Any]:
    record = {
        "host": f"{r.choice(WORDS)}-{r.randint(1, 9)}",
        "pid": r.randint(2, 99999),
        "reason": r.choice(["user", "budget", "error", "lease lost", "process died"]),
        "since": micros(r),
        "status": r.choice(["active", "interrupted", "ended"]),
    }
    return {"kind": r.choice(["run", "run_end"]), "delta": [put("runs", minted(r, "r"), record)]}


def turn(r: random.Random, c: Corpus) -> dict[str, Any]:
    return {
        "kind": "turn",
        "actor": "user",
        "input": json({"content": prose(r, c, r.randint(40, 300)), "role": "user"}),
        "provenance": {"source": "user", "trust": "verified"},
    }


def turn_end(r: random.Random, c: Corpus) -> dict[str, Any]:
    git = {"branch": "main", "dirty": digest(r), "head": f"{r.getrandbits(160):040x}"}
    return {
        "kind": "turn_end",
        "status": r.choice(["ok", "interrupted", "aborted"]),
        "output": json({"git": git}),
        "delta": file(r, c)["delta"] + decision(r, c)["delta"] + plan(r, c)["delta"],
    }


def entry(r: random.Random, c: Corpus) -> dict[str, Any]:
    tool, id = r.choice(TOOLS), f"toolu_{r.getrandbits(96):024x}"
    content = r.choice(
        [
            [{"text": answer(r, c, 700), "type": "text"}],
            [
                {"text": prose(r, c, 120), "type": "text"},
                {"id": id, "input": {"path": r.choice(c)[0]}, "name": tool, "type": "tool_use"},
            ],
            [{"content": prose(r, c, 200), "tool_use_id": id, "type": "tool_result"}],
        ]
    )
    message = {
        "content": content,
        "model": r.choice(MODELS),
        "role": r.choice(["assistant", "assistant", "user", "system"]),
        "stop_reason": r.choice(["end_turn", "tool_use", "max_tokens", "stop"]),
    }
    return {
        "kind": "entry",
        "actor": "model",
        "output": json(message),
        "usage": json(usage(r)),
        "provenance": {"source": "model", "trust": "unverified"},
    }


def call(r: random.Random, c: Corpus) -> dict[str, Any]:
    tool, effect = r.choice(TOOLS), r.choice(EFFECTS)
    record = {
        "attempt": 1,
        "effect": effect,
        "key": digest(r),
        "since": micros(r),
        "status": r.choice(["started", "requested", "awaiting approval"]),
        "tool": tool,
    }
    id = minted(r, "c")
    return {
        "kind": "call",
        "actor": "model",
        "tool": tool,
        "call": id,
        "effect": effect,
        "status": record["status"],
        "input": arguments(r, c, 300).encode(),
        "delta": [put("calls", id, record)],
        "provenance": {"source": "model", "trust": "unverified"},
    }


def outcome(r: random.Random, c: Corpus) -> dict[str, Any]:
    tool, id = r.choice(TOOLS), minted(r, "c")
    status = r.choices(STATUSES, [80, 10, 2, 2, 2, 2, 1, 1])[0]
    used = {"digest": digest(r), "last": status, "tool": tool, "uses": r.randint(1, 400)}
    return {
        "kind": "outcome",
        "actor": "tool",
        "tool": tool,
        "call": id,
        "effect": r.choice(EFFECTS),
        "status": status,
        "cause": r.choice(CAUSES),
        "output": json(TEXT_SHAPES[r.randrange(4)][1](r, c, r.randint(40, 900))),
        "delta": [("drop", "calls", id), put("tools", minted(r, "x"), used)],
        "provenance": {"source": "tool", "trust": "unverified"},
    }


def file(r: random.Random, c: Corpus) -> dict[str, Any]:
    def record() -> dict[str, Any]:
        return {
            "after": digest(r),
            "before": digest(r),
            "how": r.choice(["recorded", "observed", "inferred"]),
            "op": r.choice(FILE_OPS),
            "path": r.choice(["src/", "tests/", "lib/", ""]) + r.choice(c)[0],
            "root": ".",
        }

    many = r.randint(1, 3)
    return {"kind": "file", "delta": [put("files", minted(r, "f"), record()) for _ in range(many)]}


def decision(r: random.Random, c: Corpus) -> dict[str, Any]:
    record = {
        "confidence": r.randrange(0, 1001, 50),
        "factors": [],
        "over": [prose(r, c, 40) for _ in range(r.randint(0, 3))],
        "supersedes": None,
        "topic": r.choice(WORDS),
        "what": prose(r, c, r.randint(20, 120)),
        "why": prose(r, c, r.randint(20, 200)),
    }
    return {"kind": "decision", "delta": [put("decisions", minted(r, "d"), record)]}


def fact(r: random.Random, c: Corpus) -> dict[str, Any]:
    name = f"{r.choice(WORDS)} command"
    kind, collection = r.choice([("fact", "facts"), ("preference", "preferences")])
    record = {"name": name, "trust": "unverified", "value": prose(r, c, 60)}
    return {"kind": kind, "delta": [put(collection, minted(r, "x"), record)]}


def plan(r: random.Random, c: Corpus) -> dict[str, Any]:
    def record(order: int) -> dict[str, Any]:
        return {"order": order, "status": r.choice(PLAN), "step": prose(r, c, r.randint(20, 80))}

    many = r.randint(1, 4)
    return {"kind": "plan", "delta": [put("plan", minted(r, "p"), record(n)) for n in range(many)]}


def artifact(r: random.Random, c: Corpus) -> dict[str, Any]:
    record = {
        "digest": digest(r),
        "media": r.choice(["text/markdown", "application/json", "text/x-python", "image/png"]),
        "name": r.choice(c)[0],
        "size": r.randint(10, 99999),
        "version": r.randint(1, 9),
    }
    return {"kind": "artifact", "delta": [put("artifacts", minted(r, "a"), record)]}


def use(r: random.Random, c: Corpus) -> dict[str, Any]:
    record = {"kind": r.choice(["file", "app", "data source"]), "name": r.choice(c)[0]}
    return {"kind": "use", "delta": [put("working_set", minted(r, "w"), record)]}


def lesson(r: random.Random, c: Corpus) -> dict[str, Any]:
    kind, collection = r.choice(
        [("dead_end", "dead_ends"), ("pend", "pending"), ("flag", "flags"), ("score", "scores")]
    )
    record = {"since": micros(r), "what": prose(r, c, 80), "why": prose(r, c, 120)}
    return {"kind": kind, "delta": [put(collection, minted(r, "x"), record)]}


COMMIT_SHAPES: list[tuple[int, Callable[[random.Random, Corpus], dict[str, Any]]]] = [
    (2, opening),
    (3, run),
    (10, turn),
    (10, turn_end),
    (14, entry),
    (20, call),
    (20, outcome),
    (8, file),
    (8, decision),
    (5, fact),
    (6, plan),
    (3, artifact),
    (3, use),
    (4, lesson),
]


def micros(r: random.Random) -> int:
    return 1_760_000_000_000_000 + r.getrandbits(46)


def envelope(r: random.Random, part: dict[str, Any]) -> bytes:
    """A commit as it is kept: a msgpack array in field order, its content as JSON fragments."""
    get = part.get
    at = micros(r)
    trust = {"source": r.choice(SOURCES), "trust": r.choice(["unverified", "verified"])}
    return msgpack(
        [
            minted(r, "k"),
            1,
            minted(r, "s"),
            r.randint(1, 9_000),
            minted(r, "r"),
            r.randint(1, 50),
            minted(r, "t"),
            at,
            at,
            get("origin"),
            get("kind"),
            get("actor", r.choice(ACTORS)),
            r.choice(["user", "agent", None]),
            get("tool"),
            get("call"),
            get("parent"),
            get("key"),
            get("attempt", 1),
            get("effect"),
            get("status"),
            get("cause"),
            get("input"),
            digest(r) if "input" in part else None,
            get("output"),
            get("output_summary"),
            get("usage"),
            get("delta", []),
            json(get("provenance", trust)),
            [r.randint(1, 9_000) for _ in range(r.randint(0, 3))],
            get("why"),
            get("trace"),
            r.randbytes(32),
            r.randbytes(32),
        ]
    )


# ── training ─────────────────────────────────────────────────────────────────────────────────────


def samples(c: Corpus) -> Iterator[bytes]:
    """Three quarters texts of 300 B to 8 KB as JSON strings, one quarter commits."""
    r = random.Random(SEED)
    weights, shapes = zip(*TEXT_SHAPES, strict=True)
    for shape in r.choices(shapes, weights, k=TEXT_SAMPLES):
        size = min(8_192, max(300, int(r.lognormvariate(7.2, 1.0))))
        yield json(shape(r, c, size))
    weights, makers = zip(*COMMIT_SHAPES, strict=True)
    for make in r.choices(makers, weights, k=COMMIT_SAMPLES):
        yield envelope(r, make(r, c))


def train(size: int = SIZE, level: int = LEVEL) -> bytes:
    """The dictionary's bytes: trained content, entropy tables for `level`, our id."""
    made = list(samples(corpus()))
    random.Random(SEED).shuffle(made)  # the trainer holds back the last quarter to score itself
    trained = zstd.train_dict(made, size)
    final = zstd.finalize_dict(trained, made, size, level)
    content = bytearray(final.dict_content)
    content[4:8] = DICT_ID.to_bytes(4, "little")  # magic, then the id: RFC 8878 section 5
    return bytes(content)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--size", type=int, default=SIZE, help="largest size in bytes")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    if sys.version_info[:2] != (3, 11):
        parser.error("the dictionary is trained on the sources of Python 3.11: run it with that")
    content = train(options.size)
    found = zstd.ZstdDict(content)
    print(f"{len(content)} bytes, id {found.dict_id}, sha256 {hashlib.sha256(content).hexdigest()}")
    if options.check:
        same = options.output.read_bytes() == content
        print("same as" if same else "differs from", options.output.name)
        return 0 if same else 1
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_bytes(content)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
