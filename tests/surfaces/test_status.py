"""`stator` alone: where things are, what needs a person, and what to type next."""

from __future__ import annotations

import json
import re

import pytest

import stator
from surfaces.recorded import START, normal, record
from surfaces.test_tables import on_terminal

POLICY = '[prices."claude-*"]\n"tokens:in" = 3.00\n"tokens:out" = 15.00\n'


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")


def answer_of(usage, model="claude-sonnet"):
    text = [{"type": "text", "text": "done"}]
    return {"role": "assistant", "model": model, "content": text, "usage": usage}


def test_stator_alone_is_its_status(store, ask):
    assert ask().out == ask("status").out
    assert ask().code == 0


def test_the_status_says_what_needs_you_with_the_command_and_how_the_last_session_ended(
    store, ask, wide
):
    lines = normal(ask().out).splitlines()
    assert lines[0].startswith("shop · 1 session · store ")
    assert lines[2] == "Needs you"
    assert lines[3].split("  ")[1:3] == ["in doubt", "pay(amount=5)"]
    assert " fix-login t3 · " in lines[3]
    assert lines[3].endswith("stator settle c_…")
    last = next(line for line in lines if line.startswith("Last "))
    assert "fix-login" in last
    assert "demo-agent" in last
    assert "in doubt" in last
    assert "finish, and pay the invoice" in last
    assert last.endswith("–")  # no price is recorded
    assert "Last 7 days  1 session · 1.2 k tokens · cost –" in lines
    assert lines[-1] == "stator log fix-login · stator recap · stator --help"


def test_the_command_of_each_need_acts(store, ask):
    (need,) = json.loads(ask("status", "--json").out)["needs"]
    assert ask(*need["command"].split()[1:], "--done").code == 0
    assert "Needs you  nothing" in ask().lines


def test_the_status_as_json(store, ask):
    found = json.loads(ask("status", "--json").out)
    assert found["schema"] == "stator.status/1"
    assert (found["project"], found["sessions"], found["not_looked"]) == ("shop", 1, 0)
    (need,) = found["needs"]
    assert (need["what"], need["text"], need["turn"]) == ("in doubt", "pay(amount=5)", 3)
    (last,) = found["last"]
    assert (last["asked"], last["ended"], last["files"]) == ("fix the login bug", "in doubt", 2)
    assert last["spend"] == {"tokens": 1200}
    assert not last["computed"]
    assert found["week"]["spend"] == {"tokens": 1200, "tokens:unpriced": 1200}
    assert found["week"]["cut"] is None
    assert len(found["next"]) == 3


def test_a_session_that_runs_is_shown_with_its_turn_and_plan(store, ask, wide):
    with stator.connect(store, project="shop").open("refactor") as s, s.turn("tidy up") as t:
        t.plan(["one", "two"])
        shown = ask()
        running = json.loads(ask("status", "--json").out)["running"]
    (line,) = [line for line in shown.lines if line.startswith("Running ")]
    assert line.split()[1:5] == ["refactor", "t1", "0/2", "steps"]
    assert "between calls" in line
    assert running[0]["plan"] == {"done": 0, "total": 2}
    assert shown.lines[-1].startswith("stator log refactor · stator top")


def test_a_claimed_step_ends_with_the_command_that_checks_it(store, ask, wide):
    with stator.connect(store, project="shop").open("tests first") as s, s.turn("go") as t:
        t.plan("all tests pass", "done", check="true")
    (line,) = [line for line in ask().lines if line.lstrip().startswith("claimed")]
    assert "“all tests pass”" in line
    command = line.partition("stator check -s ")[2]
    assert command.startswith("s_")  # its name would need quotes
    assert ask("check", "-s", command, "--yes").code == 0
    assert "  claimed" not in ask().out


def test_a_folder_without_a_store_is_told_what_to_type(ask):
    answer = ask()
    assert answer.code == 0
    assert answer.lines[0].startswith("no store · looked for ~/.local/share/stator/store.db")
    assert "nothing is recorded here yet" in answer.lines
    assert any(line.split()[:2] == ["stator", "import"] for line in answer.lines)
    found = json.loads(ask("status", "--json").out)
    assert (found["store"], found["sessions"], found["needs"]) == (None, 0, [])
    assert len(found["next"]) == 3


