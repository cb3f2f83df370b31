"""Programs with keys that die at a given point and can be run again, in every shape such programs have."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

import stator
from reliability.crash import Fuse, World
from stator.connect import connect
from stator.errors import InDoubt
from stator.runtime.base.context import Launch

TASKS = ("a", "b", "c")
SHAPES = (
    "one block",
    "a block per turn",
    "once",
    "turning",
    "mixed",
    "batches",
    "unreadable answer",
    "supervised",
    "supervised blocks",
)
"""Keyed turns in one `with` block of the session, or each in a block of its own; `s.once`; each start begins
with another task, so that the interrupted turn is not the last; keyed turns between turns without a key;
turns that end in a batch; turns whose first recorded answer the program cannot read; and two programs without
keys under a supervisor that starts them again."""


class Unreadable(Exception):
    """The program cannot read what the model said."""


class Once:
    """One start of a program."""

    def __init__(self, store: Any, world: World, fuse: Fuse, start: int) -> None:
        self.store, self.world, self.fuse, self.start = store, world, fuse, start
        self.doubts: list[str] = []

        def pay(task: str) -> str:
            fuse.at(f"in pay {task}, before its effect")
            world.did("pay", task)
            fuse.at(f"in pay {task}, after its effect")
            return f"paid {task}"

        self.pay = stator.tool(pay, effect="write", attempts=1)

    def run(self, shape: str) -> list[str]:
        """Run every task; returns those whose payment is in doubt."""
        shapes: dict[str, Callable[[], None]] = {
            "one block": self._one_block,
            "a block per turn": lambda: self._blocks(TASKS),
            "once": self._once,
            "turning": lambda: self._blocks(TASKS[self.start % 3 :] + TASKS[: self.start % 3]),
            "mixed": self._mixed,
            "batches": self._batches,
            "unreadable answer": self._unreadable,
            "supervised": lambda: self._unkeyed(blocks=False),
            "supervised blocks": lambda: self._unkeyed(blocks=True),
        }
        shapes[shape]()
        self.fuse.at("after the block")
        return self.doubts

    def _try(self, task: str, act: Callable[[], Any]) -> None:
        """A task in doubt is left for a person; the program goes on with the next."""
        try:
            assert act() == f"paid {task}"
        except InDoubt:
            self.doubts.append(task)

    def _turn(self, s: Any, task: str, **options: Any) -> Any:
        with s.turn(task, **options) as t:
            if t.reused and t.value is not None:
                return t.value
            t.end(value=t.call(self.pay, task=task))
        return t.value

    def _one_block(self) -> None:
        with self.store.open("main") as s:
            for task in TASKS:
                self._try(task, partial(self._turn, s, task, key=task))
                self.fuse.at("between turns")

    def _blocks(self, tasks: tuple[str, ...]) -> None:
        for task in tasks:

            def act(task: str = task) -> Any:
                with self.store.open("main") as s:
                    return self._turn(s, task, key=task)

            self._try(task, act)
            self.fuse.at("between blocks")

    def _once(self) -> None:
        with self.store.open("main") as s:
            for task in TASKS:
                self._try(task, partial(s.once, task, self.pay, task=task))

    def _mixed(self) -> None:
        with self.store.open("main") as s:
            for task in TASKS:
                with s.turn(f"before {task}") as t:
                    t.note("about to pay", task)
                self._try(task, partial(self._turn, s, task, key=task))

    def _batches(self) -> None:
        with self.store.open("main") as s:
            for task in TASKS:

                def act(task: str = task) -> Any:
                    with s.turn(task, key=task) as t:
                        paid = t.call(self.pay, task=task)
                        with t.batch():
                            t.decide(f"pay {task}", topic=task)
                            t.say(paid)
                            t.end(value=paid)
                    return t.value

                self._try(task, act)

    def _unreadable(self) -> None:
        for task in TASKS:

            def act(task: str = task) -> Any:
                with self.store.open("main") as s, s.turn(task, key=task) as t:
                    paid = t.call(self.pay, task=task)
                    said = t.model(self._answer, model="m", messages=[], task=task)
                    if "unreadable" in str(said):
                        raise Unreadable(task)
                    t.end(value=paid)
                return t.value

            try:
                self._try(task, act)
            except Unreadable:
                self.doubts.append(task)  # another start will find an answer that can be read

    def _answer(self, *, task: str, **_: Any) -> dict[str, Any]:
        self.fuse.at("in the model")
        asked = self.world.count("asked", task)
        self.world.did("asked", task)
        text = "unreadable" if asked == 0 else "fine"
        return {"role": "assistant", "content": [{"type": "text", "text": text}]}

    def _unkeyed(self, *, blocks: bool) -> None:
        """Turns without a key: the supervisor's run tells what they are."""
        if not blocks:
            with self.store.open("main") as s:
                for task in TASKS:
                    self._try(task, partial(self._turn, s, task))
            return
        for task in TASKS:

            def act(task: str = task) -> Any:
                with self.store.open("main") as s:
                    return self._turn(s, task)

            self._try(task, act)


def run_once(
    talk: Any, path: str, effects: str, shape: str, start: int, point: int | None
) -> dict[str, Any]:
    """Start a program once, until its end or its death at a point."""
    fuse, world = Fuse(point), World(effects)
    fuse.watch_appends()
    store = connect(path, project="test", durability="relaxed")
    if shape.startswith("supervised"):
        store.context = msgspec.structs.replace(
            store.context, launch=Launch("r1", start, str(os.getpid()))
        )
    doubts = Once(store, world, fuse, start).run(shape)
    store.close()
    fuse.at("at exit")
    return {"points": fuse.passed, "doubts": doubts}
