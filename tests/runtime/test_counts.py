"""The counts of a session are those of its state, however the session came about."""

from __future__ import annotations

from typing import Any

import pytest

import stator


def check(view: Any) -> None:
    """The live counts equal the number of records in the state, collection by collection."""
    held = {name: len(records) for name, records in view.state().items() if records}
    assert view.counts.live == held


def two_turns(store: Any, name: str = "main") -> None:
    with store.open(name) as s:
        with s.turn("one") as t:
            t.fact("n", 1)
            t.pend("p")
            t.pend("q")
            t.decide("a", topic="t")
        with s.turn("two") as t:
            t.fact("m", 2)
            t.pend("p", done=True)


def change(store: Any, name: str) -> None:
    """Change, drop and add records that a fork inherited."""
    with store.open(name) as s, s.turn("on") as t:
        t.fact("n", 2)
        t.pend("q", done=True)
        t.decide("b", topic="t")
        t.fact("own", 3)
        check(s)


@pytest.mark.parametrize("at", ["head", "t1"])
def test_a_fork_counts_what_its_state_holds(either, at):
    two_turns(either)
    check(either.fork("main", at, as_name="fork"))


def test_a_fork_that_changed_what_it_inherited_counts_what_its_state_holds(either):
    two_turns(either)
    either.fork("main", "t1", as_name="fork")
    change(either, "fork")
    check(either.read("fork"))


def test_a_fork_of_a_fork_counts_what_its_state_holds(either):
    two_turns(either)
    either.fork("main", "t1", as_name="fork")
    change(either, "fork")
    check(either.fork("fork", "head", as_name="second"))


def test_a_retry_counts_what_its_state_holds_before_and_after_it_is_adopted(either):
    two_turns(either)
    with either.open("main") as s:
        with s.retry("t2") as t:
            t.fact("again", 4)
            check(t.session)
        s.adopt("t2.2")
        check(s)
    check(either.read(t.session.id))


def test_a_rewound_session_counts_what_its_state_holds(either):
    two_turns(either)
    either.contribute("main").rewind("t1")
    check(either.read("main"))


def test_a_fork_counts_the_same_after_a_rebuild(either):
    two_turns(either)
    either.fork("main", "t1", as_name="fork")
    change(either, "fork")
    either.port.rebuild()
    check(either.read("fork"))


def test_a_fork_of_a_session_that_an_import_moved_on_counts_what_its_state_holds(tmp_path):
    here, there = (
        stator.connect(tmp_path / name, project="shop") for name in ("here.db", "there.db")
    )
    with here, there:
        two_turns(here)
        here.export(["main"], tmp_path / "one.stator")
        there.import_bundle(tmp_path / "one.stator")
        with there.open("main") as s, s.turn("three") as t:
            t.fact("there", 3)
        there.export(["main"], tmp_path / "two.stator")
        here.import_bundle(tmp_path / "two.stator")
        here.fork("main", "head", as_name="fork")
        check(here.read("main"))
        check(here.read("fork"))
