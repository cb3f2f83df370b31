"""A session of thousands of turns, made as fast as a store takes commits: turn by turn it would take minutes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import stator
from stator.model.log.commit import Draft
from stator.store.contract.drive import Drafts, begin

TURNS = 3000
AT_ONCE = 1000
"""Turns that are appended together."""
PLAN = 20


def very_long(path: Path, turns: int = TURNS) -> str:
    """Fill a store with one session of so many turns, each with calls, a decision, files and an answer; its id."""
    with stator.connect(path, project="shop", durability="relaxed") as store:
        story = begin(store.port, "very-long", project="shop", agent="tester").drive()
        for first in range(0, turns, AT_ONCE):
            story.add(
                *(one for n in range(first, first + AT_ONCE) for one in _turn(story.drafts, n))
            )
        return story.session


def _turn(drafts: Drafts, n: int) -> Iterator[Draft]:
    yield drafts.turn(f"request {n}")
    for tool in ("read_file", "write_file"):
        call = drafts.call(tool, {"path": f"src/part{n}.py"})
        yield call
        yield drafts.outcome(call)
    yield drafts.file(f"src/part{n}.py", "modified")
    yield drafts.decision(f"choice {n}", f"topic {n}")
    yield drafts.plan(f"step {n % PLAN}", "done", n % PLAN)
    yield drafts.entry(f"answer {n}")
    yield drafts.turn_end()
