"""When a session was used: by what its agent did, not by what a person or an import added to it later."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import stator
from stator.runtime.views.glance.calls import NEAR
from surfaces.recorded import record
from surfaces.test_tables import on_terminal

SAMPLES = Path(__file__).parents[2] / "examples" / "transcripts"
CART = "let the cart take a discount in percent"


@pytest.fixture
def march(tmp_path, ask, monkeypatch):
    """A store with two sessions of March, of which the newer one has a write without a result."""
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "march.db"))
    monkeypatch.setenv("COLUMNS", "120")
    assert ask("import", str(SAMPLES), "--into", "shop").code == 0


@pytest.fixture
def two(tmp_path, world, monkeypatch):
    """Two sessions: `older`, and then `newer`."""
    path = tmp_path / "two.db"
    with world.open(path) as opened:
        for name in ("older", "newer"):
            with opened.open(name, agent="coder") as s, s.turn(f"work on {name}") as t:
                t.say("done")
    monkeypatch.setenv("STATOR_STORE", str(path))
    return path


def names(answer):
    return [json.loads(line)["name"] for line in answer.lines]


ADDED = [
    ["tag", "release", "older:t1"],
    ["score", "quality", "0.5", "-s", "older"],
    ["flag", "odd", "-s", "older"],
]


@pytest.mark.parametrize("words", ADDED, ids=lambda words: words[0])
def test_what_a_person_adds_does_not_change_which_session_is_last(words, two, ask):
    assert ask(*words).code == 0
    assert names(ask("ls", "--json")) == ["newer", "older"]
    assert names(ask("recap", "--json")) == ["newer", "older"]
    assert ask("log").lines[0].startswith("newer ")


def test_a_tag_does_not_say_that_the_session_was_used_today(march, ask):
    ask("tag", "before-tests", f"{CART}:t1")
    assert "9 Mar" in ask("ls").lines[1]
    assert ask("recap").lines[0].startswith("9 Mar 2026 09:17")
    assert "9 Mar" in ask("log", CART).lines[0]
    assert "last used 2026-03-09 09:17" in ask("brief", CART).out


def test_a_tag_does_not_count_what_a_session_cost_to_this_week(march, ask):
    ask("tag", "before-tests", f"{CART}:t1")
    assert json.loads(ask("status", "--json").out)["week"]["sessions"] == 0


def test_a_session_is_not_listed_as_used_since_it_was_tagged(march, ask):
    ask("tag", "before-tests", f"{CART}:t1")
    answer = ask("ls", "--since", "2d")
    assert answer.out == ""
    assert "stator ls without options lists others" in answer.err


def test_sessions_without_times_come_last_and_are_not_the_last_one(
    tmp_path, world, ask, monkeypatch
):
    path = tmp_path / "mixed.db"
    with world.open(path) as opened:
        for name, labels in (("timed", {}), ("untimed", {"times": "unknown"})):
            with opened.open(name, labels=labels) as s, s.turn("go") as t:
                t.say("done")
    monkeypatch.setenv("STATOR_STORE", str(path))
    assert names(ask("ls", "--json")) == ["timed", "untimed"]
    assert names(ask("recap", "--json")) == ["timed", "untimed"]
    assert ask("show").lines[0].startswith("timed ")
    assert [json.loads(line)["used"] is None for line in ask("ls", "--json").lines] == [False, True]


def test_status_and_recap_ask_about_the_same_calls(march, ask):
    status = json.loads(ask("status", "--json").out)
    recap = [json.loads(line) for line in ask("recap", "--json").lines]
    assert status["needs"] == []
    assert [one["in_doubt"] for one in recap] == [[], []]


def test_a_doubt_too_old_to_ask_about_is_named_in_a_quiet_line(march, ask):
    older = "  older: 1 call of imported sessions has no known outcome   stator calls --open"
    assert older in ask("status").lines
    assert json.loads(ask("status", "--json").out)["old_doubts"] == 1
    assert "1 call without a result" in ask("recap", CART).out
    assert "git push" in ask("calls", "--open").out


def test_a_doubt_of_a_driven_session_is_asked_about_however_old(store, ask):
    assert "older:" not in ask("status").out
    assert json.loads(ask("recap", "--json").lines[0])["old_doubts"] == 0


def test_calls_name_their_session_in_a_column_and_their_day_once(march, ask):
    answer = ask("calls", "--failed")
    assert answer.lines[0].startswith("project shop · failed calls · 9 Mar")
    header, first = answer.lines[2:4]
    assert header.split() == ["CALL", "AT", "WHEN", "TURN", "ENDED", "WHAT", "SESSION"]
    assert first[header.index("WHEN") :].startswith("09:17:27")
    assert first[header.index("SESSION") :].startswith("let the cart")


def test_no_line_of_a_piped_list_is_wider_than_a_page(march, ask, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    for words in (["calls"], ["calls", "--failed"], ["files"], ["ls"]):
        assert max(map(len, ask(*words).lines), default=0) <= 100, words


def test_the_beginning_of_a_name_means_the_session_and_not_its_sub_agent(
    tmp_path, world, ask, monkeypatch
):
    path = tmp_path / "family.db"
    with world.open(path) as opened, opened.open("implement basket") as s, s.turn("go") as t:
        with s.child("implement basket/explore") as child, child.turn("look") as look:
            look.say("found")
        t.say("done")
    monkeypatch.setenv("STATOR_STORE", str(path))
    assert ask("log", "impl").lines[0].startswith("implement basket s_")


def test_names_that_begin_alike_are_listed_with_their_ids(two, ask, world):
    with world.open(two) as opened, opened.open("newest") as s, s.turn("go") as t:
        t.say("done")
    answer = ask("log", "new")
    assert answer.code == 2
    assert "(newer)" in answer.err
    assert "(newest)" in answer.err


def test_a_brief_is_wrapped_on_a_terminal_and_nothing_of_it_is_cut(
    tmp_path, world, ask, monkeypatch
):
    path = tmp_path / "brief.db"
    with world.open(path) as opened:
        record(opened)
    monkeypatch.setenv("STATOR_STORE", str(path))
    shown = on_terminal(80, "brief", "fix-login")
    assert max(map(len, shown)) <= 80
    assert " ".join(" ".join(shown).split()) == " ".join(ask("brief", "fix-login").out.split())


def test_a_budget_shows_a_dash_for_what_nobody_reported(two, ask):
    lines = {line.split()[0]: line for line in ask("budget", "newer").lines[3:]}
    assert lines["tokens"].split()[-1] == "–"
    assert lines["turns"].endswith("1 turn")


def reads(opened, name, *tools):
    with opened.open(name, agent="coder") as s, s.turn("look") as t:
        for tool in tools:
            t.call(stator.tool(lambda: None, name=tool, effect="read"))


def tools(answer):
    return [json.loads(line)["tool"] for line in answer.lines]


def test_the_calls_of_history_that_was_imported_today_come_after_those_of_today(two, world, ask):
    with world.open(two) as opened:
        reads(opened, "newest", "look_today")
    assert ask("import", str(SAMPLES), "--into", "shop").code == 0  # sessions of March
    assert tools(ask("calls", "-n", "1", "--json"))[0] == "look_today"


def test_a_call_in_a_session_used_long_ago_is_found_and_comes_last(
    tmp_path, world, ask, monkeypatch
):
    path = tmp_path / "many.db"
    monkeypatch.setenv("STATOR_STORE", str(path))
    with world.open(path) as opened:
        reads(opened, "first", "rare")
        for n in range(NEAR):
            reads(opened, f"later-{n}", "common")
        reads(opened, "last", "rare", "common")
    assert tools(ask("calls", "--tool", "rare", "--json")) == ["rare", "rare"]
    lines = ask("calls", "--tool", "rare").lines
    assert [line.split()[-1] for line in lines if " rare(" in line] == ["last", "first"]
    assert tools(ask("calls", "--tool", "rare", "-n", "1", "--json"))[0] == "rare"
    assert len(tools(ask("calls", "--json"))) == NEAR + 3


def test_a_fork_does_not_list_the_calls_of_its_origin_again(tmp_path, world, ask, monkeypatch):
    path = tmp_path / "fork.db"
    monkeypatch.setenv("STATOR_STORE", str(path))
    with world.open(path) as opened:
        reads(opened, "origin", "a", "b")
        opened.fork("origin", "t1", as_name="copy")
    assert sorted(tools(ask("calls", "--json"))) == ["a", "b"]


KILLED = """
import os, signal, stator
pay = stator.tool(lambda cents: os.kill(os.getpid(), signal.SIGKILL), name="pay")
with stator.open("killed") as s, s.turn("pay for the chairs") as t:
    t.plan(["pay"])
    t.call(pay, cents=16800)
