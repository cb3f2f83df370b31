"""A program is killed at every effect of a call's life and run again to its end; its effects are counted.

Laws, for any kills:

    a write recorded as done happened once, and a write with an unknown outcome is in doubt;
    a call in doubt is in the recovery report and in the result for the caller;
    every call of the program has an outcome at the end;
    a recorded answer of the model is not requested again.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from reliability.crash import POLICIES, STYLES, TURNS, World, check_anthropic
from reliability.support import Zygote, findings, is_made, judge_each
from stator.connect import connect
from stator.model.window.transcript import Transcript
from stator.runtime.driving import approvals, settlement

RUNS_MAX = 20
"""Processes a program may need; every cell needs fewer."""
APIS = ("sync", "async")
PROGRAMS = list(itertools.product(POLICIES, STYLES, APIS))
RECONCILED = ("reconciled", "by key")
Program = tuple[str, str, str]
"""Policy, style and API."""
Kill = tuple[int, int]
"""Which of a program's processes dies, and at which of the points it passes."""


class Story:
    """One program, rerun until it ends, and killed at the given points."""

    def __init__(
        self, zygote: Zygote, url: str, folder: Path, program: Program, kills: dict[int, int]
    ) -> None:
        folder.mkdir()
        self.policy, self.style, self.api = program
        self.kills = kills
        self.url, self.effects = url, folder / "effects"
        self.points: list[list[str]] = []
        """Of each process that was not killed, the points it passed."""
        self.reports: list[dict[str, Any]] = []
        self.told: set[tuple[str, int]] = set()
        self.killed = 0
        self._zygote = zygote
        for run in range(RUNS_MAX):
            if self._run(run):
                return
        raise AssertionError("it does not end")

    def _run(self, run: int) -> bool:
        """Run one process; returns whether the program has ended."""
        worker = self._zygote.start(
            "play", self.url, self.effects, self.policy, self.style, self.api, run,
            self.kills.get(run),
        )  # fmt: skip
        said = worker.drain()
        worker.wait()
        self._zygote.end(worker)
        self.reports += [word for word in said if "interrupted" in word]
        self.told |= {tuple(word["told"]) for word in said if "told" in word}
        last = said[-1] if said else {}
        assert "error" not in last, last
        if "done" not in last:
            self.killed += 1
            if self.policy == "settled" and is_made(self.url):
                self._settle()
            return self._is_over()
        done = last["done"]
        self.points.append(done["points"])
        if not done["needs"]:
            return True
        with connect(self.url, project="test") as store:
            approvals.approve(store.port, store.context, done["needs"], by="local:person")
        return False

    def _settle(self) -> None:
        """Settle each call in doubt by its real effects, as a person would."""
        world = World(str(self.effects))
        with connect(self.url, project="test") as store:
            for doubt in settlement.doubts(store.as_read):
                verdict: settlement.Verdict = (
                    "done" if world.count(doubt.tool, doubt.arguments["n"]) else "not done"
                )
                settlement.settle(store.port, store.context, doubt.call, verdict, by="local:person")

    def _is_over(self) -> bool:
        """Whether it died after its normal end; the same program would then start over."""
        if not is_made(self.url):
            return False
        with connect(self.url, project="test") as store:
            if not store.sessions().rows:
                return False
            view = store.read("main")
            if view.entries("runs"):
                return False
            ends = [commit for commit in view.log() if commit.kind == "run_end"]
            return bool(ends) and ends[-1].status == "ok"


