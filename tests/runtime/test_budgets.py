"""Budgets: spend of a session and its tree, limits that apply, and raising them."""

from __future__ import annotations

import msgspec
import pytest

from stator.errors import BadBudget, HeadMoved, InvalidInput, WrongState
from stator.model.calls.budget import Breach, parse_amounts
from stator.model.log.commit import Draft, Upsert
from stator.model.log.query import Head
from stator.model.records.types import Parent
from stator.runtime.driving import budgets

ANN = "local:ann"


def spend(store, name, tokens, **options):
    """A session of one turn with one call that used some tokens."""
    with store.open(name, **options) as s, s.turn("go") as t:
        t.call(len, "abc")
        t.say("done", usage={"tokens": tokens, "money:usd": tokens * 3})
    return s.id


def child(store, parent, name, tokens, budget=None):
    """A session started as the child of another."""
    record = store.port.session(parent).record
    head = store.port.head(parent)
    mine = msgspec.structs.replace(
        record,
        id=store.context.mint("session"),
        name=name,
        status="open",
        reason="",
        budget=budget or {},
        parent=Parent(session=parent, seq=head.seq, hash=head.hash, kind="child"),
    )
    opening = Draft(
        id=store.context.mint("commit"),
        session=mine.id,
        kind="open",
        key="5e" * 16,
        actor="system",
        changes=(Upsert("session", mine),),
    )
    store.port.create([opening])
    return spend(store, name, tokens)


def change(store, session, *words):
    return budgets.change(store.port, store.context, session, parse_amounts(words), by=ANN)


def test_spend_is_the_usage_of_all_commits_and_the_number_of_calls_and_turns(either):
    session = spend(either, "a", 100)
    spend(either, "a", 20)
    assert budgets.spent(either.port, session) == {
        "tokens": 120, "money:usd": 360, "calls": 2, "turns": 2,
    }  # fmt: skip


def test_the_spend_of_a_tree_includes_all_descendants(either):
    top = spend(either, "top", 100)
    below = child(either, top, "below", 10)
    child(either, below, "deep", 1)
    spend(either, "aside", 5000)
    assert budgets.spent_tree(either.port, top)["tokens"] == 111
    assert budgets.spent_tree(either.port, top)["turns"] == 3
    assert budgets.spent_tree(either.port, below)["tokens"] == 11
    assert budgets.spent(either.port, top)["tokens"] == 100


def test_forked_spending_is_counted_once(either):
    trunk = spend(either, "trunk", 100)
    fork = either.fork("trunk", as_name="fork").id
    assert budgets.spent(either.port, fork) == {"calls": 0, "turns": 0}
    spend(either, "fork", 7)
    assert budgets.spent(either.port, fork) == {
        "tokens": 7, "money:usd": 21, "calls": 1, "turns": 1,
    }  # fmt: skip
    assert budgets.spent_tree(either.port, trunk)["tokens"] == 100


def test_a_limit_applies_to_the_session_and_all_its_descendants(either):
    top = spend(either, "top", 90, budget={"tokens": 100})
    below = child(either, top, "below", 5, budget={"turns": 9})
    deep = child(either, below, "deep", 1)
    held = [limit.session for limit in budgets.limits(either.port, deep)]
    assert held == [below, top]
    assert budgets.check(either.port, deep) is None
    spend(either, "deep", 4)
    assert budgets.check(either.port, deep) == Breach("tokens", 100, 100, top)
    assert budgets.check(either.port, top) == Breach("tokens", 100, 100, top)


def test_running_spend_counts_before_it_is_recorded(either):
    session = spend(either, "a", 1, budget={"seconds": 60})
    assert budgets.check(either.port, session, running={"seconds": 59}) is None
    found = budgets.check(either.port, session, running={"seconds": 60})
    assert found == Breach("seconds", 60, 60, session)


def test_a_fork_does_not_inherit_the_limits_of_its_parent(either):
    spend(either, "trunk", 100, budget={"tokens": 100})
    fork = either.fork("trunk", as_name="fork")
    assert budgets.limits(either.port, fork.id) == []
    assert budgets.check(either.port, fork.id) is None


def test_a_limit_can_be_raised_while_the_session_is_driven(either):
    with either.open("a", budget={"tokens": 10}) as s, s.turn("go") as t:
        t.say("x", usage={"tokens": 10})
        assert budgets.check(either.port, s.id) is not None
        assert change(either, s.id, "+5k", "tokens", "3", "turns") == {"tokens": 5010, "turns": 3}
        assert budgets.check(either.port, s.id) is None
        t.say("and on", usage={"tokens": 1})
    assert s.record.budget == {"tokens": 5010, "turns": 3}
    commit = next(c for c in s.log() if c.kind == "budget")
    assert (commit.value("principal"), commit.epoch) == (ANN, 0)


def test_a_change_without_effect_is_not_recorded(either):
    session = spend(either, "a", 1, budget={"tokens": 10})
    head = either.port.head(session)
    assert change(either, session, "10", "tokens") == {"tokens": 10}
    assert either.port.head(session) == head


def test_the_last_limit_can_be_removed(either):
    session = spend(either, "a", 1, budget={"tokens": 10})
    assert change(either, session, "tokens=none") == {}
    assert either.port.session(session).record.budget == {}


def test_the_budget_of_a_closed_session_cannot_be_changed(either):
    session = spend(either, "a", 1)
    either.open("a").close()
    with pytest.raises(WrongState):
        change(either, session, "10 tokens")


class Moving:
    """A store in which another writer appends first, for a number of times."""

    def __init__(self, store, times):
        self._store = store
        self.times = times

    def __getattr__(self, name):
        return getattr(self._store, name)

    def head(self, session):
        head = self._store.head(session)
        if self.times:
            self.times -= 1
            return Head(head.seq, "0" * 64, head.turn)
        return head


def test_a_change_is_retried_when_the_session_changed(either):
    session = spend(either, "a", 1)
    amounts = parse_amounts(["+5", "tokens"])
    busy = Moving(either.port, 3)
    assert budgets.change(busy, either.context, session, amounts, by=ANN) == {"tokens": 6}
    with pytest.raises(HeadMoved):
        budgets.change(Moving(either.port, 10**6), either.context, session, amounts, by=ANN)


def test_a_bad_limit_never_reaches_the_log(either):
    session = spend(either, "a", 1)
    record = either.port.session(session).record
    contributor = either.contribute(session)
    for budget in ({"tokens": 0}, {"apples": 1}):
        bad = msgspec.structs.replace(record, budget=budget)
        with pytest.raises(BadBudget):
            contributor._submit(contributor._draft("budget", changes=(Upsert("session", bad),)))
    with pytest.raises(InvalidInput):
        contributor._submit(contributor._draft("budget"))


@pytest.mark.parametrize(
    ("budget", "more"), [({"money:usd": 2_000_000}, "+2usd"), ({"tokens": 5}, "tokens=…")]
)
def test_the_error_of_a_spent_budget_names_how_to_raise_it(either, budget, more):
    session = spend(either, "a", 1_000_000, budget=budget)
    found = budgets.check(either.port, session)
    assert found is not None
    error = budgets.spent_up(either.port, found)
    assert error.breach is found
    assert more in error.hint
    assert "'a' has used up its budget" in error.what
