"""Opening a session between an interrupted run and the next changes nothing for the next run."""

from __future__ import annotations

import pytest

import stator


class Bank:
    """Takes the money and then raises InDoubt."""

    def __init__(self):
        self.ledger = []

    def pay(self, cents):
        self.ledger.append(cents)
        raise stator.InDoubt("the connection was lost after sending")


@pytest.fixture
def bank():
    return Bank()


def program(store, bank):
    with store.open("shop") as s, s.turn("pay the invoice") as t:
        return t.call(bank.pay, cents=5)


def test_a_call_settled_between_two_runs_does_not_run_again(store, bank):
    with pytest.raises(stator.InDoubt):
        program(store, bank)
    with store.open("shop") as s:
        s.in_doubt[0].settle("done", "paid")
    assert program(store, bank) == "paid"
    assert bank.ledger == [5]


def test_opening_a_session_twice_leaves_it_interrupted(store, bank):
    with pytest.raises(stator.InDoubt):
        program(store, bank)
    for _ in range(2):
        with store.open("shop") as s:
            assert s.recovery.interrupted
    with pytest.raises(stator.InDoubt):
        program(store, bank)
    assert bank.ledger == [5]


def test_opening_a_session_that_ended_normally_does_not_interrupt_it(store):
    with store.open("shop") as s, s.turn("one"):
        pass
    with store.open("shop"):
        pass
    with store.open("shop") as s:
        assert not s.recovery.interrupted


def test_a_program_that_replayed_all_its_turns_and_ended_is_not_continued(store):
    def stumble():
        with store.open("shop") as s:
            with s.turn("one"):
                pass
            raise LookupError("between turns")

    with pytest.raises(LookupError):
        stumble()
    with store.open("shop") as s, s.turn("one") as t:
        assert t.reused
    with store.open("shop") as s, s.turn("one") as t:
        assert (t.number, t.reused) == (2, False)