def judge(story: Story) -> Counter[str]:
    """Compare the effects of a finished program with its log; returns the counts."""
    assert findings(story.url) == []
    world = World(str(story.effects))
    with connect(story.url, project="test") as store:
        view = store.read("main")
        log = list(view.log())
        doubts = {
            (row.tool, view.commit(f"@{row.seq}").value("input")["n"])
            for row in view.calls(status="in doubt")
        }
        turns = [turn.status for turn in view.turns()]
    assert turns == ["ok"] * TURNS
    calls = calls_of(log)
    for n in range(1, TURNS + 1):
        for tool in ("look", "act", "put", "note"):
            judge_tool(story, tool, n, calls[tool, n], world.count(tool, n))
        keys = {line[2] for line in world.all() if line[:2] == ["act", n] and len(line) > 2}
        assert len(keys) <= 1 or story.style == "reworded", keys
    told = check_told(story, log, doubts)
    asked = world.count("asked")
    if story.style in ("model", "parallel"):
        answers = [commit for commit in log if commit.kind == "entry"]
        assert len(answers) == 3 * TURNS
        assert asked <= 3 * TURNS + story.killed
    else:
        assert sum(commit.kind == "fact" for commit in log) == TURNS
    return Counter(
        cells=1,
        kills=story.killed,
        effects=sum(world.count(tool) for tool in ("look", "act", "put", "note")),
        doubts=len(doubts),
        told=told,
    )


def calls_of(log: list[Any]) -> dict[tuple[str, int], dict[str, list[str]]]:
    """(tool, turn) → call → its recorded statuses, in order."""
    found: dict[tuple[str, int], dict[str, list[str]]] = defaultdict(dict)
    places: dict[str, list[str]] = {}
    for commit in log:
        if commit.kind == "call" and commit.tool != "model":
            place = (commit.tool, commit.value("input")["n"])
            places[commit.call] = found[place].setdefault(commit.call, [])
        if commit.call in places and commit.kind in ("call", "approval", "outcome", "settlement"):
            places[commit.call].append(commit.status)
    return found


def judge_tool(story: Story, tool: str, n: int, calls: dict[str, list[str]], effects: int) -> None:
    where = (tool, n, calls, effects)
    assert calls, where  # no call is missing
    ends = Counter(statuses[-1] for statuses in calls.values())
    write = tool == "note" or (tool == "act" and story.policy not in ("read", "idempotent"))
    if not write:
        assert ends["ok"] >= 1, where
        assert 1 <= effects <= len(calls) + story.killed, where
        assert story.style == "reworded" or len(calls) == 1, where
        return
    assert ends["ok"] <= effects <= ends["ok"] + ends["in doubt"], where
    if story.style == "reworded":
        check_nothing_after_a_doubt(list(calls.values()), where)
        return
    withdrawn = sum("started" not in statuses for statuses in calls.values())
    assert withdrawn == (ends["cancelled"] if story.policy == "approved" else 0), where
    assert len(calls) == 1 + withdrawn, where
    assert ends["ok"] + ends["in doubt"] == 1, where
    if story.policy == "settled" or (tool == "act" and story.policy in RECONCILED):
        assert ends["ok"] == 1, where


def check_nothing_after_a_doubt(calls: list[list[str]], where: Any) -> None:
    """While an earlier call of it is in doubt, the same tool does not run in that turn."""
    for earlier, later in itertools.combinations(calls, 2):
        if earlier[-1] == "in doubt":
            assert later[-1] == "denied", where
            assert "started" not in later, where


def check_told(story: Story, log: list[Any], doubts: set[tuple[str, int]]) -> int:
    """Each call in doubt was in a recovery report, and the model or the program received it."""
    reported = {(tool, n) for report in story.reports for tool, n in report["in doubt"]}
    assert doubts <= reported
    if story.style not in ("model", "parallel"):
        assert doubts <= story.told
        return len(doubts)
    transcript = Transcript()
    for commit in log:
        transcript.feed(commit)
    messages = transcript.render("anthropic")
    check_anthropic(messages)
    results = {
        block["tool_use_id"]: str(block["content"])
        for message in messages
        if not isinstance(message["content"], str)
        for block in message["content"]
        if block["type"] == "tool_result"
    }
    for tool, n in doubts:
        assert "unknown" in results[f"tu_{n}_{tool}"]
    return len(doubts)


# -- choosing crash points ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def points(zygote, new_store, tmp_path_factory):
    """Program → the points that its processes pass without a kill."""
    folder = tmp_path_factory.mktemp("whole")
    known: dict[Program, list[list[str]]] = {}

    def passed(program: Program) -> list[list[str]]:
        if program not in known:
            where = folder / str(len(known))
            story = Story(zygote, new_store(where), where, program, {})
            assert judge(story)["doubts"] == 0
            known[program] = story.points
        return known[program]

    return passed


