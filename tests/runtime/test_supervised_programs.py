"""Programs without keys under a supervisor: started again, they do not repeat what ended."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from runtime.support import Counted, driving, dying
from stator.errors import InDoubt
from stator.runtime.base.context import Launch
from stator.runtime.facade.store import Store


def supervised(store: Any, start: int, run: str = "r1", process: str = "") -> Any:
    """The same store as a program sees it that a supervisor started."""

    return Store(
        store.port,
        msgspec.structs.replace(store.context, launch=Launch(run, start, process or f"p{start}")),
    )


def test_a_program_that_its_supervisor_starts_again_does_not_repeat_what_ended(either):
    act = Counted()
    for start in range(2):
        with supervised(either, start).open("main") as s, s.turn("pay") as t:
            t.call(act.tool(effect="write"), cents=42)
    assert (t.reused, len(act.runs)) == (True, 1)


def test_a_supervised_program_with_one_block_per_turn_does_not_repeat_what_ended(either):
    act = Counted()
    for start in range(3):
        for task in range(start + 1):
            with supervised(either, start).open("main") as s, s.turn("pay") as t:
                t.call(act.tool(effect="write"), task=task)
    assert [run["task"] for run in act.runs] == [0, 1, 2]


def test_a_supervised_program_continues_the_block_it_died_in(either):
    act = Counted(lambda: 1, lambda: 2, dying)
    for start in range(2):
        for task in range(3):
            with driving(supervised(either, start)) as s, s.turn("pay") as t:
                t.try_call(act.tool(effect="write"), task=task)
    assert [run["task"] for run in act.runs] == [0, 1, 2]
    assert t.continued


def test_a_supervised_program_that_closed_its_session_does_not_repeat_what_ended(either):
    act = Counted()
    for start in range(2):
        with supervised(either, start).open("main") as s:
            with s.turn("pay") as t:
                t.call(act.tool(effect="write"), cents=42)
            s.close()
    assert len(act.runs) == 1


def test_a_supervised_program_that_goes_on_after_an_error_finds_each_of_its_turns(either):
    act = Counted(dying)
    for start in range(3):
        with (
            contextlib.suppress(InDoubt),
            driving(supervised(either, start)) as s,
            s.turn("a") as t,
        ):
            t.call(act.tool(effect="write"), task="a")
        if start == 0:
            continue
        with driving(supervised(either, start)) as s, s.turn("b") as t:
            t.call(act.tool(effect="write"), task="b")
    assert [run["task"] for run in act.runs] == ["a", "b"]


def test_a_program_that_its_own_start_runs_again_continues_what_it_left(either):
    act = Counted(lambda: 1, dying)
    for process in ("p1", "p2"):
        store = supervised(either, 0, process=process)
        with driving(store) as s:
            for task in ("a", "b"):
                with s.turn(task) as t:
                    t.try_call(act.tool(effect="write"), task=task)
    assert [run["task"] for run in act.runs] == ["a", "b"]


def test_another_supervised_run_of_the_program_begins_new_turns(either):
    act = Counted()
    for run in ("r1", "r2"):
        with supervised(either, 0, run).open("main") as s, s.turn("pay") as t:
            t.call(act.tool(effect="write"), cents=42)
    assert len(act.runs) == 2
