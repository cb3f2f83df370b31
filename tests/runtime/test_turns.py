"""Turns: how they end, what can be recorded in them, and batches."""

from __future__ import annotations

import contextlib
import subprocess
from shutil import which
from typing import Any

import pytest

import stator
from stator.errors import BadDelta, BadNumber, BadTurn, BadType, InvalidInput


@pytest.fixture
def session(memory):
    with memory.open("a") as opened:
        yield opened


def ended(session):
    return [(commit.status, commit.cause) for commit in session.log() if commit.kind == "turn_end"]


def live(session, collection):
    return [entry.record for entry in session.entries(collection)]


# -- ending -------------------------------------------------------------------------------------------


def test_turns_are_numbered_from_one(session):
    numbers = []
    for prompt in ("one", "two"):
        with session.turn(prompt) as t:
            numbers.append(t.number)
    assert numbers == [1, 2]
    assert [row.turn for row in session.turns()] == [1, 2]


def test_leaving_the_block_ends_the_turn_ok(session):
    with session.turn("one"):
        pass
    assert ended(session) == [("ok", "")]


def test_an_exception_interrupts_the_turn_with_the_reason(session):
    with pytest.raises(ValueError, match="bad luck"), session.turn("one"):
        raise ValueError("bad luck")
    assert ended(session) == [("interrupted", "ValueError: bad luck")]


def test_abort_ends_the_turn_as_aborted_with_the_reason(session):
    with session.turn("one") as t:
        t.abort("wrong branch")
    assert ended(session) == [("aborted", "wrong branch")]


def test_ending_a_turn_twice_records_one_end(session):
    with session.turn("one") as t:
        t.end()
        t.end()
    assert ended(session) == [("ok", "")]


def test_an_ended_turn_accepts_nothing(session):
    with session.turn("one") as t:
        t.end()
        with pytest.raises(BadTurn, match="turn 1"):
            t.say("too late")
        with pytest.raises(BadTurn):
            t.abort("too late")


def test_a_turn_inside_a_turn_is_refused(session):
    with session.turn("one"), pytest.raises(BadTurn):
        session.turn("two")


def test_the_prompt_is_the_input_of_the_turn(session):
    with session.turn({"text": "hi", "images": [b"\x00"]}):
        pass
    assert session.beginning(1).value("input") == {"text": "hi", "images": [b"\x00"]}
    assert session.beginning(2) is None


def test_the_last_turns_can_be_listed(session):
    for n in range(5):
        session.turn(f"turn {n}").end()
    assert [row.turn for row in session.turns(last=2)] == [4, 5]


@pytest.mark.skipif(which("git") is None, reason="needs git")
def test_the_end_of_a_turn_records_the_git_state_of_the_folder(store, tmp_path):
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path)], check=True)
    (tmp_path / "new.txt").write_text("x")
    with store.open("a") as s:
        s.turn("one").end()
    (last,) = [commit for commit in s.log() if commit.kind == "turn_end"]
    git = last.value("input")["git"]
    assert git["branch"] == "main"
    assert git["dirty"]


def test_pausing_a_session_interrupts_its_open_turn(memory):
    session = memory.open("b")
    session.turn("one")
    session.pause()
    assert [row.status for row in session.turns()] == ["interrupted"]


# -- recording ----------------------------------------------------------------------------------------


def test_a_decision_keeps_its_reason_alternatives_and_confidence(session):
    with session.turn("one") as t:
        t.decide(
            "JWT",
            topic="auth",
            why="stateless",
            over=["cookies"],
            confidence=0.85,
            factors={"n": 2},
        )
    (record,) = live(session, "decisions")
    assert (record.what, record.topic, record.why) == ("JWT", "auth", "stateless")
    assert (record.over, record.confidence, record.factors) == (["cookies"], 850, {"n": 2})


def test_a_decision_supersedes_the_current_one_on_its_topic(session):
    with session.turn("one") as t:
        t.decide("JWT", topic="auth")
        t.decide("sessions", topic="auth")
    first, second = session.decisions()
    assert (first.stands, first.by) == (False, second.id)
    assert second.record.supersedes == first.id
    assert [line.record.what for line in session.decisions(standing=True)] == ["sessions"]


def test_a_decision_without_a_topic_can_be_superseded_by_its_id(session):
    with session.turn("one") as t:
        t.decide("JWT")
        old = session.decisions()[0].id
        t.decide("sessions", supersedes=old)
        t.decide("unrelated")
    assert [line.stands for line in session.decisions()] == [False, True, True]


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan"), float("inf")])
def test_confidence_is_from_zero_to_one(session, confidence):
    with session.turn("one") as t, pytest.raises((InvalidInput, BadNumber)):
        t.decide("x", confidence=confidence)