def test_a_store_that_was_named_and_is_not_there_is_an_error(ask, tmp_path, monkeypatch):
    assert ask("status", "--store", str(tmp_path / "none.db")).code == 5
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "none.db"))
    assert ask().code == 5


def test_an_empty_store_says_what_to_type(ask, tmp_path, monkeypatch):
    stator.connect(tmp_path / "new.db").close()
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "new.db"))
    answer = ask()
    assert answer.lines[0].startswith("shop · 0 sessions · store ")
    assert "nothing is recorded here yet" in answer.lines


def test_a_project_without_sessions_names_those_of_the_store(ask, tmp_path, world, monkeypatch):
    path = tmp_path / "other.db"
    with world.open(path, project="elsewhere") as opened:
        record(opened)
    monkeypatch.setenv("STATOR_STORE", str(path))
    assert "no sessions in this project; 1 session in the store" in ask().out
    assert "fix-login" in ask("status", "--everywhere").out


def test_a_cost_that_was_computed_is_marked(store, ask, wide, tmp_path):
    with stator.connect(store, project="shop").open("priced") as s, s.turn("go") as t:
        t.reply(answer_of({"input_tokens": 100_000, "output_tokens": 10_000}))
    assert "~$" not in ask("ls").out
    (tmp_path / "work/stator.toml").write_text(POLICY)
    row = next(line for line in ask("ls").lines if line.startswith("priced"))
    assert "~$0.45" in row
    assert "~$0.45" in ask().out
    assert "cost ~$0.45" in ask("show", "priced").out
    rows = [json.loads(line) for line in ask("top", "--all", "--json").lines]
    computed = {row["name"]: row["computed"] for row in rows}
    assert computed == {"priced": True, "fix-login": False}


def test_old_sessions_are_not_of_the_last_seven_days(store, ask, monkeypatch):
    month = 31 * 24 * 3600 * 1_000_000
    monkeypatch.setattr("stator.runtime.base.context.Context.clock", lambda _: START + month)
    assert "Last 7 days  no sessions" in ask().lines


def test_what_needs_you_leaves_out_the_cause_where_it_has_no_room_and_never_cuts_the_age(
    store, ask, monkeypatch
):
    told = {}
    for columns in (80, 140):
        monkeypatch.setenv("COLUMNS", str(columns))
        told[columns] = next(line for line in ask().lines if "in doubt  pay" in line)
    assert re.search(r"fix-login t3 · \d+ \w+( ago)?  +stator settle", told[80])
    assert ", the tool does not know  stator settle" in told[140]


def test_the_last_sessions_show_what_was_asked_last_unless_that_says_nothing(store, ask, wide):
    with stator.connect(store, project="shop").open("fix-login") as s, s.turn("go on") as t:
        t.say("ok")
    last = next(line for line in ask().lines if line.startswith("Last "))
    assert "fix the login bug" in last


def test_the_last_seven_days_count_sessions_as_the_cost_of_seven_days_does(store, ask, wide):
    with stator.connect(store, project="shop").open("silent") as s, s.turn("go") as t:
        t.say("ok")
    (line,) = [line for line in ask().lines if line.startswith("Last 7 days")]
    assert "2 sessions (demo-agent 1), 1 with recorded usage" in line
    heading = ask("cost", "--since", "7d").lines[0]
    assert "· 1 session (1 more without recorded usage)" in heading


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_no_line_of_the_status_is_wider_than_a_real_terminal(columns, store):
    with (
        stator.connect(store, project="shop").open("x" * 90, agent="coder") as s,
        s.turn("please " * 60) as t,
    ):
        t.plan("all of these " * 20, "done", check="pytest -q")
        t.say("ok", usage={"tokens": 90_500, "tokens:cache_read": 90_000})
    lines = on_terminal(columns)
    assert max(map(len, lines)) <= columns
    assert any("stator settle" in line for line in lines)  # the command is never cut
    assert any("stator check -s s_" in line for line in lines)


def test_recorded_content_is_escaped(store, ask):
    with stator.connect(store, project="shop").open("evil") as s, s.turn("\x1b[2Jgone") as t:
        t.say("ok")
    assert "\x1b" not in ask().out
