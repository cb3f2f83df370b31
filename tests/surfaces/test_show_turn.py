"""`stator show` of a turn: its prompt, its calls, the agent's words in full, how it ended."""

from __future__ import annotations

import json
import re

import pytest

ANSWER = "First I looked.\n\nThen " + "I changed many words in a row, " * 12 + "and that is all."
PROMPT = "fix the rounding\n\nand keep " + "every line of the bill, " * 12 + "please"


@pytest.fixture
def billed(opened, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    with opened.open("bill", agent="demo-agent") as s:
        with s.turn(PROMPT) as t:
            t.say("\n".join(f"step {n}" for n in range(40)))
            t.decide("round once", topic="rounding", why="per-line rounding " + "drifts " * 30)
            t.file("tax.py", "modified")
            t.say(ANSWER)
        s.tag("release")
        with s.turn("next") as t:
            t.say("done")
    return s.id


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    "named", [["bill", "t1"], ["bill:t1"], ["bill", "t-2"], ["bill", "release"]]
)
def test_a_turn_is_shown_with_its_prompt_and_the_last_answer_in_full(billed, ask, named):
    shown = ask("show", *named)
    assert shown.lines[2].startswith("t1  ")
    assert words(PROMPT) in words(shown.out)
    assert words(ANSWER) in words(re.sub(r" @\d+$", "", shown.out, flags=re.M))
    assert words("drifts " * 30) in words(re.sub(r" @\d+$", "", shown.out, flags=re.M))
    assert re.search(r"changed +tax\.py$", shown.out, flags=re.M)
    assert re.search(r"ended +ok$", shown.out, flags=re.M)


def test_a_long_message_before_the_last_is_cut_and_the_cut_is_said(billed, ask):
    shown = ask("show", "bill", "t1").out
    assert "step 11" in shown
    assert "step 12" not in shown
    (where,) = re.findall(r"… 28 more lines: stator show (s_\w{8}:@\d+)$", shown, flags=re.M)
    assert "step 39" in ask("show", where).out


def test_a_short_prompt_is_beside_the_number_of_its_turn(billed, ask):
    assert re.match(r"t2  next +\d", ask("show", "bill", "t2").lines[2])


def test_a_commit_a_hash_and_the_head_are_shown_as_one_commit(billed, ask):
    hashed = json.loads(ask("show", "bill", "t1", "--json").out)["hash"]
    for place in ("@3", "head", hashed[:12]):
        assert "Ids and hashes" in ask("show", "bill", place).out
    assert "Ids and hashes" not in ask("show", "bill", "t1").out


def test_a_turn_as_json_is_the_commit_it_ends_with(billed, ask):
    shown = json.loads(ask("show", "bill", "t1", "--json").out)
    assert (shown["schema"], shown["kind"]) == ("stator.commit/1", "tag")


def test_a_turn_without_an_end_says_so(store, ask):
    assert re.search(r"ended +(interrupted|open|ok)$", ask("show", "t3").out, flags=re.M)


def test_words_are_escaped_where_a_turn_is_shown_in_full(opened, ask, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    with opened.open("bad", agent="demo-agent") as s, s.turn("look\nat\x1b[2Jthis") as t:
        t.say("one\n\x1b]0;title\x07two")
    shown = ask("show", "bad", "t1").out
    assert "\x1b" not in shown
    assert "\\x1b]0;title" in shown


def test_a_session_at_a_glance_has_the_last_words_of_its_agent(store, ask):
    shown = ask("show").lines
    assert shown[1].startswith("  asked ")
    assert "“Two tests fail. ⏎ Switching to sessions.”" in shown[2]
