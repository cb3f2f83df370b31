"""`stator check`: a person runs what proves that a step is done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stator


@pytest.fixture
def planned(tmp_path, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "a.db"))
    with stator.open("task") as s, s.turn("one") as t:
        t.plan("tests pass", "done", check="test -e ok", files=["a.py"])
        t.plan("docs", "done", check="test -e docs")
        t.plan("bare", "done")


def test_a_check_that_succeeds_makes_its_step_read_done(planned, ask):
    Path("ok").touch()
    found = ask("check", "tests", "--yes")
    assert (found.code, found.out.strip()) == (0, "tests pass: done")
    assert "Plan (1 of 3 done, 2 claimed)" in ask("show").out


def test_a_check_that_fails_is_on_record_as_a_call(planned, ask):
    found = ask("check", "tests", "--yes")
    assert found.code == 1
    assert "tests pass: claimed — its check failed at @" in found.out
    assert "check" in ask("calls", "--status", "error").out


def test_all_claimed_steps_with_a_check_are_checked(planned, ask):
    Path("ok").touch()
    found = ask("check", "--yes", "--json")
    steps = {step["step"]: step["status"] for step in json.loads(found.out)["steps"]}
    assert (found.code, steps) == (1, {"tests pass": "done", "docs": "claimed"})


def test_nothing_runs_without_a_yes_and_the_command_is_shown(planned, ask):
    found = ask("check", "tests")
    assert found.code == 2
    assert "$ test -e ok" in found.out
    assert "nothing was run" in found.err
    assert "its check did not run" in ask("state", "-c", "plan").out


def test_a_step_without_a_check_cannot_be_checked(planned, ask):
    found = ask("check", "bare", "--yes")
    assert (found.code, "names no check" in found.err) == (2, True)


def test_a_step_that_nobody_planned_is_not_found(planned, ask):
    assert ask("check", "nothing", "--yes").code == 3


def test_a_session_at_work_is_left_to_its_program(tmp_path, monkeypatch, ask):
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "a.db"))
    with stator.open("task") as s, s.turn("one") as t:
        t.plan("a", "done", check="true")
        found = ask("check", "a", "--yes")
    assert found.code != 0
    assert "is active" in found.err


def test_a_recorded_session_gets_the_check_as_a_call_beside_its_own(tmp_path, monkeypatch, ask):
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "a.db"))
    transcript = Path(__file__).parents[2] / "examples" / "transcripts" / "claude-code"
    assert ask("import", str(transcript), "--project", ".").code == 0
    with stator.connect() as store:
        (row, *_) = store.sessions().rows
        store.contribute(row.id).plan("a", "done", check="true")
    found = ask("check", "a", "-s", row.id, "--yes")
    assert (found.code, found.out.strip()) == (0, "a: done")
    assert ask("verify").code == 0


def test_a_command_of_a_foreign_store_is_not_run(planned, ask, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "stranger"))
    found = ask("check", "tests", "--yes")
    assert found.code != 0
    assert "cannot run a command that is recorded in it" in found.err
