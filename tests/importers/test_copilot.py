"""Tests that the events of a Copilot CLI session become a session and those of its sub-agents.

The sample is made after public descriptions of the events; the program itself did not write it.
"""

from __future__ import annotations

import json

import pytest

import stator
from importers.import_helpers import (
    DATA,
    conversations_in,
    detected_format,
    import_file,
    kinds,
    plan,
    prompts_of,
    rendered,
    view,
    views,
)
from stator.importers.conversation import subagent_conversation
from stator.importers.copilot.session import FORMAT
from stator.model.exchange.items import Configured, Noted, Prompted, Skipped

SESSION = "5e550000-0000-4000-8000-0000000000c0"
EVENTS = DATA / "copilot" / SESSION / "events.jsonl"


@pytest.fixture
def store():
    with stator.connect("memory:", project="shop") as opened:
        yield opened


@pytest.fixture
def shown(store):
    import_file(store, EVENTS, "copilot")
    (only,) = views(store, EVENTS, "copilot")
    return only


def events():
    return [json.loads(line) for line in EVENTS.read_text().splitlines()]


def written(path, rows):
    path.write_text(
        "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    )
    return path


def items(path):
    (found,) = conversations_in(path, "copilot")
    return list(FORMAT.read(found, None, None))


def test_a_session_has_the_programs_id_and_the_first_prompt_as_its_name(shown):
    (found,) = conversations_in(EVENTS, "copilot")
    assert (found.conversation.id, found.conversation.cwd) == (SESSION, "/home/dev/shop")
    assert shown.record.name == "add tax to the cart"
    assert shown.record.labels == {"version": "1.0.40"}


def test_only_what_a_person_typed_is_a_prompt_of_the_user(shown):
    assert prompts_of(shown) == [
        "add tax to the cart\n[file /home/dev/shop/cart.py]",
        "fix the test",
    ]
    told = [(type(item).__name__, item.by, item.within) for item in items(EVENTS)
            if isinstance(item, (Prompted, Noted))]  # fmt: skip
    assert told == [
        ("Prompted", "user", ""),
        ("Prompted", "agent", f"{SESSION}/call_task"),
        ("Noted", "system", ""),
        ("Prompted", "user", ""),
    ]


def test_calls_have_their_outcome(shown):
    outcomes = {
        c.origin[1]: (c.tool, c.status, c.cause) for c in shown.log() if c.kind == "outcome"
    }
    assert outcomes == {
        "call_todo": ("update_todo", "ok", ""),
        "call_view": ("view", "ok", ""),
        "call_new": ("create", "ok", ""),
        "call_test": ("bash", "error", "exit code 1"),
        "call_task": ("task", "ok", ""),
        "call_rm": ("bash", "denied", "The user rejected this tool call."),
        "call_fix": ("edit", "in doubt", "The execution of this tool was aborted."),
    }


def test_files_and_the_plan_come_from_calls_that_succeeded(shown):
    assert [(change.path, change.op) for change in shown.files()] == [("tax.py", "created")]
    assert plan(shown) == [("read the cart", "done"), ("write tax.py", "pending")]


def test_a_turn_ends_when_the_model_requests_no_call_or_is_aborted(shown):
    assert [c.status for c in shown.log() if c.kind == "turn_end"] == ["ok", "aborted"]


def test_a_sub_agent_is_a_session_of_its_own(store, shown):
    (found,) = conversations_in(EVENTS, "copilot")
    child = view(store, subagent_conversation(found.conversation, f"{SESSION}/call_task"))
    assert prompts_of(child) == ["find the test"]
    assert [c.tool for c in child.log() if c.kind == "call"] == ["grep"]
    assert [entry.record.session for entry in shown.entries("children")] == [child.id]


def test_a_compaction_has_its_summary(store, shown):
    said = str(rendered(store, shown))
    assert "Tax is in tax.py." in said
    assert "'I write it.'" not in said


def test_what_the_agent_runs_with_is_told_where_it_changes():
    settings = [item.settings for item in items(EVENTS) if isinstance(item, Configured)]
    assert settings == [
        {"model": "model-one", "version": "1.0.40"},
        {"permission_mode": "assisted"},
        {"model": "model-two"},
    ]


def test_unknown_events_are_stored_and_events_about_the_program_are_counted(store):
    report = import_file(store, EVENTS, "copilot")
    assert report.unknown == 1
    assert report.noise["permission.requested"] == 1


def test_a_failed_compaction_compacts_nothing(store, tmp_path):
    rows = events()
    for row in rows:
        if row["type"] == "session.compaction_complete":
            row["data"] = {"success": False, "error": "no"}
    path = written(tmp_path / "events.jsonl", rows)
    import_file(store, path, "copilot")
    (shown,) = views(store, path, "copilot")
    assert "compaction" not in kinds(shown)


def test_a_call_of_the_user_begins_with_its_own_event(store, tmp_path):
    asked = {"toolCallId": "call_u", "toolName": "bash", "arguments": {"command": "ls"}}
    rows = [*events()[:3], {"type": "tool.user_requested", "data": asked, "id": "x1"}]
    path = written(tmp_path / "events.jsonl", rows)
    import_file(store, path, "copilot")
    (shown,) = views(store, path, "copilot")
    assert [(c.tool, c.effect) for c in shown.log() if c.kind == "call"] == [("bash", "read")]


def test_lines_that_a_crash_damaged_are_skipped_and_the_rest_is_read(tmp_path):
    rows = events()
    half = json.dumps(rows[4])[:80]
    path = written(
        tmp_path / "events.jsonl", [*rows[:4], half + json.dumps(rows[4]), "\0\0\0", *rows[5:]]
    )
    skipped = [(item.line, item.why) for item in items(path) if isinstance(item, Skipped)]
    assert skipped == [(5, "not JSON"), (6, "NUL bytes")]


def test_older_sessions_are_files_named_after_their_id(tmp_path):
    rows = events()
    path = written(tmp_path / f"{SESSION}.jsonl", rows)
    assert detected_format(path) == "copilot"
    assert [found.conversation.id for found in conversations_in(path, "copilot")] == [SESSION]


def test_sessions_are_below_the_folder_of_the_program(tmp_path):
    assert list(FORMAT.default_paths(tmp_path, {})) == [tmp_path / ".copilot" / "session-state"]
    (own,) = FORMAT.default_paths(tmp_path, {"COPILOT_HOME": "/data"})
    assert str(own) == "/data/session-state"
