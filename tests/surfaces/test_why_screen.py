"""What `stator why` and `stator recap` print."""

from __future__ import annotations

import json
import re

from surfaces.recorded import START


def test_an_empty_answer_says_where_was_looked_and_where_else_to_look(store, ask):
    answer = ask("why", "nothing-like-it")
    assert (answer.code, answer.out) == (0, "")
    assert "nothing with the name nothing-like-it is recorded in project shop" in answer.err
    assert "stator search nothing-like-it" in answer.err


def test_a_name_that_is_nearly_right_is_answered_with_those_that_are(store, ask):
    assert "did you mean: decision:auth" in ask("why", "aut h").err


def test_a_topic_shows_each_version_with_what_became_of_it(store, ask):
    shown = " ".join(ask("why", "decision:auth").out.split())
    assert shown.startswith("decision auth · 3 versions · looked in 1 session of this project")
    found = re.findall(r"decided auth: (use [\w ]+).*? · (in force|superseded by @\d+) @", shown)
    assert found == [
        ("use signed cookies ", "in force"),
        ("use server sessions ", "superseded by @26"),
        ("use JWT", "superseded by @17"),
    ]


def test_a_word_that_fits_two_kinds_is_answered_twice(store, ask):
    lines = ask("why", "test command").lines
    assert lines[0].startswith("fact test command · 2 versions")


def test_each_reason_is_one_json_line_with_what_it_is_a_reason_of(store, ask):
    reasons = [json.loads(line) for line in ask("why", "auth", "--json").lines]
    assert {reason["of"]["kind"] for reason in reasons} == {"decision"}
    assert {"kind", "text", "detail", "topic", "session", "turn", "seq", "trust"} <= set(reasons[0])


def test_a_recap_shows_what_was_asked_decided_done_and_how_it_ended(store, ask):
    head, *lines = [line.strip() for line in ask("recap").lines]
    assert head == "15 Nov 2026 00:00  fix-login  demo-agent"
    assert lines[0] == "asked       fix the login bug"
    assert lines[1] == "asked last  t3  finish, and pay the invoice"
    assert lines[2] == "decided     auth: use signed cookies"
    assert (
        lines[3] == "did         0 of 2 steps done; changed 2 files; last tests failed: pytest -q"
    )
    assert lines[4] == "the agent's last words: “Two tests fail. ⏎ Switching to sessions.”  t2"
    assert lines[5].startswith("ended       in doubt: pay c_")
    assert lines[5].endswith("; 2 steps open")


def test_a_recap_as_json_has_both_lines_in_words_and_in_fields(store, ask):
    (one,) = [json.loads(line) for line in ask("recap", "fix-login", "--json").lines]
    assert (one["asked"], one["asked_turn"], one["files"]) == ("fix the login bug", 1, 2)
    assert one["did"][:2] == ["0 of 2 steps done", "changed 2 files"]
    assert one["tests"]["status"] == "failed"
    assert one["at"] > START


def test_an_empty_recap_says_where_else_to_look(store, ask):
    answer = ask("recap", "--since", "2030-01-01")
    assert (answer.code, answer.out) == (0, "")
    assert "--everywhere looks in every project" in answer.err
