"""fork, rewind, reflog, retry, adopt, tree, score, flag, and a diff of two tries."""

from __future__ import annotations

import io
import json
import sys

import pytest

import stator
from stator.surfaces.cli.commands import rewind
from stator.surfaces.cli.parts import confirm
from surfaces.recorded import program


@pytest.fixture
def tried(store, world):
    """The recorded session with a retry of its second turn."""
    with world.open(store) as opened, opened.open("fix-login") as s, s.retry("t2") as t:
        t.decide("use opaque tokens", topic="auth", why="they can be revoked", confidence=0.9)
        t.say("All tests pass.", usage={"tokens": 800})
        return t.session.id


def test_rewind_lists_dropped_turns_and_calls_it_does_not_undo(store, ask):
    answer = ask("rewind", "t1")
    assert answer.code == 0
    assert "rewound to t1 (@13)" in answer.lines[0]
    assert "no longer in the state: t2–t3" in answer.out
    assert "in doubt  pay(amount=5)" in answer.out
    assert "stator restore --everything --at" in answer.out
    assert "rewind/1" in answer.lines[-1]
    assert "use JWT" in ask("decisions").out
    assert "t3  rewound" in ask("show").out
    assert "t1, ok" in ask("resume").out


@pytest.fixture
def a_person_says(monkeypatch):
    """A terminal at which somebody types an answer."""

    def says(answer):
        monkeypatch.setattr(confirm, "can_ask", lambda: True)
        monkeypatch.setattr(rewind, "can_ask", lambda: True)
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{answer}\n"))

    return says


def test_on_a_terminal_a_rewind_is_shown_and_asked_about(store, ask, a_person_says):
    a_person_says("n")
    declined = ask("rewind", "t1")
    assert "would rewind" in declined.out
    assert "Rewind? [y/N] nothing was changed" in declined.err
    a_person_says("y")
    assert "rewound to t1" in ask("rewind", "t1").out
    a_person_says("")
    assert "would rewind" not in ask("rewind", "t0", "--yes").out


def test_a_dry_run_of_rewind_changes_nothing(store, ask):
    before = ask("show", "--json").out
    answer = ask("rewind", "t1", "--dry-run", "--json")
    found = json.loads(answer.out)
    assert (found["schema"], found["dry_run"], found["seq"]) == ("stator.rewind/1", True, 0)
    assert found["turns"] == [2, 3]
    assert ask("show", "--json").out == before


def test_rewind_of_a_driven_session_is_busy(store, ask):
    with stator.connect(store).open("fix-login"):
        assert ask("rewind", "t1").code == 4
    assert ask("rewind", "t1").code == 0


def test_rewind_needs_an_existing_position(store, ask):
    assert ask("rewind", "t9").code == 3
    assert ask("rewind", "fix-login").code == 2
    assert ask("rewind", "t1..t2").code == 2


def test_a_rewind_can_be_undone_with_the_reflog(store, ask):
    assert "never rewound" in ask("reflog").err
    ask("rewind", "t1")
    (line,) = ask("reflog", "--json").lines
    assert json.loads(line)["turns"] == [2, 3]
    assert "t2–t3" in ask("reflog").lines[-1]
    assert "in the state again: t2–t3" in ask("rewind", "rewind/1").out
    assert "use signed cookies" in ask("decisions").out


def test_fork_creates_a_new_session(store, ask):
    answer = ask("fork", "t2", "--name", "plan-b")
    assert answer.lines[0].startswith("plan-b s_")
    assert "fork of fix-login" in answer.lines[0]
    found = json.loads(ask("fork", "--json").out)
    assert (found["schema"], found["kind"]) == ("stator.fork/1", "fork")
    assert ask("fork", "--name", "plan-b").code == 4


def test_retry_creates_a_session_and_shows_how_to_continue(store, ask):
    answer = ask("retry", "t2")
    assert answer.lines[0].startswith("fix-login~t2.2 ")
    assert "prompt: run the tests" in answer.out
    assert "stator diff" in answer.out
    found = json.loads(ask("retry", "fix-login:t2", "--json").out)
    assert (found["number"], found["made"], found["prompt"]) == (3, True, "run the tests")
    assert ask("retry", "head").code == 2
    assert ask("retry", "t2", "--effects", "maybe").code == 2


def test_retry_runs_a_program_in_the_new_session(store):
    code = "import stator\nwith stator.open() as s, s.turn('again') as t: print(s.name, t.number)"
    answer = program("retry", "t2", "--", sys.executable, "-c", code)
    assert (answer.code, answer.out) == (0, "fix-login~t2.2 2\n")


def test_retry_creates_no_session_if_the_program_is_missing(store, ask):
    assert ask("retry", "t2", "--", "no-such-program").code == 3
    assert "retry" not in ask("tree").out


def test_diff_compares_two_tries_of_a_turn(tried, ask):
    out = ask("diff", "t2", "t2.2", "-s", "fix-login").out
    assert "why  auth: use opaque tokens instead of use server sessions" in out
    assert "-Two tests fail." in out
    assert "+All tests pass." in out
    assert "confidence none → 90%" in out
    assert "- run_tests(command=pytest -q) error · dropped" in out
    assert "unknown → 800 tokens" in out
    assert "session.py" in out


def test_diff_of_two_tries_as_json(tried, ask):
    found = json.loads(ask("diff", "fix-login:t2", "fix-login:t2.2", "--json").out)
    assert found["schema"] == "stator.compare/1"
    assert found["b"]["session"] == tried
    assert found["diff"]["decisions"][0]["change"] == "superseded"
    assert json.loads(ask("diff", "t1", "t2", "--json").out)["schema"] == "stator.diff/1"


