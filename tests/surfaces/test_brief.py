"""`stator brief` and `stator artifact`, in a pipe and on a terminal."""

from __future__ import annotations

import json

import pytest

import stator
from surfaces.recorded import normal, program
from surfaces.test_terminal import on_terminal

EVIL = "one\x1b[2J\ntwo\u202e\n"


@pytest.fixture
def documents(store):
    """The recorded session, and documents in it."""
    opened = stator.connect(str(store), project="shop")
    with opened, opened.open("fix-login") as s, s.turn("keep notes") as t:
        t.artifact("notes", "one\n")
        t.artifact("notes", EVIL)
        t.artifact("data", {"b": 1}, media_type="application/json")
        t.artifact("picture", b"\x89PNG\xff")
    return store


def without_rule(text):
    """The text without the line that says how to read it, and that line."""
    first, rule, rest = text.split("\n", 2)
    return f"{first}\n{rest}", rule


def test_a_brief_in_a_pipe_is_only_the_text(store, ask):
    answer = ask("brief")
    assert answer.code == 0
    lines = normal(answer.out).split("\n", 2)
    assert lines[1].startswith(
        "Another session, not this one: s_… «fix-login» of demo-agent, last used "
    )
    text, rule = without_rule(lines[2])
    assert rule.endswith("without a label, a verified user's.")
    assert (
        text
        == """\
Its last turn, t3, ended without an answer. 2 files were changed.

## What was asked
- t1 «fix the login bug»
- t3 «finish, and pay the invoice»

## Calls in doubt: each may or may not have happened; do not assume, settle it first
- [model] «pay(amount=5) — the tool does not know» t3, stator settle s_…:c_…

## What the agent wrote earlier
- [model] t1 «The login now verifies the token.»
- [model] t2 «Two tests fail. Switching to sessions.»

## Decisions that stand
- [model] «auth: use signed cookies — because works without a store» t3

## Facts
- [model] unverified «test command = pytest -q tests» t3

## Plan
- [model] pending «write the fix»
- [model] pending «run the tests»

## Files
- [model] created «cookies.py»
- [model] modified «auth.py»

## Dead ends: do not try these again
- [model] «JWT with a blocklist — because needs the store anyway» t2

## Failed and not repaired
- [tool] t2 «run_tests: pytest -q — 2 failed, 11 passed»

## Pending: intended and not begun
- [model] «rotate the keys (waits for ops)» t2

More: stator log s_…; head @32 """
        + normal(answer.out).rsplit(" ", 1)[1]
    )


def test_the_call_that_a_brief_names_is_settled_as_it_is_given(store, ask):
    text = ask("brief").out
    key = text.split("stator settle ", 1)[1].split()[0]
    assert key.startswith("s_")
    assert ask("settle", key, "--done").code == 0
    assert "stator settle" not in ask("brief").out


def test_a_brief_is_the_same_bytes_in_every_terminal_encoding(store):
    plain = program("brief", env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii"})
    assert plain.out == program("brief", env={"PYTHONIOENCODING": "utf-8"}).out
    assert "«" in plain.out


def test_a_brief_for_claude_code_has_tags(store, ask):
    out = ask("brief", "--for", "claude-code").out
    assert out.startswith("<stator-brief>\n")
    assert out.endswith("</stator-brief>\n")
    assert "<q>fix the login bug</q>" in out


def test_a_brief_as_json_names_what_it_left_out(store, ask):
    made = json.loads(ask("brief", "--json", "--max-tokens", "700").out)
    assert made["schema"] == "stator.brief/1"
    assert made["tokens"] <= 700
    assert made["sections"][0]["name"] == "goal"
    assert made["left_out"] == {}


@pytest.mark.parametrize(
    "words", [["--max-tokens", "10"], ["--for", "nobody"], ["--since", "no such tag"]]
)
def test_a_brief_with_invalid_options_is_refused(store, ask, words):
    assert ask("brief", *words).code == 2


def test_a_head_that_is_not_in_the_log_is_a_gap(store, ask):
    assert (
        "expected head «feedfacefeed» is not in this log"
        in ask("brief", "--since", "feedfacefeed").out
    )


def test_no_disk_leaves_out_remarks_about_files_on_disk(store, ask):
    assert "on disk" not in ask("brief", "--no-disk").out


def test_a_brief_on_a_terminal_shows_headings_and_no_control_characters(documents):
    shown = on_terminal("brief", "--no-pager", rows=60)
    assert "## What was asked" in shown
    assert "\x1b[2J" not in shown


# -- artifacts ----------------------------------------------------------------------------------------


def test_the_list_names_each_document_with_its_newest_version(documents, ask):
    rows = [line.split()[:3] for line in ask("artifact").lines[3:]]
    assert rows == [["picture", "v1", "t4"], ["data", "v1", "t4"], ["notes", "v2", "t4"]]


def test_content_on_a_pipe_is_exactly_what_was_recorded(documents):
    assert program("artifact", "notes").out == EVIL
    assert program("artifact", "notes", "--version", "1").out == "one\n"
    assert program("artifact", "picture").out == "\udc89PNG\udcff"
    assert program("artifact", "data").out == '{"b":1}\n'


def test_content_on_a_terminal_is_escaped(documents):
    shown = on_terminal("artifact", "notes", "--no-pager")
    assert "\\x1b[2J" in shown
    assert "\x1b[2J" not in shown
    assert "\u202e" not in shown


def test_versions_are_listed_and_compared(documents, ask):
    assert [line.split()[1] for line in ask("artifact", "notes", "--versions").lines[3:]] == [
        "v2",
        "v1",
    ]
    for words in (["1..2"], ["2"]):
        assert ask("artifact", "notes", "--diff", *words).out.startswith(
            "--- notes v1\n+++ notes v2\n@@ -1 +1,2 @@\n-one\n"
        )
    assert ask("artifact", "notes", "--diff", "1...2").code == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--diff", "1..2"],
        ["--version", "1"],
        ["--versions"],
        ["--project"],
        ["notes", "--versions", "--version", "1"],
        ["notes", "--project", "--session", "work"],
    ],
)
def test_options_that_would_be_ignored_are_a_usage_error(documents, ask, words):
    assert ask("artifact", *words).code == 2


