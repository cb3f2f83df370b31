"""Reading a session: log, state and diff at any position, files and reasons."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stator
from runtime.conftest import memory_store
from stator.model.log.fold import apply, fold
from stator.model.records.tables import empty


@pytest.fixture
def session(memory):
    with memory.open("a", agent="coder") as opened:
        yield opened


@stator.tool(effect="read")
def read_file(path):
    return f"content of {path}"


def changes(diff, collection):
    return [(item.key, item.change) for item in diff.of(collection)]


# -- the log ------------------------------------------------------------------------------------------


def test_the_log_can_be_read_in_order_or_newest_first_with_a_limit(session):
    with session.turn("one") as t:
        t.fact("n", 1)
    seqs = [commit.seq for commit in session.log()]
    assert seqs == list(range(1, len(seqs) + 1))
    assert [c.seq for c in session.log(newest_first=True, limit=2)] == seqs[:-3:-1]


def test_the_log_can_be_read_by_turn_or_range(session):
    for n in range(3):
        with session.turn(f"turn {n}") as t:
            t.fact("n", n)
    assert {commit.turn for commit in session.log("t2")} == {2}
    assert {commit.turn for commit in session.log("t1..t3")} == {2, 3}
    assert [commit.seq for commit in session.log("@2..@4")] == [3, 4]


def test_a_long_log_is_read_page_by_page(store):
    with store.open("long") as session, session.turn("one") as t, t.batch():
        for n in range(2100):
            t.note("n", n)
    assert sum(1 for _ in session.log()) == session.head.seq
    assert sum(1 for _ in session.log(newest_first=True)) == session.head.seq


def test_counts_give_the_number_of_commits_turns_and_calls(session):
    with session.turn("one") as t:
        t.call(read_file, path="a.py")
        t.try_call(lambda: 1 / 0)
    counts = session.counts
    assert (counts.commits, counts.turns, counts.calls, counts.failed) == (
        session.head.seq,
        1,
        2,
        1,
    )


# -- state --------------------------------------------------------------------------------------------


def test_the_state_at_a_position_equals_the_folded_log_up_to_it(session):
    for n in range(3):
        with session.turn(f"turn {n}") as t:
            t.fact("n", n)
            t.decide(f"choice {n}", topic="x")
    for ref in ("t0", "t1", "@5", "t2", "head"):
        upto = session.at(ref).seq
        folded = fold(commit.delta for commit in session.log() if commit.seq <= upto)
        assert session.state(ref) == folded


def test_the_state_can_be_limited_to_some_collections(session):
    with session.turn("one") as t:
        t.fact("n", 1)
    assert session.state(collections=["facts", "plan"]).keys() == {"facts", "plan"}


def test_the_hot_state_has_the_plan_but_no_facts(session):
    with session.turn("one") as t:
        t.plan("x")
        t.fact("n", 1)
    hot = session.hot()
    assert [entry.record.step for entry in hot["plan"]] == ["x"]
    assert "facts" not in hot


def test_entries_are_listed_last_changed_first(session):
    with session.turn("one") as t:
        for name in ("a", "b", "a"):
            t.fact(name, 1)
    assert [entry.key for entry in session.entries("facts")] == ["a", "b"]
    assert [entry.key for entry in session.entries("facts", limit=1)] == ["a"]


# -- diff ---------------------------------------------------------------------------------------------


def test_the_default_diff_is_that_of_the_last_turn(session):
    with session.turn("one") as t:
        t.fact("a", 1)
    with session.turn("two") as t:
        t.fact("b", 2)
    assert changes(session.diff(), "facts") == [("b", "added")]
    assert changes(session.diff("t1"), "facts") == [("a", "added")]
    assert changes(session.diff("t0..t2"), "facts") == [("a", "added"), ("b", "added")]
    assert changes(session.diff("t0", "t2"), "facts") == [("a", "added"), ("b", "added")]


def test_the_diff_of_a_session_without_turns_shows_its_state(session):
    assert session.diff().of("session")


def test_a_diff_item_has_before_after_reason_and_commit(session):
    with session.turn("one") as t:
        t.fact("n", 1)
    with session.turn("two") as t:
        made = t.fact("n", 2, why="counted again")
    (item,) = session.diff().of("facts")
    assert (item.change, item.before.value, item.after.value) == ("changed", 1, 2)
    assert (item.why, item.turn, session.commit(f"@{item.seq}").id) == ("counted again", 2, made)


def test_a_decision_superseded_twice_is_one_item_with_the_step_between(session):
    for number, what in enumerate("XYZ", 1):
        with session.turn(f"turn {number}") as t:
            t.decide(what, topic="db", why=f"because {what}")
    (item,) = session.diff("t1..t3").of("decisions")
    assert (item.change, item.before.what, item.after.what) == ("superseded", "X", "Z")
    assert [step.record.what for step in item.via] == ["Y"]
    assert item.why == "because Z"


def test_a_diff_can_go_backwards(session):
    with session.turn("one") as t:
        t.fact("n", 1)
    with session.turn("two") as t:
        t.fact("n", 2)
        t.fact("m", 1)
    back = session.diff("t2", "t1")
    assert set(changes(back, "facts")) == {("m", "removed"), ("n", "changed")}


def test_a_diff_lists_the_calls_of_its_range(session):
    with session.turn("one") as t:
        t.call(read_file, path="a.py")
    with session.turn("two") as t:
        t.try_call(lambda: 1 / 0)
    (call,) = session.diff().calls
    assert (call.status, call.cause, call.turn) == ("error", "ZeroDivisionError", 2)


def test_an_empty_range_has_an_empty_diff(session):
    assert not session.diff("head..head")


def test_files_that_were_only_read_are_counted_and_not_listed(session):
    with session.turn("one") as t:
        t.file("a.py", "read", after="1")
        t.file("b.py", "modified", after="2")
    diff = session.diff()
    assert (changes(diff, "files"), diff.read) == ([("b.py", "changed")], 1)


def forked(memory, session):
    """Fork a session and then edit files in it."""
    with session.turn("one") as t:
        t.fact("n", 1)
    memory.fork("a", as_name="b")
    with session.turn("two") as t:
        t.file("new.py", "created", after="1")
        t.file("new.py", "modified", after="2")
        t.file("gone.py", "created", after="1")
        t.file("gone.py", "deleted")
        t.file("seen.py", "read", after="1")


def test_a_diff_between_sessions_folds_files_like_a_range(memory, session):
    forked(memory, session)
    diff = session.diff("b:head", "a:head")
    assert (changes(diff, "files"), diff.read) == ([("new.py", "added")], 1)


def test_a_backward_diff_folds_files_like_a_range(memory, session):
    forked(memory, session)
    assert changes(session.diff("t2", "t1"), "files") == [("new.py", "removed")]


# -- any edits, any two positions ---------------------------------------------------------------------

NAMES = st.sampled_from("abc")
EDITS = st.one_of(
    st.tuples(st.just("fact"), NAMES, st.integers(0, 3)),
    st.tuples(st.just("decide"), st.sampled_from(["a", "b", ""]), st.integers(0, 3)),
    st.tuples(st.just("plan"), NAMES, st.sampled_from(["pending", "done"])),
    st.tuples(st.just("pend"), NAMES, st.booleans()),
    st.tuples(st.just("file"), NAMES, st.sampled_from(["created", "modified", "deleted"])),
    st.tuples(st.just("set"), NAMES, st.integers(0, 3)),
    st.tuples(st.just("call"), st.booleans(), st.none()),
    st.tuples(st.just("turn"), st.none(), st.none()),
)


class Editor:
    """Performs random edits, skipping those that are not valid at that moment."""

    def __init__(self, session):
        self.session = session
        self.turn = session.turn("first")

    def edit(self, kind, key, value):
        if kind == "turn":
            self.turn.end()
            self.turn = self.session.turn("next")
        elif kind == "fact":
            self.turn.fact(key, value)
        elif kind == "decide":
            self.turn.decide(f"choice {value}", topic=key)
        elif kind == "plan":
            self.turn.plan(key, value)
        elif kind == "pend":
            pending = {entry.key for entry in self.session.entries("pending")}
            if not value or key in pending:
                self.turn.pend(key, done=value)
        elif kind == "file":
            self.turn.file(key, value, after="" if value == "deleted" else f"{key}{value}")
        elif kind == "set":
            self.turn.set(**{key: value})
        elif kind == "call":
            self.turn.try_call((lambda: 1) if key else (lambda: 1 / 0))


def applied(view, diff, state):
    """A state with the diff's delta applied to it."""
    return apply({name: dict(records) for name, records in state.items()}, diff.delta)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EDITS, max_size=25), st.data())
