"""Where a question looks: the project, one session, everywhere; and which session is the last."""

from __future__ import annotations

import json
import re

import pytest

from surfaces.recorded import record


@pytest.fixture
def sessions(store, world):
    """Two sessions of this project, and one of another."""
    with world.open(store) as opened:
        with opened.open("add-cart", agent="demo-agent") as s, s.turn("add a cart") as t:
            t.file("cart.py", "created")
            t.decide("keep the cart in JWT", topic="cart")
        with opened.open("fix-mill", project="mill") as s, s.turn("turn the mill") as t:
            t.file("mill.py", "created")
    return store


def items(answer):
    return [json.loads(line) for line in answer.lines]


def test_questions_without_a_session_are_about_the_project_and_say_so(sessions, ask):
    answer = ask("files")
    assert answer.lines[0] == "project shop · files"
    assert {"cart.py", "auth.py"} <= {row["path"] for row in items(ask("files", "--json"))}
    assert "mill.py" not in answer.out
    assert ask("decisions").lines[0] == "project shop · decisions"
    assert {row["session"] for row in items(ask("decisions", "--json"))} == {
        row["id"] for row in items(ask("ls", "--json"))
    }
    assert ask("calls").lines[0].startswith("project shop · calls")
    assert "pay(amount=5)" in ask("calls").out
    assert ask("search", "cart").lines[0] == "project shop · 4 matches in 1 session"
    assert "looked in 2 sessions of this project" in ask("why", "auth.py").out


