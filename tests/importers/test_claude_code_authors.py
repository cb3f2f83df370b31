"""Tests whose words the texts in a Claude Code transcript are, what its sessions are called, and what they run with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stator
from importers.claude_code_writer import (
    SESSION,
    TranscriptWriter,
    as_block,
    import_files,
    items,
    items_of_type,
    prompts,
    view,
)
from stator.importers.claude_code.transcript import FORMAT
from stator.model.exchange.items import (
    Compacted,
    Configured,
    Noted,
    Planned,
    Prompted,
    Returned,
    Spawned,
    TurnEnded,
    digest_of,
)

REPORT = (
    "<task-notification>\n<task-id>{}</task-id>\n<tool-use-id>toolu_1</tool-use-id>\n"
    "<status>completed</status>\n</task-notification>"
)


@pytest.fixture
def file(tmp_path) -> TranscriptWriter:
    return TranscriptWriter(tmp_path / f"{SESSION}.jsonl")


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "a.db", project="demo") as opened:
        yield opened


def name_of(file: TranscriptWriter) -> str:
    return next(iter(FORMAT.conversations(file.path))).conversation.name


# -- whose words ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "fields", "by"),
    [
        (REPORT.format("b1"), {}, "agent"),
        ("done", {"origin": {"kind": "task-notification"}}, "agent"),
        ("done", {"origin": {"kind": "peer", "from": "other"}}, "agent"),
        ("done", {"promptSource": "system"}, "agent"),
        ('<teammate-message teammate_id="a">hi</teammate-message>', {}, "agent"),
        ("<system-reminder>be brief</system-reminder>", {}, "system"),
        ("Stop hook feedback:\nno", {"isMeta": True}, "system"),
        ("<local-command-stdout>Set the model</local-command-stdout>", {}, "system"),
        ("<command-name>/model</command-name>", {}, "system"),
        ("<bash-input>ls</bash-input>", {}, "user"),
        ("a summary without its compaction", {"isCompactSummary": True}, "system"),
    ],
)
def test_what_the_user_did_not_ask_is_a_note_with_its_author(file, text, fields, by):
    file.prompt("go")
    file.prompt(text, **fields)
    told = items(file.path)
    assert len(items_of_type(Prompted, told)) == 1
    (note,) = items_of_type(Noted, told)
    assert note.by == by


@pytest.mark.parametrize("fields", [{}, {"origin": {"kind": "human"}}, {"promptSource": "sdk"}])
def test_what_the_user_typed_is_a_turn_by_the_user(file, fields):
    file.prompt("go", **fields)
    (prompt,) = items_of_type(Prompted, items(file.path))
    assert (prompt.by, prompt.content) == ("user", "go")


def test_the_prompt_of_a_sub_agent_is_its_parents(tmp_path):
    path = tmp_path / SESSION / "subagents" / "agent-a1.jsonl"
    below = TranscriptWriter(path)
    below.prompt("look around", isSidechain=True, agentId="a1")
    (prompt,) = items_of_type(Prompted, items(path))
    assert prompt.by == "agent"


def test_the_prompt_of_a_sub_agent_in_the_same_file_is_its_parents(file):
    file.prompt("go")
    file.prompt("look around", isSidechain=True, agentId="a1")
    assert [one.by for one in items_of_type(Prompted, items(file.path))] == ["user", "agent"]


def test_the_report_of_a_background_task_begins_no_turn_of_the_user(file, store):
    file.prompt("go")
    file.says("msg_1", "Started.", stop="end_turn")
    file.prompt(REPORT.format("b1"), promptId="p-2", origin={"kind": "task-notification"})
    file.says("msg_2", "It is done.", stop="end_turn")
    import_files(store, file.path)
    assert prompts(view(store)) == ["go"]
    (note,) = [c for c in view(store).log() if c.kind == "entry" and c.actor != "model"]
    assert (note.actor, note.provenance.source) != ("user", "user")


@pytest.mark.parametrize(
    ("given", "by"),
    [
        ({"prompt": "also this"}, "user"),
        ({"prompt": REPORT.format("b1")}, "agent"),
        ({"prompt": "done", "commandMode": "task-notification"}, "agent"),
        ({"prompt": "done", "origin": {"kind": "coordinator"}}, "agent"),
    ],
)
def test_what_arrives_while_the_agent_works_has_its_author(file, given, by):
    file.prompt("go")
    file.line("attachment", attachment={"type": "queued_command", **given})
    (note,) = items_of_type(Noted, items(file.path))
    assert note.by == by


def test_the_context_of_an_editor_is_not_the_users(file):
    selected = "<ide_selection>lines 1 to 3</ide_selection>"
    file.prompt([as_block(selected), as_block("fix it")], promptId="p-1")
    told = items(file.path)
    (prompt,), (note,) = items_of_type(Prompted, told), items_of_type(Noted, told)
    assert (prompt.content, note.content, note.by) == ("fix it", selected, "system")


def test_a_prompt_with_the_context_of_an_editor_has_the_id_that_its_hook_gives(file):
    from stator.hooks import claude_code as hooks

    file.prompt("<ide_opened_file>a.py</ide_opened_file>\nfix it", promptId="p-1")
    said = {"hook_event_name": "UserPromptSubmit", "prompt": "fix it", "prompt_id": "p-1"}
    (told,) = hooks.items({**said, "session_id": SESSION}, 1, "x", {})
    assert told.id == items_of_type(Prompted, items(file.path))[0].id


# -- statuses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "status"), [("Bash", "in doubt"), ("Read", "cancelled"), ("Write", "in doubt")]
)
def test_a_call_that_the_user_stopped_is_not_just_an_error(file, tool, status):
    file.prompt("go")
    file.says("msg_1", ("toolu_1", tool, {"command": "make"}))
    file.result("toolu_1", "Exit code 137\n[Request interrupted by user for tool use]", error=True)
    (result,) = items_of_type(Returned, items(file.path))
    assert result.status == status


def test_a_rejected_call_is_denied_and_its_turn_interrupted(file):
    file.prompt("go")
    file.says("msg_1", ("toolu_1", "Write", {"file_path": "/a.py"}))
    file.result(
        "toolu_1", "The user doesn't want to proceed with this tool use. …", error=True,
        toolUseResult="User rejected tool use",
    )  # fmt: skip
    file.prompt([as_block("[Request interrupted by user for tool use]")])
    told = items(file.path)
    assert [one.status for one in items_of_type(Returned, told)] == ["denied"]
    assert [one.status for one in items_of_type(TurnEnded, told)] == ["interrupted"]


@pytest.mark.parametrize("tool", ["TodoWrite", "TaskCreate", "TaskUpdate"])
def test_a_plan_tool_that_failed_changes_no_plan(file, tool):
    given = {"todos": [{"content": "one"}], "subject": "one", "taskId": "1", "status": "completed"}
    file.prompt("go")
    file.says("msg_1", (tool, tool, given))
    file.result(tool, "InputValidationError", error=True)
    assert items_of_type(Planned, items(file.path)) == []


def test_a_resumed_session_was_not_compacted(file):
    file.prompt("go")
    file.says("msg_1", "Done.", stop="end_turn")
    given = {"type": "hook_success", "hookName": "SessionStart:resume", "content": ""}
    file.line("attachment", attachment=given)
    file.prompt("on")
    assert items_of_type(Compacted, items(file.path)) == []


# -- sub-agents -----------------------------------------------------------------------------------


def below(file: TranscriptWriter, agent: str) -> Path:
    path = file.path.with_suffix("") / "subagents" / f"agent-{agent}.jsonl"
    TranscriptWriter(path).prompt("look", isSidechain=True, agentId=agent)
    return path


@pytest.mark.parametrize("shape", ["metadata", "result", "progress"])
def test_a_sub_agent_names_the_call_that_started_it(file, shape):
    file.prompt("go")
    file.says("msg_1", ("toolu_1", "Task", {"description": "look"}))
    path = below(file, "a1")
    if shape == "metadata":
        path.with_suffix(".meta.json").write_text(json.dumps({"toolUseId": "toolu_1"}))
    elif shape == "result":
        file.result("toolu_1", "fine", toolUseResult={"agentId": "a1", "status": "completed"})
    else:
        data = {"type": "agent_progress", "agentId": "a1"}
        file.line("progress", data=data, parentToolUseID="toolu_1")
    _, child = FORMAT.conversations(file.path)
    assert (child.conversation.parent, child.conversation.parent_call) == (SESSION, "toolu_1")


def test_a_sub_agent_in_the_background_ends_when_its_report_comes(file):
    file.prompt("go")
    file.says("msg_1", ("toolu_1", "Agent", {"description": "look"}))
    result = {"isAsync": True, "status": "async_launched", "agentId": "a1"}
    file.result("toolu_1", "launched", toolUseResult=result)
    file.says("msg_2", "ParentBehind.", stop="end_turn")
    file.prompt(REPORT.format("a1"), origin={"kind": "task-notification"})
    told = items_of_type(Spawned, items(file.path))
    assert [(one.id, one.status, one.call, one.name) for one in told] == [
        ("child/a1", "started", "toolu_1", "look"),
        ("child/a1/end", "completed", "toolu_1", "look"),
    ]


def test_the_report_of_a_command_in_the_background_ends_no_sub_agent(file):
    file.prompt("go")
    file.prompt(REPORT.format("b1"), origin={"kind": "task-notification"})
    assert items_of_type(Spawned, items(file.path)) == []


# -- names ----------------------------------------------------------------------------------------


def command(name: str, arguments: str = "") -> str:
    given = f"<command-args>{arguments}</command-args>"
    return (
        f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>\n{given}"
    )


@pytest.mark.parametrize(
    ("first", "name"),
    [
        ([command("mode"), "plant two beds"], "plant two beds"),
        ([command("review", "the last commit")], "/review the last commit"),
        (["[Image #1] what is this?"], "what is this?"),
        (['<image name="a.png"></image>what is this?'], "what is this?"),
        (["<ide_opened_file>a.py</ide_opened_file>\nfix it"], "fix it"),
        (["<command-name>/clear</command-name>", "plant"], "plant"),
        ([REPORT.format("b1"), "plant"], "plant"),
        (["  \n  plant   two beds  \nand water"], "plant two beds"),
        ([command("mode")], "/mode"),
    ],
)
def test_a_session_is_called_what_the_user_asked(file, first, name):
    for text in first:
        file.prompt(text)
    assert name_of(file) == name


# -- settings -------------------------------------------------------------------------------------


def settings_of(told: list[Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(one.id, one.settings) for one in items_of_type(Configured, told)]


def test_what_the_agent_runs_with_is_an_item_when_it_changes(file):
    file.prompt("go", permissionMode="default")
    file.says("msg_1", "one", effort="high")
    file.says("msg_2", "two", effort="high")
    file.line("permission-mode", permissionMode="plan")
    file.line("permission-mode", permissionMode="plan")
    file.prompt("on", permissionMode="plan", version="2.2.0")
    file.says("msg_3", "three", effort="high", version="2.2.0")
    assert settings_of(items(file.path)) == [
        ("configured/1", {"permission_mode": "default", "version": "2.1.0"}),
        ("configured/2", {"model": "m-1", "reasoning_effort": "high"}),
        ("configured/3", {"permission_mode": "plan"}),
        ("configured/4", {"version": "2.2.0"}),
    ]


def test_the_files_with_instructions_are_settings(file):
    one = {"path": "/home/dev/CLAUDE.md", "type": "Project", "content": "whistle"}
    two = {"path": "/home/dev/sub/CLAUDE.md", "type": "Project", "content": "hum"}
    file.prompt("go", version="")
    file.line("attachment", attachment={"type": "instructions", "files": [one]})
    file.line(
        "attachment", attachment={"type": "nested_memory", "path": two["path"], "content": two}
    )
    file.line("attachment", attachment={"type": "instructions", "files": [one]})
    first = {"/home/dev/CLAUDE.md": digest_of("whistle")}
    assert settings_of(items(file.path)) == [
        ("configured/1", {"instructions": first}),
        ("configured/2", {"instructions": first | {"/home/dev/sub/CLAUDE.md": digest_of("hum")}}),
    ]


def test_a_sub_agent_in_the_same_file_has_settings_of_its_own(file):
    file.prompt("go")
    file.says("msg_1", "one")
    file.prompt("look", isSidechain=True, agentId="a1")
    file.says("msg_s", "two", isSidechain=True, agentId="a1")
    told = items_of_type(Configured, items(file.path))
    assert {one.within for one in told} == {"", f"{SESSION}/a1"}
    assert len({(one.within, one.id) for one in told}) == len(told)
