"""The measures: what is run in which order. Every number comes from a measuring process.

Whoever raises, dies or runs out of budget is reported as such and drops out; the others go on.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.peers import LIMIT, OURS, Contestant
from bench.peers.base import FULL, RELAXED
from bench.process import Child, ChildError
from bench.workload import SEED, Workload, empty, fold

SESSION = "work"
UNBOUNDED = 1e15
PAGE = 50  # sessions on the first page of a listing
RECENT_TURNS = 5
HOT = 200  # latest decisions and files on the hot page
WRITERS = 8
Measures = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    directory: Path
    """Stores are made (and removed) here; its file system is the one measured."""
    rounds: int = 5
    slice_max: int = 1_000
    """Turns at a stretch; larger N have more rounds, so that a noisy minute hits everyone."""
    budget_s: float = 12.0
    """Append time of a peer per N; ours and the limit always finish."""
    disk_bytes: float = 1e9
    """A peer's store may not grow larger."""
    fresh: int = 5
    """Fresh processes per cold measure."""
    asks: int = 20
    """Questions per warm measure."""
    ask_s: float = 8.0
    """Time per warm measure; slow peers answer fewer questions."""
    forks: int = 100
    sessions: int = 10_000
    sessions_s: float = 60.0
    """Time to make them; a slow peer lists fewer. Ours makes them all."""
    writer_turns: int = 40
    writer_rounds: int = 3

    @property
    def cache(self) -> Path:
        return self.directory / "cache"

    def scrub(self, error: Exception) -> str:
        return str(error).replace(str(self.directory), "<dir>")


# ---- appending, side by side -----------------------------------------------------------------


@dataclass
class Runner:
    """One contestant of a race."""

    contestant: Contestant
    child: Child
    store: Path
    rounds: list[Measures] = field(default_factory=list)
    stopped: str | None = None
    error: str | None = None

    @property
    def turns(self) -> int:
        return sum(r["turns"] for r in self.rounds)

    def total(self, name: str) -> float:
        return float(sum(r[name] for r in self.rounds))

    def start(self) -> None:
        c = self.contestant
        warm = str(self.store.with_suffix(".warm"))
        self.child.call("warm_up", directory=warm, durability=c.durability, options=c.options)
        shutil.rmtree(warm)
        self.child.call(
            "open", directory=str(self.store), durability=c.durability, options=c.options
        )
        self.child.call("new", session=SESSION)

    def run(self, count: int, settings: Settings) -> None:
        bounded = self.contestant.group not in (OURS, LIMIT)
        seconds = settings.budget_s - self.total("wall_s") if bounded else UNBOUNDED
        disk = settings.disk_bytes if bounded else UNBOUNDED
        arguments = {"start": self.turns + 1, "count": count}
        got = self.child.call(
            "append", session=SESSION, seconds=seconds, disk_bytes=disk, **arguments
        )
        if got["turns"]:
            self.rounds.append(got)
        if got["turns"] < count:
            out_of = "time" if self.total("wall_s") >= settings.budget_s else "disk"
            self.stopped = f"out of {out_of} after {self.turns:,} turns"

    def finish(self) -> Measures:
        slope = self.child.call("slope")
        size = self.child.call("close")["bytes"]
        content = self.total("logical_bytes")
        return {
            "turns": self.turns,
            "stopped": self.stopped,
            "turns_per_s": self.turns / self.total("wall_s"),
            "cpu_ms_per_turn": self.total("cpu_s") / self.turns * 1e3,
            **slope,
            "disk_ratio": size / content,
            "write_ratio": self.total("written_bytes") / content,
            "round_ms_per_turn": [r["wall_s"] / r["turns"] * 1e3 for r in self.rounds],
        }


def race(n: int, contestants: Sequence[Contestant], settings: Settings) -> dict[str, Measures]:
    """N turns each, in alternating slices, the order reversed every round."""
    results: dict[str, Measures] = {}
    with ExitStack() as stack:
        children = start_all(stack, [c.target for c in contestants], settings)
        runners = [
            Runner(c, child, store_of(c, n, settings))
            for c, child in zip(contestants, children, strict=True)
        ]
        _each(runners, settings, Runner.start)
        for number, count in enumerate(slices(n, settings)):
            _each(
                runners[:: -1 if number % 2 else 1],
                settings,
                lambda runner, count=count: runner.run(count, settings),  # type: ignore[misc]
            )
        for r in runners:
            r.stopped = r.stopped if r.error is None else None
            results[r.contestant.label] = _finish(r, settings)
    _add_limit_ratios(results, contestants)
    return results


def start_all(stack: ExitStack, targets: Iterable[str], settings: Settings) -> list[Child]:
    """Measuring processes, all started before any is waited for."""
    children = [stack.enter_context(Child(target, settings.cache)) for target in targets]
    for child in children:
        child.greet()
    return children


