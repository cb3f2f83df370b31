"""`stator extract`: what it prints, the notes of agents, and the user's own command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import stator
from runtime.test_extract import items_of, record
from stator.errors import InvalidInput
from stator.runtime.ingest import extract_command
from stator.surfaces.cli.parts import run_command as running

PROPOSES = """
import json, sys
given = json.load(sys.stdin)
for one in given["texts"]:
    if "never" in one["text"]:
        print(json.dumps({"commit": one["commit"], "quote": one["text"], "name": "force"}))
        print(json.dumps({"commit": one["commit"], "quote": "not there", "name": "made up"}))
print("no json")
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return tmp_path / "home"


@pytest.fixture
def project(store: Any, ask: Any, home: Path) -> Any:
    """A project of one's own, with a session that an earlier release recorded."""
    assert ask("init").code == 0
    with stator.connect() as opened:
        record(opened, items_of(["answer A", "commit"]), ())
        with opened.open("asked") as session:
            session.turn("never force a push").end()
    return ask


def test_findings_are_listed_and_then_there_is_nothing_more(project):
    first = project("extract")
    assert "2 findings recorded" in first.out
    assert "Which?: A (over B)" in first.out
    assert "nothing to record" in project("extract").out


def test_a_dry_run_says_so_and_json_has_everything(project):
    found = json.loads(project("extract", "--dry-run", "--json").out)
    assert (found["schema"], found["dry_run"]) == ("stator.extraction/1", True)
    assert found["counts"] == {"answer": 1, "revision": 1}
    assert "2 findings would be recorded" in project("extract", "--dry-run").out


def test_notes_of_agents_are_recorded_for_the_project(project, home):
    root = str(Path.cwd())
    folder = home / ".claude" / "projects" / "".join(c if c.isalnum() else "-" for c in root)
    (folder / "memory").mkdir(parents=True)
    (folder / "memory" / "a.md").write_text("note")
    assert "memory/claude-code/a.md" in project("extract").out
    assert "memory" not in project("extract").out


def proposing(program: str) -> None:
    Path("propose.py").write_text(program)
    command = f"{sys.executable} propose.py"
    Path("stator.toml").write_text(f"extract = {json.dumps(command)}\n")


def test_the_command_of_an_own_project_proposes_candidates_with_their_quotes(project):
    proposing(PROPOSES)
    assert "command" not in project("extract").out
    answer = project("extract", "--command")
    assert "command" in answer.out
    assert "refused: no candidate, or no quote of its text" in answer.out
    with stator.connect() as opened:
        (candidate,) = opened.read("asked").state()["candidates"].values()
    assert (getattr(candidate, "name", ""), getattr(candidate, "quote", "")) == (
        "force",
        "never force a push",
    )
    again = json.loads(project("extract", "--command", "--json").out)
    assert again["found"] == []


@pytest.mark.parametrize(
    ("program", "why"),
    [("raise SystemExit(3)", "failed with 3"), ("print('x' * 5_000_000)", "printed more than")],
)
def test_a_command_that_fails_records_nothing(project, program, why):
    proposing(program)
    answer = project("extract", "--command")
    assert answer.code == 2
    assert why in answer.err


def test_a_command_that_takes_too_long_is_ended(monkeypatch):
    monkeypatch.setattr(running, "SECONDS_MAX", 0.2)
    with pytest.raises(InvalidInput, match="took longer"):
        running.run_command(f"{sys.executable} -c 'import time; time.sleep(60)'", b"")


def test_what_a_command_started_is_ended_with_it(monkeypatch):
    monkeypatch.setattr(running, "SECONDS_MAX", 0.2)
    with pytest.raises(InvalidInput, match="took longer"):
        running.run_command("sh -c 'sleep 60 & sleep 60'", b"")


def test_without_a_command_there_is_nothing_to_run(project):
    answer = project("extract", "--command")
    assert (answer.code, "no command to run" in answer.err) == (2, True)


def test_the_command_of_a_project_that_is_not_ones_own_is_not_run(project):
    proposing("open('ran', 'w')")
    with stator.connect() as opened:
        foreign = replace(opened.context, policy_is_own=False)
        assert extract_command.command_of(foreign) == ""
        assert extract_command.command_of(replace(foreign, policy_is_own=True)) != ""