def test_a_session_narrows_and_everywhere_widens(sessions, ask):
    assert [row["path"] for row in items(ask("files", "-s", "add-cart", "--json"))] == ["cart.py"]
    assert "mill.py" in ask("files", "--everywhere").out
    assert ask("files", "--everywhere").lines[0] == "every project of the store · files"
    assert ask("files", "-s", "add-cart", "--everywhere").code == 2


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["files", "add-cart", "--reads", "--last", "1", "-n", "1"], ""),
        (["calls", "-s", "add-cart"], "no matching calls in session add-cart; there is something in project shop"),
        (["why", "mill.py"], "in project shop; there is something in every project of the store: add --everywhere"),
        (["why", "auth.py", "-s", "add-cart"], "in session add-cart; there is something in project shop"),
        (["search", "mill"], "no matches in project shop; there is something in every project of the store"),
        (["files", "fix-login", "t0..@2"], "there is something in session fix-login: name only the session"),
        (["search", "nothing-at-all"], "no other stores found"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_an_empty_answer_names_the_wider_one_that_is_not_empty(sessions, ask, typed, told):
    answer = ask(*typed)
    assert answer.code == 0
    assert told in answer.err


def test_a_name_is_found_by_its_beginning_if_no_other_begins_so(sessions, ask):
    assert ask("log", "add").lines[0].startswith("add-cart ")
    assert ask("show", "add:t1").code == 0
    assert ask("files", "-s", "add-c").code == 0
    assert ask("log", "-s", "fix").lines[0].startswith("fix-login ")
    assert ask("log", "fix-m").lines[0].startswith("fix-mill ")


def test_the_beginning_of_several_names_is_ambiguous_and_names_them(sessions, world, ask):
    with world.open(sessions) as opened:
        record(opened, "fix-logout")
    answer = ask("log", "-s", "fix-log")
    assert answer.code == 2
    assert "2 sessions match 'fix-log'" in answer.err


@pytest.mark.parametrize(
    "act",
    [
        ["tag", "before", "t1", "-s", "fix-login"],
        ["score", "helpful", "1", "-s", "fix-login"],
        ["flag", "review", "-s", "fix-login"],
        ["close", "fix-login"],
    ],
    ids=lambda words: words[0],
)
def test_what_a_person_says_of_a_session_does_not_make_it_the_last(sessions, ask, act):
    assert ask("log").lines[0].startswith("add-cart ")
    assert ask(*act).code == 0
    assert ask("log").lines[0].startswith("add-cart ")


def test_settling_a_call_does_not_make_its_session_the_last(sessions, ask):
    (call,) = [row["call"] for row in items(ask("calls", "--status", "in doubt", "--json"))]
    assert ask("settle", call, "--done").code == 0
    assert ask("log").lines[0].startswith("add-cart ")


def test_an_old_spelling_works_with_a_hint_on_stderr(sessions, ask):
    answer = ask("files", "--all", "--json")
    assert answer.out == ask("files", "--everywhere", "--json").out
    assert answer.err == (
        "stator files: --all is now --everywhere; the old spelling works in this release\n"
    )


def test_a_session_is_found_by_a_part_of_its_name_in_any_case(sessions, ask):
    assert ask("log", "login").lines[0].startswith("fix-login ")
    assert ask("files", "-s", "CART").code == 0


def test_a_position_that_is_not_there_is_never_taken_for_a_part_of_a_name(sessions, world, ask):
    with world.open(sessions) as opened:
        record(opened, "what t9 left")
    answer = ask("log", "t9")
    assert answer.code == 3
    assert "no turn 9" in answer.err


def test_a_part_of_a_name_means_the_session_and_not_its_sub_agents(store, world, ask):
    with (
        world.open(store) as opened,
        opened.open("work on the mill", agent="coder") as s,
        s.turn("turn it"),
        s.child("helper") as child,
        child.turn("help") as t,
    ):
        t.say("ok")
    assert ask("log", "the mill").lines[0].startswith("work on the mill ")
    assert ask("log", "mill/helper").lines[0].startswith("work on the mill/helper ")


def test_a_name_that_is_mistyped_is_answered_with_the_one_that_was_meant(sessions, ask):
    answer = ask("log", "fix-lgoin")
    assert answer.code == 3
    assert "did you mean s_" in answer.err
    assert "(fix-login)?" in answer.err


def test_a_word_that_names_no_session_is_a_topic_of_decisions(sessions, ask):
    answer = ask("decisions", "jwt")
    assert answer.lines[0] == "project shop · decisions about jwt"
    assert "keep the cart in JWT" in answer.out
    missing = ask("decisions", "weather")
    assert missing.code == 3
    assert "no decision in project shop is about 'weather'" in missing.err


def test_a_call_is_shown_by_its_id_with_who_settled_it_and_how_they_knew(sessions, ask):
    (call,) = [row["call"] for row in items(ask("calls", "--status", "in doubt", "--json"))]
    assert ask("show", call).lines[1].startswith("ended in doubt")
    assert ask("settle", call, "--done", "--why", "the bank says so").code == 0
    assert ask("show", call).lines[1].startswith("ended ok — settled as done by ")
    for answer in (ask("show", call), ask("why", call), ask("log", "fix-login")):
        assert "the bank says so" in answer.out


def test_the_time_until_somebody_found_a_call_cut_off_is_not_how_long_it_took(sessions, ask):
    line = next(line for line in ask("log", "fix-login").lines if "amount=5" in line)
    assert " – " in line


def test_what_left_the_view_begins_with_the_sessions_that_lost_something(sessions, world, ask):
    with world.open(sessions) as opened:
        for name in ("long-talk", "longer-talk"):
            with opened.open(name) as s:
                for n in range(8):
                    with s.turn(f"question {n}") as t:
                        t.say("word " * 400)
                s.compact(keep=1, summary="eight questions")
        record(opened, "short-talk")
    lines = ask("evicted").lines
    assert lines[0].endswith("what left agents' views last")
    assert {"REQUESTS", "MESSAGES"} <= set(lines[2].split())
    assert [line.split()[0] for line in lines[3:6:2]] == ["longer-talk", "long-talk"]
    assert lines[4].split(maxsplit=1) == ["asked", "question 6; question 5 …"]
    assert "short-talk" not in "".join(lines)
    of_one = ask("evicted", "long-talk").out
    assert "question 0" in of_one
    assert "not listed: 7 messages and calls: stator evicted " in of_one
    assert "word word" not in of_one
    assert "word word" in ask("evicted", "long-talk", "-n", "400").out
    assert "in session short-talk" in ask("evicted", "short-talk").err


def test_files_can_be_asked_for_since_a_time(sessions, ask):
    assert {row["path"] for row in items(ask("files", "--since", "2026-11-01", "--json"))} == {
        row["path"] for row in items(ask("files", "--json"))
    }
    late = ask("files", "--since", "2199-01-01")
    assert "no files were touched in project shop" in late.err
    assert ask("files", "fix-login", "t2", "--since", "2026-11-01").code == 2


def test_a_turn_that_is_shown_names_the_commands_for_more_of_it(sessions, ask):
    shown = ask("show", "fix-login", "t1").out
    for more in (r"log s_\w{8} t1 -p", r"diff s_\w{8}:t1", r"log s_\w{8} t1 --full"):
        assert re.search(rf"stator {more}$", shown, flags=re.M)
    assert "stator log" not in ask("show", "fix-login", "@3").out
