"""Forks share the log of their parent up to the fork point and have their own after it."""

from __future__ import annotations

import os

import apsw
import pytest

from stator.errors import Conflict, InvalidInput, NotFound
from stator.runtime.views.verify import verify


@pytest.fixture
def parent(store):
    with store.open("a", budget={"tokens": 100}) as session:
        for number in (1, 2, 3):
            with session.turn(f"turn {number}") as t:
                t.fact("n", number)
                t.say("ok", usage={"tokens": 10})
        yield session


def test_a_fork_has_its_parents_log_up_to_the_fork(store, parent):
    fork = store.fork("a", "t2", as_name="b")
    shared = [commit.hash for commit in parent.log("t0..t2")]
    assert [commit.hash for commit in fork.log()][: len(shared)] == shared
    assert fork.facts() == {"n": 2}
    assert fork.record.parent.kind == "fork"


def test_a_fork_continues_the_hash_chain_of_its_parent(store, parent):
    fork = store.fork("a", "t2")
    first = next(commit for commit in fork.log() if commit.session == fork.id)
    assert first.prev == parent.commit("t2").hash
    assert first.seq == parent.at("t2").seq + 1
    assert list(verify(store.port, fork.id)) == []


def test_seqs_and_turn_numbers_continue_in_a_fork(store, parent):
    store.fork("a", "t2", as_name="b")
    with store.open("b") as fork, fork.turn("another third") as t:
        assert t.number == 3
        t.fact("n", 33)
    assert parent.facts() == {"n": 3}
    assert fork.facts() == {"n": 33}


def test_a_fork_starts_with_nothing_spent_and_no_budget(store, parent):
    fork = store.fork("a")
    state = fork.state(collections=["spend", "runs", "approvals"])
    assert not any(state.values())
    assert fork.record.budget == {}


def test_a_fork_of_a_fork_reads_both_parents(store, parent):
    store.fork("a", "t2", as_name="b")
    with store.open("b") as b, b.turn("in b") as t:
        t.fact("b", 1)
    c = store.fork("b", as_name="c")
    assert c.facts() == {"n": 2, "b": 1}
    assert [commit.seq for commit in c.log()] == list(range(1, c.head.seq + 1))
    assert [part.session for part in c.record.lineage] == [parent.id, b.id]


def test_a_fork_at_an_inherited_position_forks_the_grandparent(store, parent):
    store.fork("a", "t2", as_name="b")
    c = store.fork("b", "t1", as_name="c")
    assert c.facts() == {"n": 1}
    assert [part.session for part in c.record.lineage] == [parent.id]


def test_a_fork_without_a_name_is_named_after_its_parent(store, parent):
    assert store.fork("a").name.startswith("a~")
    assert store.read(parent.fork("t1", name="mine")).name == "mine"


def test_forking_before_the_first_commit_is_refused(store, parent):
    with pytest.raises(InvalidInput, match="t0"):
        store.fork("a", "t0")
    with pytest.raises(NotFound):
        store.fork("a", "t9")


def test_open_calls_of_the_parent_are_marked_as_elsewhere_in_the_fork(store, parent):
    def slow():
        fork = store.fork("a", as_name="during")
        (call,) = fork.state(collections=["calls"])["calls"].values()
        return call.elsewhere

    with parent.turn("four") as t:
        assert t.call(slow) is True
    assert store.read("during").status == "open"


def test_a_diff_across_sessions_starts_at_their_last_common_commit(store, parent):
    store.fork("a", "t2", as_name="b")
    with store.open("b") as fork, fork.turn("differently") as t:
        t.fact("m", 1)
    diff = parent.diff("t3", "b:head")
    found = {(item.key, item.change) for item in diff.of("facts")}
    assert found == {("m", "added"), ("n", "changed")}


def test_a_retry_is_addressed_by_its_turn(store, parent):
    retry = store.fork("a", "t2", kind="retry")
    with store.open(retry.name) as again, again.turn("turn 3 again") as t:
        t.fact("n", 333)
    point = parent.at("t3.2")
    assert point.session == retry.id
    assert parent.at("t3.1").session == parent.id
    assert store.read(retry.id).state("t3", collections=["facts"]) != parent.state(
        "t3", collections=["facts"]
    )
    with pytest.raises(NotFound, match="no retry 3"):
        parent.at("t3.3")


# -- what a fork costs ----------------------------------------------------------------------------


def rows_and_bytes(store):
    """The rows of every table, and the size of the file after a checkpoint."""
    path = store.info().url.removeprefix("sqlite:///")
    db = apsw.Connection(path)
    try:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        names = [
            name
            for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if not name.startswith("sqlite_")
        ]
        rows = {name: len(list(db.execute(f'SELECT 1 FROM "{name}"'))) for name in names}
        return rows, os.path.getsize(path)
    finally:
        db.close()


def cost_of_forks(store, name, count=50):
    before, size = rows_and_bytes(store)
    for _ in range(count):
        store.fork(name)
    after, grown = rows_and_bytes(store)
    return {table: after[table] - before[table] for table in after}, (grown - size) / count


def test_the_cost_of_a_fork_does_not_depend_on_the_length_of_the_session(store):
    for name, turns in (("short", 2), ("long", 200)):
        with store.open(name) as s:
            for number in range(turns):
                with s.turn(f"turn {number}") as t:
                    t.fact(f"fact {number}", "x" * 500)
                    t.say("y" * 1000, usage={"seconds": 1})
    short, short_bytes = cost_of_forks(store, "short")
    long, long_bytes = cost_of_forks(store, "long")
    assert short == long
    assert short_bytes <= 4096
    assert long_bytes <= 4096


@pytest.mark.parametrize("how", ["close", "archive"])
def test_a_closed_or_archived_session_can_be_forked(store, parent, how):
    parent.close()
    if how == "archive":
        store.contribute("a").archive()
    store.fork("a", as_name="b")
    with store.open("b") as fork, fork.turn("on") as t:
        t.fact("n", 4)
    assert fork.facts() == {"n": 4}


def test_a_fork_with_a_used_name_is_a_conflict(store, parent):
    store.fork("a", as_name="b")
    with pytest.raises(Conflict, match="'b'"):
        store.fork("a", as_name="b")


def test_a_fork_lists_an_evicted_key_that_its_parent_erased_later(memory):
    with memory.open("parent") as s:
        for n in range(3):
            with s.turn(f"turn {n}") as t:
                t.note("scratch", n)
                t.say(f"answer {n}")
                t.say("and more")
        s.compact(keep=1, scratch=True, summary="short")
        fork = s.fork()
        s.erase("@4")
        s.erase("@5")
    assert {key.status for key in memory.read(fork).evicted()} >= {"erased"}