def test_files_are_recorded_by_their_path_under_the_root(session):
    with session.turn("one") as t:
        t.file("/project/src/a.py", "created", after="1")
        t.file("src/../src/a.py", "modified", after="2")
        t.file("/elsewhere/b.py", "read")
    assert [(r.root, r.path, r.op) for r in live(session, "files")] == [
        ("/", "/elsewhere/b.py", "read"),
        (".", "src/a.py", "modified"),
    ]


def test_the_digest_before_an_edit_is_the_previous_digest(session):
    with session.turn("one") as t:
        t.file("a.py", "created", after="1")
        t.file("a.py", "modified", after="2")
    (record,) = live(session, "files")
    assert (record.before, record.after) == ("1", "2")


def test_a_renamed_file_leaves_its_old_path_deleted(session):
    with session.turn("one") as t:
        t.file("a.py", "created", after="1")
        t.file("b.py", "renamed", from_path="a.py", after="1")
    assert {(r.path, r.op) for r in live(session, "files")} == {
        ("a.py", "deleted"),
        ("b.py", "renamed"),
    }


def test_a_file_that_was_never_recorded_leaves_its_old_path_deleted(session):
    with session.turn("one") as t:
        t.file("b.py", "renamed", from_path="a.py", before="1", after="1")
    assert {(r.path, r.op, r.before) for r in live(session, "files")} == {
        ("a.py", "deleted", "1"),
        ("b.py", "renamed", "1"),
    }
    assert [(i.key, i.change) for i in session.diff("t1").of("files")] == [
        ("a.py", "removed"),
        ("b.py", "added"),
    ]


def test_a_file_renamed_onto_a_recorded_path_changes_that_path(session):
    with session.turn("one") as t:
        t.file("a.py", "created", after="1")
        t.file("b.py", "created", after="2")
    with session.turn("two") as t:
        t.file("b.py", "renamed", from_path="a.py", after="1")
    assert [(i.key, i.change) for i in session.diff("t2").of("files")] == [
        ("a.py", "removed"),
        ("b.py", "changed"),
    ]


def test_a_file_created_again_and_deleted_is_removed(session):
    with session.turn("one") as t:
        t.file("a.py", "created", after="1")
    with session.turn("two") as t:
        t.file("a.py", "created", after="2")
        t.file("a.py", "deleted")
    assert [(i.key, i.change) for i in session.diff("t2").of("files")] == [("a.py", "removed")]
    assert [(file.path, file.op) for file in session.files(last=1)] == [("a.py", "deleted")]


def test_a_file_that_is_renamed_to_its_own_path_stays(session):
    with session.turn("one") as t:
        t.file("a.py", "renamed", from_path="a.py", after="1")
    assert [(r.path, r.op) for r in live(session, "files")] == [("a.py", "renamed")]


def test_facts_and_preferences_hold_any_recordable_value(session):
    value = {"floats": 1.5, "bytes": b"\x00", "tuple": (1, 2), "big": 2**70}
    with session.turn("one") as t:
        t.fact("f", value, verified=True)
        t.prefer("p", ["short", "answers"])
    assert session.facts() == {"f": value}
    assert [r.value for r in live(session, "preferences")] == [["short", "answers"]]


def test_a_plan_is_made_of_steps_with_a_status(session):
    with session.turn("one") as t:
        t.plan(["read", "write", "test"])
        t.plan("read", "done", evidence="read it")
        t.plan("ask", "blocked", order=9)
    steps = {r.step: (r.status, r.order) for r in live(session, "plan")}
    assert steps == {
        "read": ("claimed", 1),
        "write": ("pending", 2),
        "test": ("pending", 3),
        "ask": ("blocked", 9),
    }


def test_pending_items_are_added_and_removed(session):
    with session.turn("one") as t:
        t.pend("ask Ann", on="reply", why="she knows")
        t.pend("call Bob")
        t.pend("ask Ann", done=True)
        with pytest.raises(BadDelta, match="never recorded, or is gone"):
            t.pend("ask Ann", done=True)
    assert [r.what for r in live(session, "pending")] == ["call Bob"]


def test_an_artifact_has_versions_and_its_content_is_in_the_log(session):
    with session.turn("one") as t:
        t.artifact("plan.md", "v1")
        second = t.artifact("plan.md", "v2", media_type="text/markdown")
    (record,) = live(session, "artifacts")
    assert (record.version, record.media_type, record.commit) == (2, "text/markdown", second)
    assert session.commit(second).value("input") == "v2"


def test_dead_ends_notes_and_the_working_set_are_recorded(session):
    with session.turn("one") as t:
        t.dead_end("regex", why="nested")
        t.note("scratch", [1])
        t.use("app", "Safari")
        t.use("app", "Safari", detail="17")
    assert [r.why for r in live(session, "dead_ends")] == ["nested"]
    assert [r.value for r in live(session, "scratch")] == [[1]]
    (used,) = live(session, "working_set")
    assert (used.name, used.uses, used.detail) == ("Safari", 2, "17")


