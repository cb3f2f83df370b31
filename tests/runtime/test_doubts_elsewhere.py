"""Writes in doubt: which calls of other turns are answered as in doubt, too."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

import stator
from runtime.support import Counted, Died, Model, driving, dying, says
from stator.model.records.types import to_settle


class Ledger:
    """A tool that notes the idempotency key it was given, and looks it up."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.dies = False

    def pay(self, cents: int, idempotency_key: str) -> str:
        self.keys.append(idempotency_key)
        if self.dies:
            raise Died
        return "paid"

    def tool(self) -> Any:
        def found(intent: Any) -> str:
            return "done" if intent.key in self.keys else "not_done"

        return stator.tool(self.pay, name="pay", effect="write", reconcile=found)

    def crash(self, store: Any, *, calls: int = 1) -> None:
        with driving(store) as s, s.turn("pay", key="a") as t:
            for number in range(calls):
                self.dies = number == calls - 1
                t.call(self.tool(), cents=42)


@pytest.mark.parametrize("calls", [1, 2])
def test_a_doubt_is_looked_up_under_the_key_it_was_made_with_by_another_turn(either, calls):
    ledger = Ledger()
    ledger.crash(either, calls=calls)
    with either.open("main") as s, s.turn("pay", key="b") as t:
        assert t.try_call(ledger.tool(), cents=42).status == "denied"
    assert len(ledger.keys) == calls


def test_a_doubt_of_a_continued_turn_is_looked_up_under_the_key_it_was_made_with(either):
    ledger = Ledger()
    with contextlib.suppress(ZeroDivisionError), either.open("main") as s, s.turn("pay", key="a"):
        raise ZeroDivisionError
    with either.open("main") as s, s.turn("something else"):
        pass
    ledger.crash(either)
    with either.open("main") as s, s.turn("pay", key="b") as t:
        assert t.try_call(ledger.tool(), cents=42).status == "denied"
    assert len(ledger.keys) == 1


def test_a_doubt_is_looked_up_under_the_key_it_was_made_with_by_another_attempt(either):
    ledger = Ledger()
    ledger.crash(either)
    with either.open("main") as s, s.turn("pay", key="a", new=True) as t:
        assert t.try_call(ledger.tool(), cents=42).status == "denied"
    assert len(ledger.keys) == 1


def test_a_doubt_is_looked_up_under_the_key_it_was_made_with_by_a_fork(either):
    ledger = Ledger()
    ledger.crash(either)
    with either.open("main"):
        pass
    either.fork("main", as_name="other")
    with either.open("other") as s, s.turn("pay", key="a") as t:
        assert t.try_call(ledger.tool(), cents=42).ok
    assert len(ledger.keys) == 1


def left_in_doubt(store: Any, act: Counted, **options: Any) -> None:
    with driving(store) as s, s.turn("one", new=True) as t:
        t.call(act.tool(**options), cents=42)


def test_a_declared_write_in_doubt_does_not_run_in_another_turn(either):
    act = Counted(dying)
    left_in_doubt(either, act, effect="write")
    with either.open("main") as s, s.turn("two") as t:
        assert t.try_call(act.tool(effect="write"), cents=42).status == "in doubt"
    assert len(act.runs) == 1


def test_a_declared_write_with_other_arguments_runs_in_another_turn(either):
    act = Counted(dying)
    left_in_doubt(either, act, effect="write")
    with either.open("main") as s, s.turn("two") as t:
        assert t.call(act.tool(effect="write"), cents=43) == "done"


def test_a_tool_that_declares_no_effect_runs_in_another_turn(either):
    act = Counted(dying)
    left_in_doubt(either, act)
    with either.open("main") as s, s.turn("two") as t:
        assert t.call(act.tool(), cents=42) == "done"


def test_a_call_with_the_key_of_one_in_doubt_does_not_run_in_another_turn(either):
    act = Counted(dying)
    left_in_doubt(either, act, key="order 17")
    with either.open("main") as s, s.turn("two") as t:
        assert t.try_call(act.tool(key="order 17"), cents=43).status == "in doubt"


def test_a_call_with_another_key_than_one_in_doubt_runs(either):
    act = Counted(dying)
    left_in_doubt(either, act, key="order 17", effect="write")
    with either.open("main") as s, s.turn("two") as t:
        assert t.call(act.tool(key="order 18", effect="write"), cents=42) == "done"


def test_a_request_with_the_id_of_one_in_doubt_does_not_run_in_another_turn(either):
    act = Counted(dying)
    with driving(either) as s, s.turn("one") as t:
        r = t.model(Model(says(("act", {"cents": 42}))), model="m", messages=[])
        t.results(r, {"act": act.tool()})
    with either.open("main") as s, s.turn("two") as t:
        r = t.model(Model(says(("act", {"cents": 43}))), model="m", messages=[])
        t.results(r, {"act": act.tool()})
    assert len(act.runs) == 1


def test_settling_a_doubt_lets_the_call_run_in_another_turn(either):
    act = Counted(dying)
    left_in_doubt(either, act, effect="write")
    with either.open("main") as s:
        s.in_doubt[0].settle("not done")
        with s.turn("two") as t:
            assert t.call(act.tool(effect="write"), cents=42) == "done"


def test_the_call_in_doubt_is_still_to_be_settled_after_another_turn_asked_for_it(either):
    act = Counted(dying)
    left_in_doubt(either, act, effect="write")
    with either.open("main") as s, s.turn("two") as t:
        call = t.try_call(act.tool(effect="write"), cents=42).call
        assert [p.record.what for p in s.entries("pending")] == [to_settle(call)]


def test_a_write_that_timed_out_in_this_run_does_not_run_in_its_next_turn(either):
    def slow() -> Any:
        raise TimeoutError

    act = Counted(slow)
    with either.open("main") as s:
        for prompt in ("one", "two"):
            with s.turn(prompt) as t:
                assert t.try_call(act.tool(effect="write"), cents=42).status == "in doubt"
    assert len(act.runs) == 1


def test_a_doubt_of_the_parent_does_not_stop_a_fork(either):
    act = Counted(dying)
    left_in_doubt(either, act, effect="write")
    with either.open("main"):
        pass
    either.fork("main", "head", as_name="branch")
    with either.open("branch") as s, s.turn("two") as t:
        assert t.call(act.tool(effect="write"), cents=42) == "done"
