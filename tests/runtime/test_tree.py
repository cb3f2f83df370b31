"""The tree of sessions: parents, children and usage, with each turn counted once."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.conftest import memory_store
from runtime.exchange_fixtures import purge
from stator.model.views.tree import Branch, drawn, in_order
from stator.runtime.views.tree import project_tree


def spend(s, tokens=10):
    with s.turn("go") as t:
        t.say("ok", usage={"tokens": tokens})
        return t


@pytest.fixture
def family(either):
    """A session with a child, a fork that has a fork, and an adopted retry."""
    with either.open("main") as s:
        spend(s)
        with s.turn("two") as t:
            t.say("ok", usage={"tokens": 10})
            with s.child("research") as c:
                spend(c, 5)
        fork = s.fork("t1", name="fork")
        with s.retry("t2", effects="run") as t:
            t.say("again", usage={"tokens": 7})
        s.adopt("t2.2")
    with either.open(fork) as f:
        spend(f, 3)
        f.fork(name="fork of fork")
        f.rewind("t1")
    return s


def test_the_tree_is_the_same_from_any_of_its_sessions(either, family):
    names = [branch.name for branch in family.tree().branches]
    assert sorted(names) == ["fork", "fork of fork", "main", "main/research", "main~t2.2"]
    assert [branch.name for branch in either.read("fork of fork").tree().branches] == names
    assert names[0] == "main"


def test_shared_turns_are_counted_once_in_the_usage(family):
    """Every turn once: 10 + 10 + 5 (child) + 7 (retry) + 3 (fork)."""
    total = family.tree().total
    assert total["tokens"] == 35
    assert total["turns"] == 5


def test_a_branch_names_its_kind_and_its_starting_turn(family):
    found = {branch.name: branch for branch in family.tree().branches}
    assert (found["fork"].kind, found["fork"].turn) == ("fork", 1)
    assert (found["main~t2.2"].kind, found["main~t2.2"].turn) == ("retry", 2)
    assert found["main/research"].kind == "child"
    assert found["main~t2.2"].goes_on
    assert found["main"].adopted == found["main~t2.2"].id
    assert (found["fork"].rewound, found["fork of fork"].rewound) == (1, 0)
    assert [found[name].turns for name in ("main", "fork", "fork of fork")] == [2, 1, 0]


def test_a_tree_of_many_sessions_is_bounded(memory):
    with memory.open("main") as s:
        spend(s)
        for _ in range(30):
            s.fork()
        cut = s.tree(limit=10)
        assert (len(cut.branches), cut.more) == (10, True)
        assert (len(s.tree().branches), s.tree().more) == (31, False)
    assert project_tree(memory.port, "shop", limit=5).more


def test_relatives_above_the_limit_are_left_out_and_others_are_counted(memory):
    with memory.open("alone") as s:
        spend(s)
    with memory.open("main") as s:
        spend(s)
        for _ in range(30):
            s.fork()
    found = project_tree(memory.port, "shop", limit=5, alone=False)
    assert (len(found.branches), found.more, found.alone) == (5, True, 1)


def test_the_tree_of_a_project_has_several_roots(either, family):
    with either.open("alone") as s:
        spend(s)
    found = project_tree(either.port, "shop")
    assert {branch.name for branch in found.branches if not branch.parent} == {"main", "alone"}
    assert found.total["tokens"] == 45


KINDS = ["turn", "fork", "retry", "child", "rewind"]
acts = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 99)), max_size=12)


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(acts)
def test_the_total_usage_is_right_for_any_branches(acts):
    store = memory_store()
    used = 0
    with store.open("s0") as s:
        spend(s, 1)
        used += 1
    sessions = [s.id]
    for number, (act, pick) in enumerate(acts, 1):
        chosen = sessions[pick % len(sessions)]
        with store.open(chosen) as s:
            if act == "fork":
                sessions.append(s.fork(name=f"f{number}"))
            elif act == "rewind":
                s.rewind("t0")
            elif act == "retry":
                with s.retry("t1") as t:
                    t.say("again", usage={"tokens": number})
                sessions.append(t.session.id)
                used += number
            elif act == "child":
                with s.turn("with help") as t, s.child(f"c{number}") as c:
                    spend(c, number)
                    used += number
                sessions.append(c.id)
            else:
                spend(s, number)
                used += number
    assert store.read("s0").tree().total["tokens"] == used


# -- drawing --------------------------------------------------------------------------------------


def branch(name, parent="", seq=0):
    return Branch(id=name, name=name, status="paused", parent=parent, seq=seq)


def test_the_drawn_tree_connects_every_branch():
    branches = [
        branch("a"),
        branch("b", "a", 1),
        branch("c", "b", 2),
        branch("d", "a", 3),
        branch("e"),
    ]
    assert [lead + found.name for lead, found in drawn(branches)] == [
        "a",
        "├─ b",
        "│  └─ c",
        "└─ d",
        "e",
    ]


def test_a_chain_of_3000_forks_can_be_ordered():
    branches = [branch("0"), *(branch(str(n), str(n - 1)) for n in range(1, 3000))]
    assert [found.id for found in in_order(branches)] == [str(n) for n in range(3000)]


def test_a_branch_without_its_parent_is_drawn_as_a_root():
    assert [lead for lead, _ in drawn([branch("b", "gone")])] == [""]


def test_a_sub_agent_without_a_session_here_is_named_with_the_one_that_tells_of_it(either):
    with either.open("parent", agent="coder") as s:
        with s.turn("delegate"), s.child("helper") as child, child.turn("help") as inner:
            inner.say("done")
        helper = child.id
    assert either.read("parent").tree().unrecorded == []
    purge(either, helper)
    (one,) = either.read("parent").tree().unrecorded
    assert (one.session, one.name, one.parent) == (helper, "helper", s.id)
    assert project_tree(either.port, None).unrecorded == [one]