def every(points: list[list[str]]) -> list[Kill]:
    return [(run, at) for run, passed in enumerate(points) for at in range(len(passed))]


def by_kind(points: list[list[str]]) -> list[list[Kill]]:
    """Kills at each kind of point: "after outcome act" in the first turn, the second, the third."""
    found: dict[str, list[Kill]] = defaultdict(list)
    for run, passed in enumerate(points):
        for at, point in enumerate(passed):
            found[point.partition(": ")[2]].append((run, at))
    return list(found.values())


def share(points: list[list[str]], number: int, step: int) -> list[Kill]:
    """One kill at every `step`th kind of point; that many programs in a row cover all, in changing turns."""
    kinds = by_kind(points)
    return [
        kinds[at][(at + number // step) % len(kinds[at])]
        for at in range(number % step, len(kinds), step)
    ]


def again(kill: Kill, at: int) -> dict[int, int]:
    """A kill, and another in the next process."""
    return {kill[0]: kill[1], kill[0] + 1: at}


@pytest.fixture
def kill_each(zygote, new_store, tmp_path):
    """Run a program once for each of these kills, and judge it; returns the counts."""

    def judge_all(program: Program, cells: Iterable[dict[int, int]]) -> Counter[str]:
        def judged(where: Path, kills: dict[int, int]) -> Counter[str]:
            return judge(Story(zygote, new_store(where), where, program, kills))

        return judge_each(tmp_path, cells, judged, " ".join(program))

    return judge_all


# -- the tests ------------------------------------------------------------------------------------


def test_the_programs_reach_every_kind_of_crash_point(points):
    kinds = {
        point.partition(": ")[2]
        for program in PROGRAMS
        if program[1] == "model"
        for passed in points(program)
        for point in passed
    }
    assert {
        "before call act",
        "after call act",
        "in act, before its effect",
        "in act, after its effect",
        "before outcome act",
        "after outcome act",
        "in backoff",
        "before approval act",
        "after approval act",
        "in the model",
        "the model has answered",
        "the answer is here, nothing is called",
        "before outcome model + entry",
        "between turns",
        "before run_end + pause",
        "after run_end + pause",
    } <= kinds


@pytest.mark.parametrize("program", PROGRAMS, ids=" ".join)
def test_a_program_killed_once_and_rerun_performs_every_effect_once(kill_each, points, program):
    chosen = share(points(program), PROGRAMS.index(program), 12)
    total = kill_each(program, (dict([kill]) for kill in chosen))
    assert total["kills"] == total["cells"] == len(chosen)


@pytest.mark.parametrize("program", PROGRAMS[::3], ids=" ".join)
def test_a_program_killed_again_during_its_rerun_performs_every_effect_once(
    kill_each, points, program
):
    number = PROGRAMS.index(program)
    chosen = share(points(program), number + 7, 6)[number % 2 :: 2]
    cells = [again(kill, (7 * number + 5 * place) % 40) for place, kill in enumerate(chosen)]
    total = kill_each(program, cells)
    assert total["kills"] > len(chosen)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=" ".join)
def test_every_effect_happens_once_for_every_crash_point(kill_each, points, program, capsys):
    cells = (dict([kill]) for kill in every(points(program)))
    total = kill_each(program, cells)
    with capsys.disabled():
        print(f"\n{' '.join(program)}, killed once: {dict(total)}")


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=" ".join)
def test_every_effect_happens_once_for_every_pair_of_crash_points(
    kill_each, points, program, capsys
):
    """The second kill is at each of the first points that the next process passes."""
    kinds = by_kind(points(program))
    cells = (
        again(kills[at % len(kills)], second)
        for at, kills in enumerate(kinds)
        for second in range(at % 4, 40, 4)
    )
    total = kill_each(program, cells)
    with capsys.disabled():
        print(f"\n{' '.join(program)}, killed twice: {dict(total)}")