def test_diff_shows_calls_of_another_session(store, ask):
    with stator.connect(store, project="shop") as opened:
        opened.fork("fix-login", "t1", as_name="other")
        with opened.open("other") as s, s.turn("two") as t:
            t.call(stator.tool(lambda path: "x", name="peek", effect="read"), path="b.py")
    assert "calls  1 ok: peek" in ask("diff", "fix-login:t3", "other:head").lines


def test_after_adopt_the_name_refers_to_the_retry_until_undone(tried, ask):
    answer = ask("adopt", "t2.2", "-s", "fix-login")
    assert answer.out.startswith("fix-login → fix-login~t2.2 ")
    assert tried in ask("show", "fix-login").out
    assert "opaque" in ask("decisions", "fix-login").out
    listed = ask("ls").out
    assert "fix-login~t2.2" in listed
    assert "fix-login " not in listed
    assert f"→ s_{tried[-8:]}" in ask("ls", "--all").out
    done = json.loads(ask("adopt", "t2.1", "-s", "fix-login", "--json").out)
    assert (done["schema"], done["by_name"]) == ("stator.adopted/1", "fix-login")
    assert tried not in ask("show", "fix-login").out


def test_show_names_the_session_that_replaced_an_adopted_one(tried, ask):
    original = json.loads(ask("show", "fix-login", "--json").out)["id"]
    ask("adopt", "t2.2", "-s", "fix-login")
    assert "replaced by fix-login~t2.2" in ask("show", original).out
    assert "replaced by" in ask("log", original).out


def test_a_session_without_a_parent_cannot_be_adopted(store, ask):
    answer = ask("adopt", "fix-login")
    assert answer.code == 2
    assert "cannot be adopted" in answer.err


def test_the_tree_shows_all_branches_and_counts_shared_turns_once(tried, ask):
    ask("fork", "t1", "--name", "plan-b", "-s", "fix-login")
    lines = ask("tree", "fix-login").lines
    assert lines[1].startswith("fix-login ")
    assert lines[2].startswith("├─ ")
    assert lines[3].startswith("└─ ")
    assert "retry of t2" in lines[2] + lines[3]
    assert lines[5] == "3 sessions, 4 turns, 2.0 k tokens; shared turns counted once"
    found = json.loads(ask("tree", "--project", "--json").out)
    assert found["total"]["tokens"] == 2000
    assert len(found["branches"]) == 3
    assert "… more sessions" in ask("tree", "--project", "-n", "1").out


def test_a_tree_that_names_no_session_is_about_the_project_and_counts_those_alone(
    tried, store, world, ask
):
    with world.open(store) as opened, opened.open("alone") as s, s.turn("hello") as t:
        t.say("hello")
    lines = ask("tree").lines
    assert lines[0] == "project shop · sessions and what came from them"
    assert [line.split()[0] for line in lines[3:5]] == ["fix-login", "└─"]
    assert lines[-1] == "1 session without forks, retries or sub-agents: stator tree --project"
    assert "alone " in ask("tree", "--project").out


@pytest.mark.parametrize("columns", ["80", "110"])
def test_a_tree_says_what_each_sub_agent_was_asked_and_cuts_no_number(
    columns, store, world, ask, monkeypatch
):
    monkeypatch.setenv("COLUMNS", columns)
    with (
        world.open(store) as opened,
        opened.open("fix-login") as s,
        s.turn("more"),
        s.child("looks") as c,
        c.turn("list the modules of this shop") as t,
    ):
        t.say("there are two", usage={"tokens": 1234, "money:usd": 1_500_000})
    (line,) = [line for line in ask("tree").lines if "└─ looks" in line]
    assert "sub-agent of t4" in line
    assert "list the module" in line
    assert "1.2 k" in line
    assert "$1.50" in line


def test_a_turn_or_a_session_gets_a_score(store, ask):
    assert (
        "helpful 0.75 on t2 — fine"
        in ask("score", "helpful", "0.75", "--on", "t2", "--comment", "fine").out
    )
    found = json.loads(ask("score", "safe", "1", "--json").out)
    assert (found["schema"], found["on"]) == ("stator.score/1", "")
    assert ask("score", "helpful", "much").code == 2
    assert ask("score", "helpful", "1", "--on", "@3").code == 2


def test_show_lists_flags(store, ask):
    (line,) = ask("calls", "--tool", "pay", "--json").lines
    call = json.loads(line)["call"]
    found = json.loads(ask("flag", "odd", "--on", call[-8:], "--why", "twice?", "--json").out)
    assert (found["schema"], found["on"]) == ("stator.flag/1", call)
    assert "odd on" in ask("show").out


def test_recorded_control_characters_are_escaped_in_branches(tmp_path, world, ask):
    path = tmp_path / "odd.db"
    with world.open(path) as opened, opened.open("\x1b[31mred") as s:
        with s.turn("\x1b]0;x\x07") as t:
            t.call(stator.tool(lambda x: x, name="do\x1b[2J"), x="\x1b[1m")
            t.decide("\x1b[5m", topic="t\x1b", why="\x9b")
            t.say("a\x1b[0m")
        with s.retry("t1", prompt="\x1b[3m") as t:
            t.decide("\x1b[6m", topic="t\x1b", why="\x9b2")
            t.say("b\x1b[0m")
    commands = [
        ("diff", "t1", "t1.2", "-s", s.id),
        ("tree", s.id),
        ("retry", "t1", "-s", s.id),
        ("rewind", "t0", "-s", s.id),
        ("reflog", s.id),
    ]
    for words in commands:
        answer = ask(*words, "--store", str(path))
        assert answer.code == 0, answer.err
        assert not {"\x1b", "\x9b", "\x07"} & set(answer.out)
