"""Tests that Cline's tasks become turns, calls and a plan."""

from __future__ import annotations

import json

import pytest

import stator
from importers.import_helpers import DATA, conversations_in, import_file, plan, prompts_of, views

TASK = DATA / "cline" / "1770913324799" / "api_conversation_history.json"


@pytest.fixture
def store():
    with stator.connect("memory:", project="shop") as opened:
        yield opened


@pytest.fixture
def shown(store):
    import_file(store, TASK, "cline")
    (only,) = views(store, TASK, "cline")
    return only


def test_only_what_the_user_typed_is_a_prompt(shown):
    first, second = prompts_of(shown)
    assert first == "add tax to the cart"
    assert second[0]["text"] == "now fix the test"


def test_an_image_becomes_a_note_with_type_size_and_digest(shown):
    _, (_, image) = prompts_of(shown)
    assert image["text"].startswith("[image/png, 1,200 bytes, sha256 ")


def test_results_find_their_calls_by_tool_and_order(shown):
    outcomes = [(c.tool, c.status, c.cause) for c in shown.log() if c.kind == "outcome"]
    assert outcomes == [
        ("read_file", "ok", ""),
        ("list_files", "ok", ""),
        ("write_to_file", "ok", ""),
        ("execute_command", "error", "exit code 1"),
        ("replace_in_file", "denied", "the user denied it"),
        ("attempt_completion", "ok", ""),
    ]
    assert [c.tool for c in shown.log() if c.kind == "call"][-1] == "execute_command"


def test_the_checklist_sets_the_plan(shown):
    assert plan(shown) == [("read the cart", "done"), ("write tax.py", "done")]


def test_a_call_written_as_tags_is_recognized(shown):
    last = [c for c in shown.log() if c.kind == "call"][-1]
    assert last.value("input") == {"command": "rm -r build", "requires_approval": "true"}
    said = [c for c in shown.log() if c.kind == "entry" and c.actor == "model"][-1]
    assert said.value("output")["content"][0] == {"type": "text", "text": "Then so."}


def test_a_finished_task_ends_its_turn(shown):
    assert [c.status for c in shown.log() if c.kind == "turn_end"] == ["ok"]


def test_folder_time_and_cost_come_from_the_messages(shown):
    (found,) = conversations_in(TASK, "cline")
    assert (found.conversation.id, found.conversation.cwd) == ("1770913324799", "/home/dev/shop")
    turn = next(c for c in shown.log() if c.kind == "turn")
    assert turn.happened == 1_770_913_328_000_000
    answer = next(c for c in shown.log() if c.kind == "entry" and c.has("usage"))
    assert answer.value("usage")["money:usd"] == 250_000


def test_native_results_are_paired_by_their_id(store, tmp_path):
    told = json.loads(TASK.read_text())[:3]
    told[2]["content"] = [
        {"type": "tool_result", "tool_use_id": name, "content": [{"type": "text", "text": words}]}
        for name, words in [("toolu_2", "cart.py"), ("toolu_1", "def cart(): ...")]
    ]
    path = tmp_path / "api_conversation_history.json"
    path.write_text(json.dumps(told))
    import_file(store, path, "cline")
    (only,) = views(store, path, "cline")
    outcomes = [(c.origin[1], c.tool) for c in only.log() if c.kind == "outcome"]
    assert outcomes == [("toolu_2", "list_files"), ("toolu_1", "read_file")]


def test_a_task_restored_to_an_earlier_point_continues_from_there(store, tmp_path):
    folder = tmp_path / "17"
    folder.mkdir()
    path = folder / "api_conversation_history.json"
    told = json.loads(TASK.read_text())
    path.write_text(json.dumps(told))
    import_file(store, path, "cline")
    other = {"role": "assistant", "content": [{"type": "text", "text": "Another way."}]}
    path.write_text(json.dumps([*told[:3], other]))
    import_file(store, path, "cline")
    (only,) = views(store, path, "cline")
    answers = [c for c in only.log() if c.kind == "entry" and c.actor == "model"]
    assert answers[-1].value("output")["content"] == other["content"]
    assert len(answers) == 1 + sum(message["role"] == "assistant" for message in told)