def slices(n: int, settings: Settings) -> list[int]:
    rounds = min(n, max(settings.rounds, -(-n // settings.slice_max)))
    return [n * (i + 1) // rounds - n * i // rounds for i in range(rounds)]


def store_of(contestant: Contestant, n: int, settings: Settings) -> Path:
    return settings.directory / f"{n}-{contestant.label.replace(', ', '-').replace(' ', '-')}"


def _each(runners: Iterable[Runner], settings: Settings, action: Callable[[Runner], None]) -> None:
    for runner in runners:
        if runner.error or runner.stopped:
            continue
        try:
            action(runner)
        except ChildError as error:
            runner.error = settings.scrub(error)


def _finish(runner: Runner, settings: Settings) -> Measures:
    if runner.error is None and runner.turns:
        try:
            return runner.finish()
        except ChildError as error:
            runner.error = settings.scrub(error)
    return {"error": runner.error or "no turn within its budget"}


def _add_limit_ratios(results: dict[str, Measures], contestants: Sequence[Contestant]) -> None:
    """×limit = median over the rounds of time per turn against the limit's in the same round."""
    for c in contestants:
        limit = results.get("raw, relaxed" if c.durability == RELAXED else "raw", {})
        mine = results[c.label]
        if "error" in mine or "turns" not in limit:
            continue
        pairs = list(zip(mine["round_ms_per_turn"], limit["round_ms_per_turn"], strict=False))
        mine["x_limit"] = median(a / b for a, b in pairs)
        mine["x_limit_sums"] = sum(a for a, _ in pairs) / sum(b for _, b in pairs)


# ---- questions -------------------------------------------------------------------------------


class Expected:
    """The right answers, from the workload itself."""

    def __init__(self, workload: Workload, n: int, samples: Iterable[int]) -> None:
        wanted = {n, *samples}
        state = empty()
        self.counts: dict[int, dict[str, int]] = {}
        for k in range(1, n + 1):
            fold(state, workload.delta(k), k)
            if k in wanted:
                self.counts[k] = {name: len(records) for name, records in state.items()}  # type: ignore[arg-type]
        last = range(max(1, n - RECENT_TURNS + 1), n + 1)
        self.recent = sorted({path for k in last for path in workload.delta(k)["files"]})

    def page(self, turn: int) -> dict[str, int]:
        counts = self.counts[turn]
        return {name: n if name == "plan" else min(n, HOT) for name, n in counts.items()}


@dataclass
class Questions:
    """Everything asked of one finished store."""

    contestant: Contestant
    store: Path
    turns: int
    settings: Settings
    workload: Workload

    def __post_init__(self) -> None:
        r = random.Random(SEED)
        self.samples = [r.randint(1, self.turns) for _ in range(self.settings.asks)]
        self.fork_at = [r.randint(1, self.turns) for _ in range(self.settings.forks)]
        self.expected = Expected(self.workload, self.turns, self.samples)
        self.wrong: list[str] = []

    def ask(self) -> Measures:
        try:
            answers = self._cold() | self._warm() | self._memory() | self._fork()
        except ChildError as error:
            return {"error": self.settings.scrub(error)}
        return answers | ({"wrong": self.wrong} if self.wrong else {})

    def _child(self) -> Child:
        return Child(self.contestant.target, self.settings.cache).greet()

    def _open(self, child: Child) -> None:
        child.call("open", directory=str(self.store), durability=FULL, options={})

    def _check(self, what: str, got: Any, want: Any) -> None:
        if got is not None and got != want:
            self.wrong.append(f"{what}: {got}, not {want}"[:300])

    def _cold(self) -> Measures:
        times = []
        for _ in range(self.settings.fresh):
            with self._child() as child:
                got = self._resume(child)
            if got["ms"] is None:
                return {}
            times.append(got["ms"])
        return {"open_ms": median(times)}

    def _resume(self, child: Child) -> Measures:
        got = child.call("resume", directory=str(self.store), durability=FULL, session=SESSION)
        want = self.expected.counts[self.turns]
        counts = got["counts"] and {name: got["counts"].get(name) for name in want}
        self._check("counts", counts, want)
        return got

    def _warm(self) -> Measures:
        s = self.settings
        limits = {"session": SESSION, "seconds": s.ask_s}
        with self._child() as child:
            self._open(child)
            state = child.call("ask_state", repeats=s.fresh, **limits)
            if state["ms"] is None:
                return {}
            at = child.call("ask_state_at", turns=self.samples, **limits)
            diff = child.call("ask_diff", turns=self.samples, **limits)
            files = child.call("ask_files_last", n=RECENT_TURNS, repeats=s.asks, **limits)
            brief = child.call("ask_brief", repeats=s.asks, **limits)
            child.call("close")
        self._check("state", state["counts"], self.expected.counts[self.turns])
        for turn, counts in zip(self.samples, at["counts"], strict=False):
            want = self.expected.page(turn) if at["hot"] else self.expected.counts[turn]
            self._check(f"state at turn {turn}", counts, want)
        for turn, counts in zip(self.samples, diff["counts"], strict=False):
            self._check(f"files in diff of turn {turn}", counts["files"], 2)
        self._check(f"files of last {RECENT_TURNS} turns", files["paths"], self.expected.recent)
        return {
            "state_ms": state["ms"],
            "state_mb": state["bytes"] / 1e6,
            "state_at_ms": at["ms"],
            "state_at_ms_max": at.get("ms_max"),
            "diff_ms": diff["ms"],
            "files_last_ms": files["ms"],
            "brief_ms": brief["ms"],
        }

    def _fork(self) -> Measures:
        with self._child() as child:
            self._open(child)
            before = child.call("close")["bytes"]
            self._open(child)
            got = child.call(
                "ask_fork", session=SESSION, turns=self.fork_at, seconds=self.settings.ask_s
            )
            after = child.call("close")["bytes"]
        if got["ms"] is None:
            return {}
        growth = (after - before) / got["forks"]
        return {"fork_ms": got["ms"], "fork_bytes": growth, "forks": got["forks"]}

    def _memory(self) -> Measures:
        """Go on for a turn. Before forks: LangGraph's, in the same thread, become its head."""
        with self._child() as child:
            imported = child.call("memory")["mb"]
            if self._resume(child)["ms"] is None:
                return {}
            # Made here: the texts that turns are cut from take 13 MB.
            turn = self.workload.turn(self.turns + 1)
            peak = child.call("resident", session=SESSION, turn=turn)["mb"]
            child.call("close")
        return {"import_mb": imported, "resume_mb": peak}


# ---- many sessions, many writers -------------------------------------------------------------


def listing(contestant: Contestant, settings: Settings) -> Measures:
    """The first page of many sessions, the first call in fresh processes."""
    store = settings.directory / f"list-{contestant.label.replace(' ', '-')}"
    with Child(contestant.target, settings.cache).greet() as child:
        durability = RELAXED if RELAXED in child.peer["durabilities"] else FULL
        opening = {"directory": str(store), "durability": durability, "options": {}}
        child.call("open", **opening)
        seconds = UNBOUNDED if contestant.group == OURS else settings.sessions_s
        made = child.call("append_tiny", prefix="s", count=settings.sessions, seconds=seconds)[
            "sessions"
        ]
        child.call("close")
    if not made:
        return {}
    times = []
    for _ in range(settings.fresh):
        with Child(contestant.target, settings.cache).greet() as child:
            child.call("open", **opening)
            got = child.call("ask_list", limit=PAGE)
            child.call("close")
        times.append(got["ms"])
    return {"list_ms": median(times), "sessions": made, "listed": got["sessions"]}


def writers(contestant: Contestant, settings: Settings) -> Measures:
    """8 processes on one store, a session each, against one of them alone."""
    store = settings.directory / f"writers-{contestant.label.replace(' ', '-')}"
    ratios: list[float] = []
    errors: list[str] = []
    with ExitStack() as stack:
        children = start_all(stack, [contestant.target] * WRITERS, settings)
        for child in children:
            child.call("open", directory=str(store), durability=FULL, options={})
            child.call("preload", start=1, count=settings.writer_turns)
        for number in range(settings.writer_rounds):
            one = _write_together(children[:1], f"one-{number}", errors, settings)
            all_ = _write_together(children, f"all-{number}", errors, settings)
            if one and all_:
                ratios.append(all_ / one)
        for child in children:
            child.call("close")
    ratio = median(ratios) if ratios else None
    return {"writers_ratio": ratio, "errors": len(errors), "first_error": next(iter(errors), None)}


def _write_together(
    children: Sequence[Child], prefix: str, errors: list[str], settings: Settings
) -> float | None:
    """Turns per second of all, from the first start to the last end; None if anyone failed."""
    try:
        for i, child in enumerate(children):
            child.call("new", session=f"{prefix}-{i}")
    except ChildError as error:
        errors.append(settings.scrub(error))
        return None
    for i, child in enumerate(children):
        child.send("append_loaded", session=f"{prefix}-{i}")
    replies = []
    for child in children:
        try:
            replies.append(child.receive())
        except ChildError as error:
            errors.append(settings.scrub(error))
    if len(replies) < len(children):
        return None
    span = max(r["ended"] for r in replies) - min(r["began"] for r in replies)
    return float(sum(r["turns"] for r in replies) / span)
