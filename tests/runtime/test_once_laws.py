"""A law of keys: whatever happened to the runs before, a write of a turn with a key happens once, or is in doubt."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import stator
from runtime.support import Died, driving
from stator.errors import InDoubt
from stator.testing import memory_store

KEYS = ("a", "b", "c")
ENDS = ("end", "die before", "die in", "die after", "raise", "abort", "leave")
TURNS = st.tuples(st.sampled_from(KEYS), st.integers(1, 3), st.sampled_from(ENDS), st.booleans())
RUNS = st.lists(
    st.tuples(st.lists(TURNS, min_size=1, max_size=4), st.booleans()), min_size=1, max_size=8
)
"""Each run: turns (key, how many writes it reaches, how it ends, whether another attempt is asked for), and whether
another program works in the session before it."""


class World:
    """What happened outside: each write that was done, by key and number."""

    def __init__(self) -> None:
        self.done: Counter[tuple[str, int]] = Counter()
        self.fate = ""

    def write(self, key: str, n: int) -> str:
        if self.fate == "die before":
            raise Died
        self.done[key, n] += 1
        if self.fate == "die in":
            raise Died
        return f"{key}{n}"


def run(store: Any, world: World, turns: list[Any], write: Any) -> None:
    """One run of a program: it ends early where a turn dies."""
    with driving(store) as s:
        for key, reached, end, new in turns:
            with contextlib.suppress(InDoubt, KeyError), s.turn(key, key=key, new=new) as t:
                for n in range(1, 4 if t.reused else reached + 1):
                    world.fate = end if n == reached else ""
                    assert t.call(write, key=key, n=n) == f"{key}{n}"
                world.fate = ""
                if end.startswith("die") and not t.reused:
                    raise Died
                if end == "raise":
                    raise KeyError(key)
                if end == "abort":
                    t.abort("enough")
                elif reached == 3:
                    t.end(value=key)
                elif end in ("end", "leave"):
                    raise KeyError("not all of it was done")


@given(runs=RUNS)
def test_a_write_of_a_turn_with_a_key_happens_at_most_once(runs):
    world, store = World(), memory_store()
    write = stator.tool(world.write, name="write", effect="write", attempts=1)
    for turns, other in runs:
        if other:
            with store.open("main") as s, s.turn("other", new=True) as t:
                t.fact("n", 1)
        run(store, world, turns, write)
    assert max(world.done.values(), default=1) == 1
    view = store.read("main")
    doubts = {
        (found["key"], found["n"])
        for row in view.calls(status="in doubt")
        for found in [view.commit(f"@{row.seq}").value("input")]
    }
    recorded = {
        (found["key"], found["n"])
        for row in view.calls(status="ok")
        for found in [view.commit(f"@{row.seq}").value("input")]
    }
    assert recorded <= set(world.done)
    assert set(world.done) <= recorded | doubts
