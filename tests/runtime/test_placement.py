"""Where a recorded session hangs: at the call that started it, never at where its parent's log happened to end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import stator
from stator.model.exchange.items import (
    Answered,
    Called,
    Conversation,
    Noted,
    Prompted,
    Returned,
    Spawned,
    TurnEnded,
)
from stator.runtime.facade.view import SessionView
from stator.runtime.ingest.placement import fork_point, hangs_at, is_ready, parent_of, root_of
from stator.runtime.ingest.recorder import Recorder

PARENT = Conversation(source="claude-code", id="parent")
NAMING = Conversation(source="claude-code", id="child", parent="parent", parent_call="call_2")
SILENT = Conversation(source="claude-code", id="child", parent="parent")
"""A child whose own file does not say which call started it."""
LOG = [
    Prompted(id="p1", at=10, content="one"),
    Called(id="call_1", at=20, tool="Read", effect="read"),
    Returned(id="call_1", at=30, output="x"),
    TurnEnded(at=40),
    Prompted(id="p2", at=50, content="two"),
    Called(id="call_2", at=60, tool="Task"),
    Noted(id="n1", at=65, content="working"),
    Spawned(id="s", at=70, child="child", call="call_2"),
    Returned(id="call_2", at=80, output="found"),
    TurnEnded(at=90),
    Prompted(id="p3", at=100, content="three"),
]
BEGAN = 62


@pytest.fixture
def store():
    with stator.connect("memory:") as opened:
        yield opened


def recorded(store, items, conversation=PARENT):
    recorder = Recorder(store.port, store.context, conversation)
    for item in items:
        recorder.take(item)
    recorder.flush()
    return SessionView(store.port, recorder.session)


def intent(view, tool="Task"):
    return next(
        commit.seq for commit in view.log() if commit.kind == "call" and commit.tool == tool
    )


def turn(view, number):
    return view.turns()[number - 1].first


@given(st.integers(0, 50), st.integers(0, 50))
def test_a_child_that_need_not_wait_gets_the_place_it_has_when_all_is_known(call, turn):
    early = hangs_at(call, 0, at_rest=False)
    assert early in (0, hangs_at(call, turn, at_rest=True))


@given(st.integers(0, 50))
def test_every_child_of_a_parent_at_rest_has_a_place(turn):
    assert hangs_at(0, turn, at_rest=True) == (turn or 1)


@pytest.mark.parametrize("child", [NAMING, SILENT], ids=["the child", "the parent"])
def test_a_child_hangs_at_its_call_whoever_names_it(store, child):
    view = recorded(store, LOG)
    parent = parent_of(store.port, child, began=BEGAN)
    assert parent is not None
    assert (parent.seq, parent.kind) == (intent(view), "child")


@pytest.mark.parametrize("child", [NAMING, SILENT], ids=["the child", "the parent"])
@pytest.mark.parametrize("read", range(1, len(LOG) + 1))
def test_a_child_that_is_ready_hangs_where_it_does_after_a_whole_read(child, read):
    with stator.connect("memory:") as store, stator.connect("memory:") as whole:
        recorded(store, LOG[:read])
        recorded(whole, LOG)
        if is_ready(store.port, child, at_rest=False):
            early = parent_of(store.port, child, began=BEGAN)
            late = parent_of(whole.port, child, began=BEGAN)
            assert early is not None
            assert late is not None
            assert early.seq == late.seq


def test_a_child_waits_while_its_parents_call_is_held_back(store):
    recorded(store, LOG[:5])
    assert not is_ready(store.port, NAMING, at_rest=False)
    recorded(store, LOG[:6])
    assert is_ready(store.port, NAMING, at_rest=False)


def test_a_child_waits_for_a_parent_that_is_not_recorded_yet(store):
    assert not is_ready(store.port, NAMING, at_rest=False)
    assert is_ready(store.port, PARENT, at_rest=False)


def test_a_child_whose_call_is_never_named_hangs_at_the_turn_in_which_it_began(store):
    view = recorded(store, [item for item in LOG if not isinstance(item, Spawned)])
    assert not is_ready(store.port, SILENT, at_rest=False)
    assert is_ready(store.port, SILENT, at_rest=True)
    parent = parent_of(store.port, SILENT, began=BEGAN)
    assert parent is not None
    assert parent.seq == turn(view, 2)


def test_a_child_of_a_parent_without_turns_hangs_at_the_beginning(store):
    recorded(store, [Noted(id="n0", at=5, content="hello")])
    parent = parent_of(store.port, SILENT, began=BEGAN)
    assert parent is not None
    assert parent.seq == 1


def test_a_recorded_child_hangs_at_the_call(store):
    view = recorded(store, LOG)
    child = recorded(store, [Prompted(id="q1", at=BEGAN, content="look")], NAMING)
    assert child.record.parent.seq == intent(view)


def test_a_child_of_a_fork_finds_the_call_that_the_fork_inherited(store):
    view = recorded(store, LOG[:9])
    ids = frozenset({"p1", "call_1", "p2", "call_2", "n1"})
    fork = Conversation(source="claude-code", id="fork", fork_of="parent", fork_ids=ids)
    recorded(store, [*LOG[:9], Prompted(id="p9", at=99, content="another way")], fork)
    child = Conversation(source="claude-code", id="c", parent="fork", parent_call="call_2")
    parent = parent_of(store.port, child, began=BEGAN)
    assert parent is not None
    assert parent.seq == intent(view)


@pytest.mark.parametrize("read", range(1, len(LOG) + 1))
def test_a_fork_that_is_ready_begins_where_it_does_after_a_whole_read(read):
    ids = frozenset({"p1", "call_1", "p2"})
    fork = Conversation(source="claude-code", id="fork", fork_of="parent", fork_ids=ids)
    with stator.connect("memory:") as store, stator.connect("memory:") as whole:
        recorded(store, LOG[:read])
        recorded(whole, LOG)
        if is_ready(store.port, fork, at_rest=False):
            assert fork_point(store.port, fork) == fork_point(whole.port, fork)


def test_a_fork_waits_until_its_parent_is_past_what_they_share(store):
    fork = Conversation(source="claude-code", id="f", fork_of="parent", fork_ids=frozenset({"p1"}))
    recorded(store, LOG[:1])
    assert not is_ready(store.port, fork, at_rest=False)
    assert is_ready(store.port, fork, at_rest=True)
    recorded(store, [*LOG[:1], Answered(id="a1", at=15, reply="yes")])
    assert not is_ready(store.port, fork, at_rest=False)
    recorded(store, LOG[:5])
    assert is_ready(store.port, fork, at_rest=False)


@pytest.mark.parametrize(
    ("project", "cwd", "root"),
    [
        ("shop", "/srv/shop", "/srv/shop"),
        ("shop", "/srv/shop/src", "/srv/shop"),
        ("shop", "", "/srv/shop"),
        ("shop", "/srv/shopping", ""),
        ("shop", "/home/dev/other", ""),
        ("other", "/srv/shop", ""),
        ("other", "", ""),
    ],
)
def test_paths_are_relative_only_where_the_agent_worked_in_the_project(store, project, cwd, root):
    here = replace(store.context, project="shop", root="/srv/shop")
    assert root_of(here, project, Conversation(source="x", id="1", cwd=cwd)) == root


def test_a_session_of_an_earlier_release_keeps_the_root_it_began_with(store):
    here = replace(store.context, project="shop", root="/srv/shop")
    away = Conversation(source="x", id="1", cwd="/home/dev/other")
    assert root_of(here, "shop", away, is_old=True) == "/home/dev/other"