def test_usage_is_summed_in_spend(session):
    with session.turn("one") as t:
        t.say("a", usage={"tokens": 10})
        t.say("b", usage={"tokens": 5, "money:usd": 200})
    assert {r.unit: r.amount for r in live(session, "spend")} == {"tokens": 15, "money:usd": 200}


@pytest.mark.parametrize(
    "record",
    [
        lambda t: t.decide(7),
        lambda t: t.decide("x", over="y"),
        lambda t: t.file("a.py", "touched"),
        lambda t: t.file("", "read"),
        lambda t: t.fact("x", object()),
        lambda t: t.fact("x", float("nan")),
        lambda t: t.plan("x", "started"),
        lambda t: t.use("person", "Ann"),
        lambda t: t.set(),
        lambda t: t.say({1: 2}),
        lambda t: t.say("x", usage={"tokens": -1}),
    ],
)
def test_a_record_that_cannot_be_stored_is_refused_and_nothing_is_written(session, record):
    with session.turn("one") as t:
        before = session.head
        with pytest.raises(InvalidInput):
            record(t)
        assert session.head == before


def test_the_error_names_the_path_of_the_invalid_field(session):
    with session.turn("one") as t, pytest.raises(BadType) as caught:
        t.fact("tags", {"all": {"a"}})
    assert caught.value.path == "$.value.all"


def test_every_record_returns_the_id_of_its_commit(session):
    with session.turn("one") as t:
        made = t.fact("n", 1)
    assert session.commit("head~1").id == made


# -- batches ------------------------------------------------------------------------------------------


def test_a_batch_is_appended_when_its_block_ends(session):
    with session.turn("one") as t:
        before = session.head.seq
        with t.batch():
            t.fact("a", 1)
            t.fact("b", 2)
            assert session.head.seq == before
        assert session.head.seq == before + 2


def test_a_batch_whose_block_raises_records_nothing(session):
    with session.turn("one") as t:
        before = session.head

        def fail():
            with t.batch():
                t.fact("a", 1)
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        assert session.head == before
        t.fact("b", 2)
    assert session.facts() == {"b": 2}


def test_a_batch_with_one_bad_record_records_none(session):
    with session.turn("one") as t:
        before = session.head

        def fail():
            with t.batch():
                t.fact("a", 1)
                t.pend("never pended", done=True)

        with pytest.raises(BadDelta):
            fail()
        assert session.head == before


def test_a_call_in_a_batch_is_refused_and_does_not_run(session):
    ran: list[int] = []
    with session.turn("one") as t:
        with pytest.raises(InvalidInput, match="batch"), t.batch():
            t.call(ran.append, 1)
        assert ran == []


def test_batches_do_not_nest(session):
    with session.turn("one") as t, pytest.raises(BadTurn, match="nest"), t.batch(), t.batch():
        pass


def test_later_records_of_a_batch_see_earlier_ones(session):
    with session.turn("one") as t, t.batch():
        t.decide("x", topic="auth")
        t.decide("y", topic="auth")
    assert [line.stands for line in session.decisions()] == [False, True]


def test_a_prompt_that_cannot_be_recorded_begins_no_turn(session):
    before = session.head
    with pytest.raises(BadType):
        session.turn(object())
    assert session.head == before


# -- the end of a turn in a batch -----------------------------------------------------------------


def test_the_end_of_a_turn_is_the_last_commit_of_its_batch(either):
    with either.open("main") as s, s.turn("one") as t:
        with t.batch():
            t.end()
        assert [c.kind for c in s.log()][-2:] == ["turn", "turn_end"]
    with either.open("main") as s, s.turn("two") as t, t.batch():
        t.decide("use JWT", topic="auth")
        t.say("done")
        t.end()
    kinds = [c.kind for c in either.read("main").log() if c.turn == 2]
    assert kinds[:4] == ["turn", "decision", "entry", "turn_end"]


def test_nothing_can_be_recorded_after_the_end_in_a_batch(either):
    with either.open("main") as s, s.turn("one") as t, t.batch():
        t.end()
        with pytest.raises(BadTurn):
            t.fact("late", 1)


def test_a_batch_that_fails_leaves_its_turn_open(either):
    with either.open("main") as s, s.turn("one") as t:
        with contextlib.suppress(ValueError), t.batch():
            t.fact("a", 1)
            t.end()
            raise ValueError("no")
        t.fact("b", 2)
    assert list(either.read("main").facts()) == ["b"]


def test_a_batch_that_cannot_be_appended_leaves_its_turn_open(either, monkeypatch):
    def fails(drafts: Any, **options: Any) -> Any:
        raise stator.errors.StoreFull("no space")

    with either.open("main") as s, s.turn("one") as t:
        append = s._driver.append
        with contextlib.suppress(stator.errors.StoreFull), t.batch():
            t.fact("a", 1)
            t.end()
            monkeypatch.setattr(s._driver, "append", fails)
        monkeypatch.setattr(s._driver, "append", append)
        assert not t.ended
    assert [turn.status for turn in either.read("main").turns()] == ["ok"]
