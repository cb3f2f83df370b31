"""Tests that SWE-agent's and mini-swe-agent's runs, which have few ids, become sessions."""

from __future__ import annotations

import json

import pytest

import stator
from importers.import_helpers import DATA, conversations_in, import_file, prompts_of, view, views

TOOLS = DATA / "swe-agent" / "tools.traj"
TEXT = DATA / "swe-agent" / "text.traj"
MINI = DATA / "mini-swe-agent" / "run.traj.json"
LISTED = DATA / "mini-swe-agent" / "list.traj.json"


@pytest.fixture
def store():
    with stator.connect("memory:", project="shop") as opened:
        yield opened


def outcomes(shown):
    return [(c.tool, c.status) for c in shown.log() if c.kind == "outcome"]


def test_the_last_result_comes_from_the_trajectory(store):
    import_file(store, TOOLS, "swe-agent")
    (shown,) = views(store, TOOLS, "swe-agent")
    assert outcomes(shown) == [("create", "ok"), ("bash", "ok"), ("submit", "ok")]
    last = [c for c in shown.log() if c.kind == "outcome"][-1]
    assert last.value("output") == "diff --git a/tax.py b/tax.py"


def test_a_command_in_an_answer_is_a_call_and_the_next_message_its_result(store):
    import_file(store, TEXT, "swe-agent")
    (shown,) = views(store, TEXT, "swe-agent")
    assert outcomes(shown) == [("open", "ok"), ("edit", "ok")]
    assert [(change.path, change.op) for change in shown.files()] == [("cart.py", "modified")]


def test_a_demonstration_is_not_a_prompt(store):
    import_file(store, TEXT, "swe-agent")
    (shown,) = views(store, TEXT, "swe-agent")
    assert prompts_of(shown) == ["ISSUE:\nTax is missing"]


def test_the_exit_status_of_a_run_ends_its_turn(store):
    for path, status in [(TOOLS, "ok"), (TEXT, "aborted")]:
        import_file(store, path, "swe-agent")
        (shown,) = views(store, path, "swe-agent")
        assert [c.status for c in shown.log() if c.kind == "turn_end"] == [status]
        assert shown.record.name.startswith("Tax is missing")


def test_the_cost_of_a_run_is_on_its_last_answer(store):
    import_file(store, TOOLS, "swe-agent")
    (shown,) = views(store, TOOLS, "swe-agent")
    spent = [c.value("usage") for c in shown.log() if c.kind == "entry" and c.has("usage")]
    assert spent == [{"tokens": 120, "tokens:in": 100, "tokens:out": 20, "money:usd": 250_000}]


def test_a_file_without_a_history_is_read_from_its_actions(store, tmp_path):
    whole = json.loads(TEXT.read_text())
    del whole["history"]
    path = tmp_path / "a.traj"
    path.write_text(json.dumps(whole))
    import_file(store, path, "swe-agent")
    (shown,) = views(store, path, "swe-agent")
    assert outcomes(shown) == [("open", "ok"), ("edit", "ok")]


def test_return_codes_set_the_outcome_of_a_command(store):
    import_file(store, LISTED, "mini-swe-agent")
    (shown,) = views(store, LISTED, "mini-swe-agent")
    assert outcomes(shown) == [("bash", "ok"), ("bash", "error"), ("bash", "ok")]
    assert [c.value("output") for c in shown.log() if c.kind == "outcome"][1] == "1 failed"


def test_newer_runs_have_ids_times_and_costs(store):
    import_file(store, MINI, "mini-swe-agent")
    (found,) = conversations_in(MINI, "mini-swe-agent")
    shown = view(store, found)
    calls = [c for c in shown.log() if c.kind == "call"]
    assert [call.origin for call in calls] == [
        (found.conversation.source, f"call_{n}") for n in (1, 2)
    ]
    assert calls[0].happened == 1_794_725_170_500_000
    (spent,) = [c.value("usage") for c in shown.log() if c.kind == "entry" and c.has("usage")]
    assert spent["tokens"] == 160
    assert [c.status for c in shown.log() if c.kind == "turn_end"] == ["aborted"]


def test_a_continued_run_is_one_session_and_one_turn(store, tmp_path):
    told = json.loads(LISTED.read_text())
    path = tmp_path / "a.traj.json"
    for count in range(3, len(told) + 1):
        path.write_text(json.dumps(told[:count]))
        import_file(store, path, "mini-swe-agent")
    (shown,) = views(store, path, "mini-swe-agent")
    kinds = [c.kind for c in shown.log()]
    assert (kinds.count("turn"), kinds.count("call"), kinds.count("turn_end")) == (1, 3, 1)
