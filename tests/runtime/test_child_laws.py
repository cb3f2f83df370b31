"""A law of sub-agents: whatever failed or was killed before, a write of a child happens once, or is in doubt."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

import stator
from runtime.support import Died, die
from stator.errors import InDoubt, WrongState
from stator.testing import memory_store

WRITE = ("write",)
RUNS_MAX = 40


def steps(depth: int) -> st.SearchStrategy[Any]:
    """What a turn does: it writes, or opens a child (by name, inside a call or not) whose program has 0 to 2 turns."""
    write = st.just(WRITE)
    if not depth:
        return write
    turns = st.lists(st.lists(steps(depth - 1), max_size=2), max_size=2)
    return write | st.tuples(st.just("child"), st.sampled_from("ab"), st.booleans(), turns)


PROGRAMS = st.lists(st.lists(steps(2), min_size=1, max_size=3), min_size=1, max_size=2)
"""The turns of the parent."""
FAULTS = st.lists(st.tuples(st.sampled_from(("fail", "die")), st.integers(1, 20)), max_size=6)
"""Each run: how it ends, and at which of the points that it passes."""


class Down(Exception):
    """Something outside fails; the next run may find it well."""


class World:
    """One run of a program, and what happened outside in all of them."""

    def __init__(
        self, store: Any, done: Counter[str], fault: tuple[str, int] = ("", 0), *, keyed: int
    ) -> None:
        """`keyed`: 1, the turns of the parent have keys; 2, those of its children too."""
        self.store, self.done, self._keyed = store, done, keyed
        self._how, self._left = fault
        self._open: list[Any] = []
        self.is_dead = False

    def point(self, *, in_tool: bool = False) -> None:
        """Fail or die here, if this is the point. A tool that has written does not fail."""
        self._left -= 1
        if self._left == 0 and self._how == "fail" and not in_tool:
            raise Down
        if self._left == 0 and self._how == "die":
            self.is_dead = True
            for session in self._open:
                die(session)
            raise Died

    def run(self, program: Any) -> bool:
        """Whether the program came to its end."""
        try:
            with self.store.open("main") as s:
                self._turns(s, program, "")
        except (Down, InDoubt):
            return False
        except (Died, WrongState):  # a dead process writes nothing more
            assert self.is_dead
            return False
        return True

    def _turns(self, s: Any, program: Any, path: str) -> None:
        self._open.append(s)
        self.point()
        for place, turn in enumerate(program):
            has_key = self._keyed > bool(path)
            with s.turn("go", key=f"{path}/{place}" if has_key else "") as t:
                for number, step in enumerate(turn):
                    self._step(s, t, step, f"{path}/{place}.{number}")
                self.point()
        self.point()

    def _step(self, s: Any, t: Any, step: Any, path: str) -> None:
        self.point()
        if step == WRITE:
            t.call(stator.tool(self._write, name="write", effect="write", attempts=1), what=path)
            return
        _, name, in_call, turns = step

        def delegate(what: str) -> None:
            with s.child(name) as child:
                self._turns(child, turns, f"{what}{name}")
            self._open.pop()

        if in_call:
            tool = stator.tool(delegate, name="delegate", effect="read", attempts=1)
            with contextlib.suppress(stator.errors.CallFailed):
                t.call(tool, what=path)
                return
            raise Down
        delegate(path)

    def _write(self, what: str) -> str:
        self.done[what] += 1
        self.point(in_tool=True)
        return what


def labels(program: Any, path: str = "") -> set[str]:
    """Every write that a program asks for."""
    found = set()
    for place, turn in enumerate(program):
        for number, step in enumerate(turn):
            here = f"{path}/{place}.{number}"
            found |= {here} if step == WRITE else labels(step[3], f"{here}{step[1]}")
    return found


def settle(store: Any, done: Counter[str]) -> None:
    for doubt in store.doubts.open():
        what = doubt.arguments["what"]
        store.doubts.settle(doubt.call, *(("done", what) if done[what] else ("run again",)))


HELPED = [[("child", "a", False, [[WRITE]])]]
"""A turn whose child writes in its only turn."""
CALLED = [[("child", "a", True, [[WRITE]])]]
"""The same, opened in a call."""
TWICE = [[("child", "a", True, [[WRITE]]), ("child", "a", False, [[], [WRITE]])]]


@given(program=PROGRAMS, faults=FAULTS, keyed=st.integers(0, 2))
@example(program=HELPED, faults=[("fail", 3), ("die", 8)], keyed=0)
@example(program=CALLED, faults=[("die", 5), ("die", 2)], keyed=1)
@example(program=TWICE, faults=[("fail", 3), ("fail", 9), ("die", 12)], keyed=0)
def test_a_write_of_a_child_that_failed_or_died_in_any_run_happens_once(program, faults, keyed):
    store, done = memory_store(), Counter[str]()
    for fault in (*faults, *[("", 0)] * RUNS_MAX):
        if World(store, done, fault, keyed=keyed).run(program):
            break  # run once more, it would begin something new
        assert max(done.values(), default=1) == 1
        if not any(fault):
            settle(store, done)
    assert done == dict.fromkeys(labels(program), 1)
