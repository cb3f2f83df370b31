"""Tests that OpenHands' trajectories and evaluation outputs become sessions."""

from __future__ import annotations

import json

import pytest

import stator
from importers.import_helpers import (
    DATA,
    conversations_in,
    import_file,
    plan,
    prompts_of,
    rendered,
    views,
)

TRAJECTORY = DATA / "openhands" / "trajectory.json"
OUTPUT = DATA / "openhands" / "output.jsonl"


@pytest.fixture
def store():
    with stator.connect("memory:", project="shop") as opened:
        yield opened


def test_a_response_with_two_calls_is_one_answer(store):
    import_file(store, TRAJECTORY, "openhands")
    (shown,) = views(store, TRAJECTORY, "openhands")
    (answer,) = [c for c in shown.log() if c.origin == ("openhands", "chatcmpl-1")]
    asks = [block for block in answer.value("output")["content"] if block["type"] == "tool_use"]
    assert [ask["id"] for ask in asks] == ["toolu_1", "toolu_2"]
    assert answer.value("usage") == {
        "tokens": 160, "tokens:in": 100, "tokens:out": 20, "tokens:cache_read": 40,
    }  # fmt: skip


def test_an_observation_is_the_outcome_of_the_action_it_names(store):
    import_file(store, TRAJECTORY, "openhands")
    (shown,) = views(store, TRAJECTORY, "openhands")
    outcomes = [(c.tool, c.status, c.cause) for c in shown.log() if c.kind == "outcome"]
    assert outcomes == [
        ("str_replace_editor", "ok", ""),
        ("execute_bash", "error", "exit code 1"),
        ("task_tracking", "ok", ""),
        ("finish", "ok", ""),
    ]
    assert [c.tool for c in shown.log() if c.kind == "call"][-1] == "run"
    assert prompts_of(shown) == ["add tax to the cart", "thanks, remove the build"]


def test_writing_a_new_file_creates_it(store):
    import_file(store, TRAJECTORY, "openhands")
    (shown,) = views(store, TRAJECTORY, "openhands")
    assert [(change.path, change.op) for change in shown.files()] == [
        ("/workspace/tax.py", "created")
    ]


def test_the_task_list_sets_the_plan(store):
    import_file(store, TRAJECTORY, "openhands")
    (shown,) = views(store, TRAJECTORY, "openhands")
    assert plan(shown) == [("fix the test", "in_progress")]


def test_a_condensation_has_a_summary_and_names_the_first_kept_item(store):
    import_file(store, TRAJECTORY, "openhands")
    (shown,) = views(store, TRAJECTORY, "openhands")
    said = str(rendered(store, shown))
    assert "Tax is in tax.py." in said
    assert "'I write and run.'" not in said


def test_each_line_of_an_output_is_a_session(store):
    import_file(store, OUTPUT, "openhands")
    first, second = views(store, OUTPUT, "openhands")
    assert (prompts_of(first), prompts_of(second)) == (["add tax to the cart"], ["add a lamp"])
    assert first.record.labels == {
        "instance": "shop__cart-1", "success": "true", "times": "unknown",
    }  # fmt: skip


def test_without_ids_an_observation_belongs_to_the_action_before_it(store):
    import_file(store, OUTPUT, "openhands")
    first, second = views(store, OUTPUT, "openhands")
    assert [(c.tool, c.status) for c in first.log() if c.kind == "outcome"] == [
        ("run", "ok"),
        ("run_ipython", "ok"),
        ("finish", "ok"),
    ]
    assert [c.value("output") for c in second.log() if c.kind == "outcome"] == ["lamp.py"]


def test_a_damaged_line_is_skipped_and_the_rest_is_read(store, tmp_path):
    lines = OUTPUT.read_text().splitlines()
    path = tmp_path / "output.jsonl"
    path.write_text("\n".join([lines[0], '{"instance_id": "x", "hist', "7", lines[1]]))
    assert len(conversations_in(path, "openhands")) == 2
    import_file(store, path, "openhands")
    assert len(views(store, path, "openhands")) == 2


def written(path, history):
    path.write_text(json.dumps(history))
    return path


def call(number, kind, **args):
    when = f"2026-02-03T10:00:{number:02}"
    return {"id": number, "timestamp": when, "source": "agent", "action": kind, "args": args}


def observation(number, kind, cause, content="", **extras):
    return {"id": number, "timestamp": f"2026-02-03T10:00:{number:02}", "source": "environment",
            "observation": kind, "cause": cause, "content": content, "extras": extras}  # fmt: skip


ASKED = {"id": 0, "timestamp": "2026-02-03T10:00:00", "source": "user", "action": "message",
         "args": {"content": "tidy up"}}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "status"), [("make all", "in doubt"), ("find . -name x", "timeout")]
)
def test_a_command_that_still_runs_is_in_doubt_if_it_may_write(store, tmp_path, command, status):
    told = [
        ASKED,
        call(1, "run", command=command),
        observation(2, "run", 1, exit_code=-1, command_id=7),
    ]
    path = written(tmp_path / "a.json", told)
    import_file(store, path, "openhands")
    (shown,) = views(store, path, "openhands")
    assert [c.status for c in shown.log() if c.kind == "outcome"] == [status]


@pytest.mark.parametrize(
    ("kind", "steps"), [("error", []), ("task_tracking", [("fix it", "pending")])]
)
def test_only_a_plan_that_was_accepted_is_the_plan(store, tmp_path, kind, steps):
    tasks = [{"title": "fix it", "status": "todo"}]
    told = [
        ASKED,
        call(1, "task_tracking", command="plan", task_list=tasks),
        observation(2, kind, 1, "x"),
    ]
    path = written(tmp_path / "a.json", told)
    import_file(store, path, "openhands")
    (shown,) = views(store, path, "openhands")
    assert plan(shown) == steps


def test_a_session_is_called_after_the_problem_and_not_after_the_instructions(tmp_path):
    asked = "Please fix the following issue.\n\n# Problem Statement\nThe lamp is dark."
    path = written(tmp_path / "a.json", [{**ASKED, "args": {"content": asked}}])
    (found,) = conversations_in(path, "openhands")
    assert found.conversation.name == "The lamp is dark."
