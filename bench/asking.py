"""What every asking command costs on a terminal where a store holds 10,000 sessions: `python -m bench.asking`.

[--sessions 10000] [--keep DIR] [--python PROGRAM] [--only ls,du] [--json]

Builds the store once: recorded sessions of four agents in eight projects over 200 days, driven ones among them, some
of which lost their driver in a call; while it asks, a few sessions are driven. Each command then runs in a process of
its own whose output is a terminal, in this project and everywhere; the least CPU (user and system) of several runs
counts, in turn, so that a busy minute hits all of them. `--keep DIR` leaves the store there and takes the one that is.
`--python` runs the commands with another build of Python: one that was not optimized takes a third longer.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import stator
from bench.process import ROOT, cpu_ms
from bench.programs import on_terminal_ms
from bench.workload import Turn, Workload
from stator.connect import context
from stator.model.exchange.items import (
    About,
    Answered,
    Called,
    Configured,
    Conversation,
    Item,
    Planned,
    Prompted,
    Returned,
    Step,
    Touch,
    TurnEnded,
)
from stator.runtime.facade.store import Store
from stator.runtime.ingest.recorder import Recorder
from stator.store.sqlite import SqliteStore

BOUND_MS = 130.0
ROUNDS = 5
SEED = 11
PROJECTS = "web api worker docs infra mobile billing tools".split()
"""The first is asked about: a third of the sessions are of it."""
AGENTS = ("claude-code", "codex", "gemini", "opencode")
DAYS = 200
DAY_US, SECOND_US = 86_400_000_000, 1_000_000
DRIVEN = 10
"""Every so many sessions one is driven; the others are recorded."""
LOST = 400
"""Every so many driven sessions one loses its driver in a call."""
LIVE = 4
"""Sessions that are driven while the commands run."""
TURNS_MAX = 5
OUTPUT_MAX = 1_500
MARK = "BENCH_ASKING_LOST"


def folders(folder: Path) -> list[Path]:
    return [folder / "work" / name for name in PROJECTS]


class SetClock:
    """The time that commits of the past are given: a tenth of a second later each time somebody looks."""

    at = 0

    def __call__(self) -> int:
        self.at += SECOND_US // 10
        return self.at


# -- a store --------------------------------------------------------------------------------------


def began_at(n: int, sessions: int, now: int) -> int:
    """When a session began: the last one an hour ago, most of them in the last weeks."""
    left = (sessions - n) / sessions
    return now - 3600 * SECOND_US - int(left * left * DAYS * DAY_US)


def conversation_items(
    r: random.Random, turns: Sequence[Turn], n: int, at: int, folder: str
) -> Iterator[Item]:
    """What a coding agent did, as an importer says it."""
    yield About(agent=AGENTS[n % len(AGENTS)], cwd=folder)
    yield Configured(id=f"{n}-model", at=at, settings={"model": f"model-{n % 3}"})
    for k, turn in enumerate(turns):
        at += 40 * SECOND_US
        yield Prompted(id=f"{n}-{k}", at=at, content=f"{turn['user'][:120]} ({n}.{k})")
        for j, call in enumerate(turn["tools"]):
            name = f"{n}-{k}-{j}"
            path = list(turn["delta"]["files"])[j % len(turn["delta"]["files"])]
            is_edit = call["name"] == "Edit"
            given = {"file_path": path} if is_edit else {"command": call["input"][12:90]}
            effect = "write" if call["name"] in ("Edit", "Bash") else "read"
            yield Called(id=name, at=at, tool=call["name"], input=given, effect=effect)  # type: ignore[arg-type]
            failed = r.random() < 0.06
            yield Returned(
                id=name,
                at=at + SECOND_US,
                status="error" if failed else "ok",
                cause="exit 1" if failed else "",
                output=call["output"][:OUTPUT_MAX],
                files=(Touch(path=f"{folder}/{path}", op="modified"),) if is_edit else (),
            )
        if k == 0 and n % 3 == 0:
            yield Planned(
                id=f"{n}-plan",
                at=at + 2 * SECOND_US,
                steps=(Step(step=f"read {n}", status="done"), Step(step=f"write {n}")),
            )
        yield Answered(
            id=f"{n}-{k}-said",
            at=at + 3 * SECOND_US,
            reply=turn["assistant"][:600],
            usage={
                "tokens": 10_500,
                "tokens:in": 1_200,
                "tokens:out": 300,
                "tokens:cache_read": 9_000,
            },
            model=f"model-{n % 3}",
        )
        yield TurnEnded(id=f"{n}-{k}-end", at=at + 4 * SECOND_US)


def record(store: Store, n: int, items: Sequence[Item], folder: str) -> None:
    agent = AGENTS[n % len(AGENTS)]
    told = Conversation(
        source=agent, id=f"conversation-{n}", agent=agent, cwd=folder, project=folder
    )
    recorder = Recorder(store.port, store.context, told)
    for item in items:
        recorder.take(item)
    recorder.flush(barrier=False)


def drive(store: Store, n: int, turns: Sequence[Turn], folder: str, *, lose: bool = False) -> None:
    """A session of a program's own, with decisions, facts, files and costs."""
    budget = {"tokens": 1_000_000} if n % 50 == 0 else None
    with store.open(f"job-{n}", agent="bench", project=folder, budget=budget) as s:
        for turn in turns:
            with s.turn(turn["user"][:120]) as t:
                t.call(stub("edit", "write"), path=f"src/m{n}.py")
                with t.batch():
                    topic, decision = next(iter(turn["delta"]["decision"].items()))
                    t.decide(decision["choice"], topic=topic, why=decision["why"])
                    t.fact(f"fact {n % 500}", n)
                    t.file(f"src/m{n}.py", "modified")
                    t.say(
                        turn["assistant"][:400],
                        usage={"tokens": 1_100, "tokens:in": 900, "money:USD": 12_000},
                    )
                if lose:
                    t.call(stub("deploy", "write", dies=True), place="production")