def test_a_missing_document_is_not_found(documents, ask):
    for words in (["nothing"], ["notes", "--version", "9"], ["nothing", "--project"]):
        assert ask("artifact", *words).code == 3


def test_the_newest_document_of_the_project_is_found(documents, ask):
    with (
        stator.connect(str(documents), project="shop") as opened,
        opened.open("next") as s,
        s.turn("go on"),
    ):
        pass
    assert ask("artifact", "data").code == 3
    assert ask("artifact", "data", "--project").out == '{"b":1}\n'


def test_a_document_as_json_has_its_version_and_its_content(documents, ask):
    found = json.loads(ask("artifact", "data", "--json").out)
    assert (found["schema"], found["version"], found["content"]) == (
        "stator.artifact/1",
        1,
        {"b": 1},
    )


def test_the_brief_of_a_project_is_what_an_agent_is_told_when_it_starts(store, ask):
    answer = ask("brief", "--project")
    assert answer.lines[0] == "An agent that starts in this project is told:"
    assert "the session before this one, which may be unrelated: «fix-login»" in answer.out
    assert ask("brief", "--project", "fix-login").code == 2


def test_a_person_is_told_that_decisions_come_with_a_prompt_and_how_many(store, ask):
    told = "1 decision in force is told with a first prompt that is about it: stator brief --for-pr"
    assert told in ask("brief", "--project").out.replace("\n  ", " ")


def test_on_a_terminal_a_brief_of_no_session_begins_with_what_a_new_agent_is_told(documents):
    shown = on_terminal("brief", "--no-pager", rows=60)
    start = shown.index("An agent that starts in this project is told:")
    assert start < shown.index("the session used last, is told:") < shown.index("# Brief")
    assert "An agent that starts" not in on_terminal("brief", "fix-login", "--no-pager", rows=60)


def test_in_a_pipe_the_brief_of_no_session_says_on_stderr_which_one_it_is(store, ask):
    (line,) = ask("brief").err.splitlines()
    assert line.endswith(
        "this is the brief of the last session; what an agent is told that starts here: stator brief --project"
    )
    assert ask("brief", "fix-login").err == ""
    assert ask("brief", "fix-login").out == ask("brief").out
    assert ask("brief", "--json").err == ""


def test_a_prompt_that_nothing_bears_on_says_what_would(store, ask):
    told = " ".join(ask("brief", "--for-prompt", "draw a poster of tulips").out.split())
    assert told.startswith("nothing bears on it: an agent is told nothing looked at: 1 decision in")
    assert "two or more of its rarer words on one line" in told
    empty = ask("brief", "--for-prompt", "what now?").out
    assert "it has no word that says what it is about" in empty


def test_few_words_that_a_later_turn_ended_with_follow_those_of_an_earlier_one(
    tmp_path, ask, monkeypatch
):
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "words.db"))
    run = stator.tool(lambda command: "ok", name="bash")
    with stator.open("refactor") as s:
        with s.turn("split the module") as t:
            t.say("It is split; the tests of the discount still fail.")
        with s.turn("fix them") as t:
            t.call(run, command="pytest -q")
            t.say("Fixed.")
    told = ask("brief", "refactor").out
    assert told.index("still fail") < told.index("t2 «Fixed.»")


def test_a_command_that_is_cut_says_so(tmp_path, ask, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "cut.db"))
    run = stator.tool(lambda command: "ok", name="bash")
    with stator.open("adds") as s, s.turn("add them") as t:
        t.call(run, command="touch " + " ".join(f"part{n}.txt" for n in range(40)))
        t.call(run, command="mkdir build")
        t.say("Done: the parts are there, in the folder of the build.")
    (line,) = [line for line in ask("brief", "adds").lines if "touch part0.txt" in line]
    assert "part39.txt" in line or "…" in line
