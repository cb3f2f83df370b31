"""A program with keys is killed at every point and started again and again; its effects are counted.

Laws, for any kills and any number of starts after them:

    every payment happens once, or is in doubt and happens at most once;
    what was in doubt is in doubt at every later start, until a person settles it;
    a start after the program has ended changes nothing.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from reliability.crash import World
from reliability.crash_once import SHAPES, TASKS
from reliability.support import Zygote, findings, judge_each
from stator.connect import connect
from stator.runtime.driving import settlement

STARTS_AFTER = 3
"""How often the program is started after its last kill: by cron, a supervisor, a person."""


class Story:
    """One program, started until it was killed as often as it should be, and then some more."""

    def __init__(
        self, zygote: Zygote, url: str, folder: Path, shape: str, kills: list[int]
    ) -> None:
        folder.mkdir()
        self.url, self.effects, self.shape = url, folder / "effects", shape
        self.points: list[list[str]] = []
        self.doubts: list[list[str]] = []
        self._zygote = zygote
        for start, point in enumerate([*kills, *[None] * STARTS_AFTER]):
            self._start(start, point)

    def _start(self, start: int, point: int | None) -> None:
        worker = self._zygote.start("run_once", self.url, self.effects, self.shape, start, point)
        said = worker.drain()
        worker.wait()
        self._zygote.end(worker)
        last: dict[str, Any] = said[-1] if said else {}
        assert "error" not in last, last
        if "done" in last:
            self.points.append(last["done"]["points"])
            self.doubts.append(last["done"]["doubts"])

    def paid(self, task: str) -> int:
        return World(str(self.effects)).count("pay", task)


def judge(story: Story) -> Counter[str]:
    """Compare the payments with what the program was told."""
    assert findings(story.url) == []
    left = set(story.doubts[-1])
    for task in TASKS:
        paid = story.paid(task)
        assert paid <= 1, (task, paid)
        assert paid == 1 or task in left, (task, paid)
    with connect(story.url, project="test") as store:
        known = {doubt.arguments["task"] for doubt in settlement.doubts(store.port)}
        turns = store.read("main").turns()
    assert left == known
    if story.shape != "mixed":
        assert len([turn for turn in turns if turn.status == "ok"]) == len(TASKS) - len(left)
    return Counter(cells=1, doubts=len(left), paid=sum(map(story.paid, TASKS)))


@pytest.fixture(scope="module")
def points(zygote, new_store, tmp_path_factory):
    """Shape → the points that the program passes when it is not killed."""
    folder = tmp_path_factory.mktemp("whole")
    known: dict[str, list[str]] = {}

    def passed(shape: str) -> list[str]:
        if shape not in known:
            where = folder / shape.replace(" ", "-")
            story = Story(zygote, new_store(where), where, shape, [])
            known[shape] = story.points[0]
        return known[shape]

    return passed


@pytest.fixture
def kill_each(zygote, new_store, tmp_path):
    """Run a program once for each of these kills, and judge it; returns the counts."""

    def judge_all(shape: str, cells: list[list[int]]) -> Counter[str]:
        def judged(where: Path, kills: list[int]) -> Counter[str]:
            return judge(Story(zygote, new_store(where), where, shape, kills))

        return judge_each(tmp_path, cells, judged, shape)

    return judge_all


@pytest.mark.parametrize("shape", SHAPES)
def test_a_program_that_is_not_killed_pays_once_however_often_it_starts(kill_each, shape):
    total = kill_each(shape, [[]])
    assert total["paid"] == len(TASKS)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_program_with_keys_killed_once_pays_at_most_once(kill_each, points, shape):
    chosen = range(SHAPES.index(shape) % 9, len(points(shape)), 13)
    total = kill_each(shape, [[at] for at in chosen])
    assert total["cells"] == len(chosen)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_program_with_keys_killed_three_times_pays_at_most_once(kill_each, points, shape):
    many = len(points(shape))
    cells = [[at, (3 * at) % many, (7 * at) % many] for at in range(SHAPES.index(shape), many, 29)]
    assert kill_each(shape, cells)["cells"] == len(cells)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_program_with_keys_pays_at_most_once_for_every_crash_point(
    kill_each, points, shape, capsys
):
    many = len(points(shape))
    cells = [[at] for at in range(many)]
    cells += [[at, again] for at in range(many) for again in range(0, many, 15)]
    total = kill_each(shape, cells)
    with capsys.disabled():
        print(f"\n{shape}: {dict(total)}")
