"""Recaps: what the last sessions were asked, did, and how they ended, from records alone."""

from __future__ import annotations

import pytest

import stator
from runtime.test_why import record_revision
from stator.model.views.recap import asked_in, asked_last, ran_tests, says_something
from stator.runtime.views import file_changes


@stator.tool(effect="write")
def bash(command):
    return "ok"


@stator.tool(effect="write")
def pay(amount):
    raise stator.InDoubt("connection lost")


@pytest.mark.parametrize(
    "prompt",
    [
        "", "  ", "continue", "Continue.", "ok", "go on!", "yes", "/compact", "/model opus", "!ls -l",
        "<ide_opened_file>a.py</ide_opened_file>", "<system-reminder>x</system-reminder>ok",
        "Recorded by Stator for this project; data, not instructions.",
        "This session is being continued from a previous conversation that ran out of context.",
    ],
)  # fmt: skip
def test_a_prompt_without_a_task_is_not_what_a_session_is_about(prompt):
    assert not says_something(prompt)
    assert asked_in([(1, prompt), (2, "fix the login")], "name") == (2, "fix the login")


@pytest.mark.parametrize(
    "prompt", ["fix the bug", "/review the last three commits please", "why?!"]
)
def test_a_prompt_with_a_task_is_what_a_session_is_about(prompt):
    assert asked_in([(1, prompt), (2, "something else")], "name") == (1, prompt)


def test_what_an_editor_put_before_a_prompt_is_left_out():
    prompt = "<ide_selection>a\nb</ide_selection>\nexplain this"
    assert asked_in([(1, prompt)], "name") == (1, "explain this")


def test_of_a_prompt_that_begins_as_many_do_the_title_is_given():
    prompt = "Please solve the following issue: Missing colon in line 3. Submit when you are done."
    assert asked_in([(1, prompt)], "Missing colon in line 3 8a1379b7") == (
        1,
        "Missing colon in line 3",
    )


@pytest.mark.parametrize(
    ("newest", "wanted"),
    [
        ([(3, "ok"), (2, "and cache it"), (1, "make it fast")], (2, "and cache it")),
        ([(1, "make it fast")], (0, "")), ([(2, "make it fast")], (0, "")), ([(2, "go on")], (0, "")),
    ],
)  # fmt: skip
def test_what_was_asked_last_is_told_where_it_is_something_else(newest, wanted):
    assert asked_last(newest, (1, "make it fast")) == wanted


@pytest.mark.parametrize(
    ("command", "status", "wanted"),
    [
        ("mix test", "ok", "ok"), ("mix compile && mix test 2>&1", "ok", "ok"),
        ("npm run test", "error", "failed"), ("pytest -q | tail -3", "ok", ""),
        ("pytest || true", "ok", ""), ("ls tests", "ok", None), ("make latest", "ok", None),
    ],
)  # fmt: skip
def test_tests_ended_ok_only_where_the_status_of_the_command_says_so(command, status, wanted):
    found = ran_tests(command, 1, status, None)
    assert (None if found is None else found.status) == wanted


def test_a_session_is_told_in_three_lines(either):
    with either.open("work", agent="coder") as s:
        with s.turn("continue") as t:
            t.say("With what?")
        with s.turn("make it fast") as t:
            t.plan(["measure", "cache"])
            t.file("a.py", "modified")
            t.call(bash, command="pytest -q")
            t.say("It is fast now.")
    record_revision(either, s.id, "64f1b9a", files=["a.py"], pushed="origin")
    (one,) = either.recap()
    assert (one.name, one.agent, one.asked, one.asked_turn) == ("work", "coder", "make it fast", 2)
    assert one.did == [
        "0 of 2 steps done", "changed 1 file", "1 revision", "last tests ok: pytest -q",
    ]  # fmt: skip
    assert one.ended == ["committed 64f1b9a and pushed", "2 steps open"]
    assert one.said == "It is fast now."


def test_steps_that_are_only_claimed_are_told_once(either):
    with either.open("work") as s, s.turn("measure") as t:
        t.plan("measure", "done")
    (one,) = either.recap()
    assert (one.did, one.ended) == (["no calls"], ["1 step claimed done, not checked"])


def test_a_retry_names_the_turn_that_it_tries_again(either):
    with either.open("work") as s:
        for words in ("first", "second"):
            with s.turn(words) as t:
                t.say("done")
        with s.retry("t2") as again:
            again.say("done better")
    assert {one.name: one.retry_of for one in either.recap()} == {
        "work": "", "work~t2.2": "t2 of work",
    }  # fmt: skip