def test_a_diff_applied_to_the_state_it_starts_from_gives_the_state_it_ends_at(edits, data):
    memory = memory_store()
    with memory.open("a") as session:
        editor = Editor(session)
        for edit in edits:
            editor.edit(*edit)
        head = session.head.seq
        a, b = (data.draw(st.integers(0, head), label=label) for label in ("from", "to"))
        diff = session.diff(f"@{a}", f"@{b}")
        assert applied(session, diff, session.state(f"@{a}")) == session.state(f"@{b}")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EDITS, max_size=8), st.lists(EDITS, max_size=8), st.lists(EDITS, max_size=8))
def test_a_diff_between_forks_applied_to_one_gives_the_other(trunk, left, right):
    memory = memory_store()
    with memory.open("a") as session:
        editor = Editor(session)
        for edit in trunk:
            editor.edit(*edit)
        editor.turn.end()
        other = memory.fork("a", as_name="b")
        with memory.open("b") as fork:
            second = Editor(fork)
            for edit in right:
                second.edit(*edit)
            second.turn.end()
        editor.turn = session.turn("goes on")
        for edit in left:
            editor.edit(*edit)
        diff = session.diff("head", f"{other.id}:head")
        expected = memory.read(other.id).state()
        assert applied(session, diff, session.state()) == expected