def stub(name: str, effect: str, *, dies: bool = False) -> Any:
    from stator.runtime.driving.tools import Tool

    def run(**_: Any) -> str:
        if dies:
            os._exit(3)
        return "ok"

    return Tool(run, name=name, effect=effect)  # type: ignore[arg-type]


def build(folder: Path, sessions: int) -> Path:
    """The store that is asked."""
    path = folder / "store.db"
    if (folder / "made").exists():
        return path
    places = folders(folder)
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    r, now = random.Random(SEED), time.time_ns() // 1_000
    turns = Workload(cache=folder / "cache").turns(sessions * TURNS_MAX)
    clock = SetClock()
    stator.connect(path).close()
    port = SqliteStore(path, clock=clock, durability="relaxed", redact=False)
    with Store(port, replace(context(project=str(places[0]), store=port), clock=clock)) as store:
        for n in range(sessions):
            own = [next(turns) for _ in range(r.randint(1, TURNS_MAX))]
            place = str(places[0] if r.random() < 1 / 3 else r.choice(places[1:]))
            clock.at = at = began_at(n, sessions, now)
            if n % DRIVEN:
                record(store, n, list(conversation_items(r, own, n, at, place)), place)
            else:
                drive(store, n, own, place)
    for n in range(max(1, sessions // DRIVEN // LOST * 4)):
        child = os.fork()
        if not child:
            with stator.connect(path, project=str(places[0]), durability="relaxed") as store:
                drive(store, sessions + n, own[:1], str(places[n % 2]), lose=True)
        os.waitpid(child, 0)
    (folder / "made").write_text(str(sessions))
    return path


# -- asking ---------------------------------------------------------------------------------------


def questions(store: Store, sessions: int) -> dict[str, list[str]]:
    """What is asked, by the words that are measured; the names in them are of a session in the middle."""
    driven = f"job-{sessions // 2 // DRIVEN * DRIVEN}"
    recorded = store.sessions(agent="codex", limit=10).rows[-1].id
    call = store.read(driven).calls()[0].call
    path = store.read(driven).files()[0].path
    asked = {
        "status": [],
        "help": ["--help"],
        "ls": ["ls"],
        "ls -l": ["ls", "-l"],
        "show": ["show", driven],
        "show @4": ["show", f"{driven}:@4"],
        "log": ["log", recorded],
        "diff": ["diff", driven, "t1"],
        "state": ["state", driven],
        "state --project": ["state", "--project"],
        "files": ["files"],
        "decisions": ["decisions"],
        "calls": ["calls"],
        "calls --failed": ["calls", "--failed"],
        "calls --open": ["calls", "--open"],
        "calls --tool": ["calls", "--tool", "deploy"],
        "evicted": ["evicted", recorded],
        "why FILE": ["why", path],
        "why CALL": ["why", call],
        "why FACT": ["why", "fact 10"],
        "recap": ["recap"],
        "blame": ["blame", path],
        "search": ["search", "router"],
        "tree": ["tree", driven],
        "tree --project": ["tree", "--project"],
        "reflog": ["reflog", driven],
        "brief": ["brief", recorded],
        "artifact": ["artifact", "-s", driven],
        "du": ["du"],
        "du -s": ["du", "-s", driven],
        "top": ["top", "--once"],
        "sql": ["sql", "SELECT name FROM sessions LIMIT 5"],
        "approvals": ["approvals"],
        "approvals --grants": ["approvals", "--grants"],
        "budget": ["budget", driven],
        "ps": ["ps"],
        "settle": ["settle"],
        "hold": ["hold"],
        "retention": ["retention"],
        "gc": ["gc"],
        "trust": ["trust"],
        "doctor": ["doctor"],
    }
    wide = "ls files decisions calls why recap blame search status approvals settle".split()
    more = {
        f"{name} --everywhere": [*(words or ["status"]), "--everywhere"]
        for name, words in asked.items()
        if (words[0] if words else "status") in wide
    }
    return asked | more


def live(store: Store, stack: ExitStack, places: Sequence[Path]) -> None:
    """Sessions that are at work."""
    for n in range(LIVE):
        session = stack.enter_context(
            store.open(f"live-{n}", agent="bench", project=str(places[n % 2]))
        )
        turn = stack.enter_context(session.turn(f"work on part {n}"))
        turn.call(stub("edit", "write"), path=f"src/live{n}.py")


def measure(
    path: Path, sessions: int, python: str, source: str, only: str, rounds: int
) -> dict[str, float]:
    """The least CPU of each question, in milliseconds."""
    places = folders(path.parent)
    sources = [source, *(one for one in sys.path if one.endswith("site-packages"))]
    env = {"STATOR_STORE": str(path), "PYTHONPATH": os.pathsep.join(sources), "PAGER": "cat"}
    run = [python, "-m", "stator"]
    wanted = set(filter(None, only.split(",")))
    found: dict[str, float] = {}
    with ExitStack() as stack:
        store = stack.enter_context(
            stator.connect(path, project=str(places[0]), durability="relaxed")
        )
        live(store, stack, places)
        asked = questions(store, sessions)
        for k in range(rounds + 1):
            bare = cpu_ms([python, "-c", "pass"], env, places[0])
            found["python"] = min(bare, found.get("python", bare))
            for name, words in asked.items():
                if wanted and not wanted & {name, *words[:1]}:
                    continue
                took = on_terminal_ms([*run, *words], env, places[0], finds=True)
                if k:  # the first round compiles, and fills what indexes there are
                    found[name] = min(took, found.get(name, took))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument(
        "--source", default=str(ROOT / "src"), help="measure what is in this folder"
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = (given.keep or Path(made)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["HOME"] = str(folder)  # the store is this user's own, in every process
        path = build(folder, given.sessions)
        found = measure(
            path,
            int((folder / "made").read_text()),
            given.python,
            given.source,
            given.only,
            given.rounds,
        )
    if given.json:
        print(json.dumps(found))
    else:
        for name, took in found.items():
            print(f"{name:28} {took:8.0f} ms{'  > 130' if took > BOUND_MS else ''}")
    return int(any(took > BOUND_MS for took in found.values()))


if __name__ == "__main__":
    raise SystemExit(main())
