"""Train the compression dictionary that ships with the package.

    python3.11 scripts/train_dictionary.py            write src/stator/store/dictionary_1.bin
    python3.11 scripts/train_dictionary.py --check    train again and compare with the file

A store never trains on its own content. What is shipped was trained on public text: one half of the
source files of the CPython 3.11 standard library (the other half makes the benchmark's workload and
is not read here), cut into samples shaped like what a session records, plus commits of made-up
sessions. Same interpreter, same libraries, same bytes: everything random comes from SEED.

A shipped dictionary never changes: files written with it need it for ever. To improve it, raise
DICT_ID and write `dictionary_2.bin` beside the old one.

To extend: add a function to TEXT_SHAPES (an rng, the corpus and a size, to text), or let
`one_turn` record more.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import random
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from stator.model.records.types import Effect, FileOp, StepStatus
from stator.model.values.ids import PREFIXES, Kind
from stator.runtime.base.context import Context
from stator.runtime.driving.tools import Tool
from stator.runtime.facade.session import Session, Turn
from stator.runtime.facade.store import Store
from stator.store.compress import decompress
from stator.store.memory import MemoryStore
from stator.store.rows import to_row

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


def corpus() -> Corpus:
    """The training half of the standard library: (relative path, lines), in path order."""
    root = Path(os.__file__).parent
    found: Corpus = []
    for file in sorted(root.rglob("*.py"), key=str):
        name = file.relative_to(root).as_posix()
        if "site-packages" in name or name.startswith(BUILT_PER_MACHINE):
            continue
        if hashlib.sha256(name.encode()).digest()[0] & 1:
            continue  # the half that makes the benchmark's workload
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


# ── commits: what is kept around the texts ───────────────────────────────────────────────────────

WORDS = (
    "auth cache client config cursor error index login main parse queue read request retry run "
    "schema server session setup state store test token update user validate write worker"
).split()
TOOLS = (
    "Read Edit Write Bash Grep Glob Task WebFetch WebSearch TodoWrite MultiEdit LS read_file "
    "write_file list_dir run_command apply_patch shell search_files edit_file http_get sql_query"
).split()
FILE_OPS: list[FileOp] = ["read", "created", "modified", "modified", "deleted"]
STEPS: list[StepStatus] = ["pending", "in_progress", "done", "blocked", "dropped"]


def commits(r: random.Random, c: Corpus) -> Iterator[bytes]:
    """Commits as the store packs them, from made-up sessions driven through the library itself."""
    store = Store(MemoryStore(redact=False, clock=_clock(r), salts=r.randbytes), _context(r))
    while True:
        with store.open(f"{r.choice(WORDS)}-{r.getrandbits(32):x}", agent="coder") as session:
            for _ in range(r.randint(2, 12)):
                one_turn(r, c, session)
        for commit in store.read(session.id).log():
            yield decompress(to_row(commit, lambda data: hashlib.sha256(data).digest()).body)


def one_turn(r: random.Random, c: Corpus, session: Session[Any]) -> None:
    with session.turn(prose(r, c, r.randint(40, 300))) as turn:
        for _ in range(r.randint(1, 4)):
            one_call(r, c, turn)
        for _ in range(r.randint(0, 2)):
            path = r.choice(["src/", "tests/", "lib/", ""]) + r.choice(c)[0]
            turn.file(path, r.choice(FILE_OPS), before=digest(r), after=digest(r))
        if r.random() < 0.7:
            over = [prose(r, c, 30) for _ in range(r.randint(0, 2))]
            turn.decide(
                prose(r, c, r.randint(20, 120)),
                topic=f"{r.choice(WORDS)} {r.choice(WORDS)}",
                why=prose(r, c, r.randint(20, 160)),
                over=over,
                confidence=r.randrange(11) / 10,
            )
        turn.plan(f"{r.choice(WORDS)} the {r.choice(WORDS)}", r.choice(STEPS))
        rarely(r, c, turn)
        turn.say(answer(r, c, r.randint(60, 600)), usage={"tokens": r.randint(100, 90_000)})


def one_call(r: random.Random, c: Corpus, turn: Turn) -> None:
    shape = TEXT_SHAPES[r.randrange(len(TEXT_SHAPES))][1]
    name, effect = r.choice(TOOLS), r.choice(["read", "idempotent", "write"])
    given = msgspec.json.decode(arguments(r, c, 200))

    def run(**_: Any) -> str:
        if r.random() < 0.1:
            raise ValueError(prose(r, c, 50))
        return shape(r, c, r.randint(40, 600))

    turn.try_call(Tool(run, name=name, effect=cast("Effect", effect)), **given)


def rarely(r: random.Random, c: Corpus, turn: Turn) -> None:
    doing = r.randrange(8)
    if doing == 0:
        turn.fact(f"{r.choice(WORDS)} command", prose(r, c, 40))
    elif doing == 1:
        turn.dead_end(prose(r, c, 60), why=prose(r, c, 60))
    elif doing == 2:
        turn.use(r.choice(["file", "app", "data"]), r.choice(c)[0])
    elif doing == 3:
        turn.artifact(r.choice(["progress.md", "plan.md", "features.json"]), prose(r, c, 200))
    elif doing == 4:
        turn.prefer(r.choice(WORDS), prose(r, c, 30))


def digest(r: random.Random) -> str:
    return f"{r.getrandbits(128):032x}"


def _clock(r: random.Random) -> Callable[[], int]:
    return lambda: 1_760_000_000_000_000 + r.getrandbits(46)


def _context(r: random.Random) -> Context:
    def mint(kind: Kind) -> str:
        return f"{PREFIXES[kind]}{r.getrandbits(128):032x}"

    return Context(
        clock=_clock(r), mint=mint, secret=r.randbytes, host="host", principal="local:user"
    )


# ── training ─────────────────────────────────────────────────────────────────────────────────────


def samples(c: Corpus) -> Iterator[bytes]:
    """Three quarters texts of 300 B to 8 KB as JSON strings, one quarter commits."""
    r = random.Random(SEED)
    weights, shapes = zip(*TEXT_SHAPES, strict=True)
    for shape in r.choices(shapes, weights, k=TEXT_SAMPLES):
        size = min(8_192, max(300, int(r.lognormvariate(7.2, 1.0))))
        yield json(shape(r, c, size))
    yield from itertools.islice(commits(r, c), COMMIT_SAMPLES)


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