def test_an_empty_state_has_every_collection(session):
    assert session.state("t0") == empty()


# -- files and reasons --------------------------------------------------------------------------------


def test_files_of_the_last_turns_show_their_net_change(session):
    with session.turn("one") as t:
        t.file("old.py", "created", after="1")
    with session.turn("two") as t:
        t.file("new.py", "created", after="1")
        t.file("new.py", "modified", after="2")
        t.file("gone.py", "created", after="1")
        t.file("gone.py", "deleted")
        t.file("seen.py", "read")
    with session.turn("three") as t:
        t.file("old.py", "deleted")
        t.file("old.py", "created", after="3")
    files = [
        (change.path, change.op, change.turn, change.edits) for change in session.files(last=2)
    ]
    assert files == [("old.py", "modified", 3, 2), ("new.py", "created", 2, 2)]
    assert {change.path for change in session.files(reads=True)} == {"old.py", "new.py", "seen.py"}
    assert [change.path for change in session.files(last=1)] == ["old.py"]


def test_why_lists_the_decisions_and_calls_behind_a_file(session):
    with session.turn("make it fast") as t:
        t.call(read_file, path="a.py")
        t.decide("cache it", topic="speed", why="read often")
        t.file("a.py", "modified", why="added a cache")
    reasons = {(reason.kind, reason.text) for reason in session.why("a.py")}
    assert reasons == {
        ("edit", "modified by agent: added a cache"),
        ("decision", "cache it"),
        ("call", "read_file(a.py)"),
    }


def test_why_without_a_decision_shows_the_prompt_and_the_answer(session):
    with session.turn("make it fast") as t:
        t.file("a.py", "modified")
        t.say("made it fast")
    kinds = {reason.kind: reason.text for reason in session.why("a.py")}
    assert kinds["asked"] == "make it fast"
    assert kinds["said"] == "made it fast"


def test_a_file_that_came_went_and_is_there_again_is_listed_as_created(session):
    with session.turn("to and fro") as t:
        t.file("again.py", "created")
        t.file("again.py", "deleted")
        t.file("again.py", "modified")
    assert [(change.path, change.op) for change in session.files(last=1)] == [
        ("again.py", "created")
    ]
    assert [item.change for item in session.diff().of("files")] == ["added"]


def test_a_file_that_was_moved_in_and_deleted_is_not_listed(session):
    with session.turn("move it") as t:
        t.file("new.py", "renamed", from_path="old.py")
        t.file("new.py", "deleted")
    assert [change.path for change in session.files(last=1)] == ["old.py"]


def test_a_renamed_file_that_was_modified_since_is_still_listed_as_renamed(session):
    with session.turn("move it") as t:
        t.file("new.py", "renamed", from_path="old.py")
        t.file("new.py", "modified")
    listed = {change.path: change.op for change in session.files(last=1)}
    assert listed == {"new.py": "renamed", "old.py": "deleted"}


def test_why_names_a_rename_onto_the_same_path_once(session):
    with session.turn("tidy up") as t:
        t.file("same.py", "created")
        t.file("same.py", "renamed", from_path="same.py")
    edits = [reason for reason in session.why("same.py") if reason.kind == "edit"]
    assert len(edits) == 2


def test_why_of_an_unknown_path_is_empty(session):
    assert not session.why("never.py").answers


def test_files_and_decisions_can_be_listed_across_sessions(memory):
    for name, project in (("a", "shop"), ("b", "shop"), ("c", "other")):
        with memory.open(name, project=project) as s, s.turn("one") as t:
            t.file("x.py", "modified")
            t.decide(f"by {name}", topic="x")
    assert len(memory.files(project="shop")) == 2
    assert len(memory.files()) == 3
    assert {line.record.what for line in memory.decisions(project="shop")} == {"by a", "by b"}
    assert {r.session for r in memory.why("x.py", project="shop")} == {
        memory.read(name).id for name in "ab"
    }
