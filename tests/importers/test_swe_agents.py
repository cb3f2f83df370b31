"""Tests that SWE-agent's and mini-swe-agent's runs, which have few ids, become sessions."""

from __future__ import annotations

import json
import os

import pytest

import stator
from importers.import_helpers import DATA, conversations_in, prompts_of, view, views
from importers.import_helpers import import_file as import_at

TOOLS = DATA / "swe-agent" / "tools.traj"
TEXT = DATA / "swe-agent" / "text.traj"
MINI = DATA / "mini-swe-agent" / "run.traj.json"
LISTED = DATA / "mini-swe-agent" / "list.traj.json"


def import_file(store, path, name, *, at_rest=True):
    """Import a run that is over: some of these files have no times by which that could be judged."""
    return import_at(store, path, name, at_rest=at_rest)


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


REFUSALS = [
    "Your proposed edit has introduced new syntax error(s). Please understand the fixes and retry your edit command.",
    "Text not found: def cart\n\nYour edit has not been applied.",
    "No replacement was performed, old_str `a` did not appear verbatim in /cart.py.",
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_an_edit_that_was_refused_is_an_error_and_changes_no_file(store, tmp_path, refusal):
    whole = json.loads(TEXT.read_text())
    edits = [n for n, m in enumerate(whole["history"]) if m.get("action", "").startswith("edit")]
    shown = "[File: /shop/cart.py (10 lines total)]\n1:a"
    whole["history"][edits[0] + 1 :] = [{"role": "user", "content": f"{refusal}\n{shown}"}]
    path = tmp_path / "a.traj"
    path.write_text(json.dumps(whole))
    import_file(store, path, "swe-agent")
    (shown,) = views(store, path, "swe-agent")
    (edit,) = [c for c in shown.log() if c.kind == "outcome" and c.tool == "edit"]
    assert (edit.status, edit.cause[:12]) == ("error", refusal[:12])
    assert "modified" not in [change.op for change in shown.files()]


def test_actions_after_the_history_are_read_from_the_trajectory(store, tmp_path):
    whole = json.loads(TOOLS.read_text())
    last = max(n for n, m in enumerate(whole["history"]) if m["role"] == "assistant")
    whole["history"] = whole["history"][:last]
    path = tmp_path / "a.traj"
    path.write_text(json.dumps(whole))
    import_file(store, path, "swe-agent")
    (shown,) = views(store, path, "swe-agent")
    assert outcomes(shown)[-1] == ("submit", "ok")


def test_a_submission_without_an_observation_is_not_cancelled(store, tmp_path):
    whole = json.loads(TOOLS.read_text())
    whole["trajectory"][-1]["observation"] = ""
    path = tmp_path / "a.traj"
    path.write_text(json.dumps(whole))
    import_file(store, path, "swe-agent")
    (shown,) = views(store, path, "swe-agent")
    assert outcomes(shown)[-1] == ("submit", "ok")


def test_a_run_without_times_is_as_old_as_its_file_and_says_so(store, tmp_path):
    path = tmp_path / "a.traj"
    path.write_bytes(TEXT.read_bytes())
    os.utime(path, (1_600_000_000, 1_600_000_000))
    newer = tmp_path / "b.traj.json"
    newer.write_bytes(MINI.read_bytes())
    import_file(store, newer, "mini-swe-agent")
    import_file(store, path, "swe-agent")
    (shown,) = views(store, path, "swe-agent")
    assert shown.record.labels["times"] == "unknown"
    assert {commit.when for commit in shown.log()} == {1_600_000_000_000_000}
    assert [row.id for row in store.sessions().rows][-1] == shown.id
    (dated,) = views(store, newer, "mini-swe-agent")
    assert "times" not in dated.record.labels


def test_a_command_that_only_reads_is_not_in_doubt_without_a_result(store, tmp_path):
    told = json.loads(LISTED.read_text())
    reading = "```mswea_bash_command\ngrep -rn tax . | head -5 && cat cart.py\n```"
    path = tmp_path / "a.traj.json"
    path.write_text(json.dumps([*told[:2], {"role": "assistant", "content": reading}]))
    import_file(store, path, "mini-swe-agent")
    (shown,) = views(store, path, "mini-swe-agent")
    assert [c.effect for c in shown.log() if c.kind == "call"] == ["read"]


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
        import_file(store, path, "mini-swe-agent", at_rest=count == len(told))
    (shown,) = views(store, path, "mini-swe-agent")
    kinds = [c.kind for c in shown.log()]
    assert (kinds.count("turn"), kinds.count("call"), kinds.count("turn_end")) == (1, 3, 1)