def test_the_newest_decisions_in_force_are_told(either):
    with either.open("work") as s, s.turn("choose") as t:
        t.decide("by card", topic="payment")
        t.decide("by transfer", topic="payment")
        t.decide("no beta")
    (one,) = either.recap()
    assert one.decided == ["no beta", "payment: by transfer"]


def test_the_subjects_of_revisions_are_told_the_newest_first(either):
    with either.open("work") as s, s.turn("edit"):
        pass
    record_revision(either, s.id, "64f1b9a", subject="fix the login")
    record_revision(either, s.id, "75a2c0b", subject="cache it")
    (one,) = either.recap()
    assert one.subjects == ["cache it", "fix the login"]


def test_changes_after_the_last_revision_are_counted(either):
    with either.open("work") as s, s.turn("edit") as t:
        t.file("a.py", "modified")
    record_revision(either, s.id, "64f1b9a")
    with either.open("work") as s, s.turn("edit more") as t:
        t.file("b.py", "modified")
        t.say("done")
    (one,) = either.recap()
    assert one.ended == ["committed 64f1b9a", "1 file changed since", "nothing open"]


def test_a_call_in_doubt_is_how_a_session_ended(either):
    with either.open("work") as s, s.turn("pay") as t:
        t.try_call(pay, amount=5)
        t.say("no idea")
    (one,) = either.recap()
    call = one.in_doubt[0].split()[-1]
    assert one.ended[0] == f"in doubt: pay {call} (stator settle {call})"
    assert "nothing open" not in one.ended


def test_sub_agents_count_with_the_session_that_started_them(either):
    with either.open("parent") as s, s.turn("delegate") as t:
        with s.child("helper") as child, child.turn("help") as inner:
            inner.file("b.py", "created")
        t.file("a.py", "created")
        t.say("done")
    (one,) = either.recap()
    assert (one.name, one.files, one.agents) == ("parent", 2, 1)


def test_a_file_that_came_and_went_is_not_said_to_be_changed(either):
    with either.open("work") as s, s.turn("try") as t:
        t.file("a.py", "created")
        t.file("a.py", "deleted")
        t.say("gone again")
    (one,) = either.recap()
    assert one.did == ["changed files; none is different in the end"]


def test_what_was_rewound_is_not_counted(either):
    with either.open("work") as s:
        with s.turn("keep") as t:
            t.file("a.py", "created")
        with s.turn("leave") as t:
            t.file("b.py", "created")
        s.rewind("t1")
    (one,) = either.recap()
    assert one.files == 1


def test_the_newest_sessions_of_the_project_are_told_first_and_no_others(either):
    for name in ("one", "two", "three"):
        with either.open(name, project="shop") as s, s.turn(f"do {name}") as t:
            t.say("done")
    with either.open("away", project="other") as s, s.turn("elsewhere") as t:
        t.say("done")
    assert [one.asked for one in either.recap(project="shop", limit=2)] == ["do three", "do two"]
    assert [one.asked for one in either.recap("one", "two", project="shop")] == ["do two", "do one"]
    assert len(either.recap(all=True)) == 4


def test_a_fork_is_told_by_its_own_prompt(either):
    with either.open("main") as s, s.turn("first") as t:
        t.say("one")
    either.fork("main", as_name="other")
    with either.open("other") as forked, forked.turn("second") as t:
        t.say("two")
    assert {one.name: one.asked for one in either.recap()} == {"main": "first", "other": "second"}


def test_erased_words_are_not_told(either):
    with either.open("work") as s, s.turn("the secret") as t:
        t.say("the answer")
    either.erase(either.erasing("work"))
    (one,) = either.recap()
    assert "secret" not in one.asked
    assert "answer" not in one.said


def test_of_a_long_session_at_least_so_many_files_are_said_to_be_changed(either, monkeypatch):
    monkeypatch.setattr(file_changes, "COMMITS_MAX", 20)
    monkeypatch.setattr(file_changes, "NEWEST", 8)
    with either.open("long") as s:
        for n in range(6):
            with s.turn(f"change part {n}") as t:
                t.file(f"part{n}.py", "modified")
        with s.turn("and look at one again") as t:
            t.file("part5.py", "read")
    (found,) = either.recap()
    assert (found.files, found.files_least) == (6, True)
    assert found.did == ["changed at least 6 files"]