"""


@pytest.fixture
def killed(two):
    """A session whose program was killed while it paid; `newer` was used after it."""
    done = subprocess.run([sys.executable, "-c", KILLED], check=False)
    assert done.returncode == -signal.SIGKILL
    with stator.connect(two) as store, store.open("after") as s, s.turn("later work") as t:
        t.say("done")


def test_settling_a_call_of_a_killed_program_does_not_say_that_its_session_was_used(killed, ask):
    before = [json.loads(line) for line in ask("ls", "--json").lines]
    assert ask("settle", "--done", "--why", "the bank says so", "--yes").code == 0
    after = [json.loads(line) for line in ask("ls", "--json").lines]
    assert [(one["name"], one["used"]) for one in after] == [
        (one["name"], one["used"]) for one in before
    ]
    assert ask("log").lines[0].startswith("after ")


def test_a_prompt_about_a_settled_call_is_told_that_it_happened(killed, ask):
    assert (
        "in doubt: [model] «pay(cents=16800)»"
        in ask("brief", "--for-prompt", "pay for the chairs").out
    )
    assert ask("settle", "--done", "--why", "the bank says so", "--yes").code == 0
    told = ask("brief", "--for-prompt", "pay for the chairs").out
    assert "was in doubt and happened, do not repeat it: [model] «pay(cents=16800)»" in told
    assert "[user] «settled as done by" in told
    assert "the bank says so" in told


def asks_to_deploy(path, world):
    deploy = stator.tool(lambda: None, name="deploy", approve=True)
    with (
        pytest.raises(stator.ApprovalNeeded),
        world.open(path) as opened,
        opened.open("older") as s,
        s.turn("deploy") as t,
    ):
        t.call(deploy)


def test_going_back_or_denying_a_call_does_not_say_that_a_session_was_used(two, world, ask):
    asks_to_deploy(two, world)
    with world.open(two) as opened, opened.open("newest") as s, s.turn("later") as t:
        t.say("done")
    (waiting,) = [json.loads(line) for line in ask("approvals", "--json").lines]
    assert ask("deny", waiting["call"], "--why", "the shop is closed today").code == 0
    assert names(ask("ls", "--json"))[0] == "newest"
    assert ask("rewind", "older:t1", "--yes").code == 0
    assert names(ask("ls", "--json"))[0] == "newest"


def test_a_call_that_was_denied_does_not_need_a_person_any_more(two, world, ask):
    asks_to_deploy(two, world)
    (waiting,) = [json.loads(line) for line in ask("approvals", "--json").lines]
    assert [one["what"] for one in json.loads(ask("status", "--json").out)["needs"]] == ["approve"]
    assert ask("deny", waiting["call"]).code == 0
    assert json.loads(ask("status", "--json").out)["needs"] == []


def test_a_session_that_was_cut_off_needs_a_person_also_after_its_call_was_settled(killed, ask):
    assert ask("settle", "--done", "--why", "the bank says so", "--yes").code == 0
    (need,) = json.loads(ask("status", "--json").out)["needs"]
    assert need["what"] == "interrupted"


def test_a_rewind_that_is_undone_leaves_authors_and_turns_as_they_were(store, ask):
    before = [ask(*words).lines for words in (["decisions", "fix-login"], ["brief", "fix-login"])]
    assert ask("rewind", "fix-login:t1", "--yes").code == 0
    assert ask("rewind", "fix-login:rewind/1", "--yes").code == 0
    decisions, brief = (
        ask(*words).lines for words in (["decisions", "fix-login"], ["brief", "fix-login"])
    )
    assert decisions[1:] == before[0][1:]
    said = [line for line in brief if line.startswith("- ")]
    assert said == [line for line in before[1] if line.startswith("- ")]


def test_a_session_that_was_cut_off_is_called_so_in_its_headings_also_after_its_call_was_settled(
    killed, ask
):
    assert ask("settle", "--done", "--why", "the bank says so", "--yes").code == 0
    (need,) = json.loads(ask("status", "--json").out)["needs"]
    for command in ("log", "files", "resume"):
        assert " · interrupted · " in ask(command, need["session"]).lines[0]
