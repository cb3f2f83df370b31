"""Tests which lines close a message of Claude Code's, and what a cursor remembers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from importers.claude_code_writer import SESSION, TranscriptWriter, as_block
from stator.importers.claude_code import line_items, lines
from stator.importers.claude_code.transcript import FORMAT
from stator.importers.reading.jsonl import JsonlLine, parse_line
from stator.model.exchange.items import (
    About,
    Answered,
    Called,
    Cursor,
    Item,
    Prompted,
    Returned,
    Spawned,
    TurnEnded,
)

STATE_MAX = 200_000
"""The most bytes of the cursor of a transcript that was made to fill it; others have a few thousand."""


@pytest.fixture
def file(tmp_path) -> TranscriptWriter:
    return TranscriptWriter(tmp_path / f"{SESSION}.jsonl")


def read(
    file: TranscriptWriter, cursor: Cursor | None = None, *, at_rest: bool = False
) -> list[Any]:
    found = next(iter(FORMAT.conversations(file.path)))
    return list(FORMAT.read(found, cursor, None, at_rest=at_rest))


def answers(file: TranscriptWriter, *, at_rest: bool = False) -> list[str]:
    return [item.id for item in read(file, at_rest=at_rest) if isinstance(item, Answered)]


def begun(file: TranscriptWriter) -> None:
    """A message with a call, whose next block may still come."""
    file.prompt("go")
    file.says("msg_1", "I will look.")
    file.says("msg_1", ("toolu_1", "Bash", {"command": "make"}), stop="tool_use")


def synthetic(file: TranscriptWriter) -> None:
    body = {"id": "e1", "model": "<synthetic>", "role": "assistant", "content": [as_block("Error")]}
    file.line("assistant", message=body, isApiErrorMessage=True)


CLOSERS: dict[str, Callable[[TranscriptWriter], object]] = {
    "the next message": lambda file: file.says("msg_2", "Done."),
    "an error of the program": synthetic,
    "a prompt": lambda file: file.prompt("and now?"),
    "a command for the model": lambda file: file.prompt(
        "<command-message>x</command-message><command-name>/x</command-name>"
    ),
    "a report": lambda file: file.prompt("<task-notification>done</task-notification>"),
    "an interruption": lambda file: file.prompt([as_block("[Request interrupted by user]")]),
    "a compaction": lambda file: file.line("system", subtype="compact_boundary"),
    "the end of the turn": lambda file: file.line("system", subtype="turn_duration"),
    "hooks at the end": lambda file: file.line("system", subtype="stop_hook_summary"),
}

OTHERS: dict[str, Callable[[TranscriptWriter], object]] = {
    "a result": lambda file: file.result("toolu_1", "ok"),
    "another block": lambda file: file.says("msg_1", "And more.", stop="tool_use"),
    "context of a hook": lambda file: file.line(
        "attachment", attachment={"type": "hook_additional_context", "content": ["x"]}
    ),
    "a text of a skill": lambda file: file.prompt("Base directory", isMeta=True),
    "progress": lambda file: file.line("progress", data={"type": "bash_progress"}),
    "a request": lambda file: file.line("api-request", querySource="sdk"),
    "the mode": lambda file: file.line("mode", mode="normal"),
    "a title": lambda file: file.line("ai-title", aiTitle="x"),
    "output of a local command": lambda file: file.prompt(
        "<local-command-stdout>x</local-command-stdout>"
    ),
    "a line of a sub-agent": lambda file: file.prompt("look", isSidechain=True, agentId="a1"),
    "an unknown line": lambda file: file.line("hologram"),
    "the end of the file": lambda file: None,
}


@pytest.mark.parametrize("closer", CLOSERS)
def test_a_message_is_complete_when_such_a_line_comes(file, closer):
    begun(file)
    CLOSERS[closer](file)
    assert answers(file)[:1] == ["msg_1"]


@pytest.mark.parametrize("other", OTHERS)
def test_a_message_may_continue_after_such_a_line(file, other):
    begun(file)
    OTHERS[other](file)
    assert answers(file) == []
    file.says("msg_1", ("toolu_2", "Bash", {"command": "test"}), stop="tool_use")
    file.says("msg_2", "Done.")
    (first,) = [item for item in read(file) if isinstance(item, Answered)]
    assert [block["type"] for block in first.reply["content"]].count("tool_use") == 2


@pytest.mark.parametrize("other", OTHERS)
def test_a_message_that_may_continue_is_yielded_when_the_conversation_is_at_rest(file, other):
    begun(file)
    OTHERS[other](file)
    assert answers(file, at_rest=True) == ["msg_1"]


def test_results_between_the_blocks_of_a_message_come_after_its_calls(file):
    begun(file)
    file.result("toolu_1", "ok")
    file.says("msg_1", ("toolu_2", "Read", {}))
    file.result("toolu_2", "ok")
    file.says("msg_2", "Done.")
    told = [item for item in read(file) if isinstance(item, (Answered, Called, Returned))]
    assert [(type(item).__name__, item.id) for item in told] == [
        ("Answered", "msg_1"),
        ("Called", "toolu_1"),
        ("Called", "toolu_2"),
        ("Returned", "toolu_1"),
        ("Returned", "toolu_2"),
    ]


def test_a_prompt_to_the_main_agent_leaves_the_message_of_a_sub_agent_open(file):
    file.prompt("go")
    file.says("msg_s", "one", isSidechain=True, agentId="a1")
    file.prompt("and now?")
    file.says("msg_s", "two", isSidechain=True, agentId="a1")
    assert answers(file, at_rest=True) == ["msg_s"]


@pytest.mark.parametrize("named", [{"agentId": "a1"}, {}])
def test_the_result_of_its_call_completes_the_message_of_a_sub_agent_in_the_same_file(file, named):
    started(file, named)
    assert answers(file) == ["msg_1"]
    file.result("toolu_1", "done", toolUseResult={"status": "completed", **named})
    assert answers(file) == ["msg_1", "msg_s"]


@pytest.mark.parametrize("named", [{"agentId": "a1"}, {}])
def test_a_sub_agent_in_the_same_file_comes_after_the_call_that_started_it(file, named):
    started(file, named)
    file.result("toolu_1", "done", toolUseResult={"status": "completed", **named})
    told = [item for item in read(file) if isinstance(item, (Called, Spawned, Prompted))]
    agent = named.get("agentId", "s1")
    assert [(type(item).__name__, item.id, item.within) for item in told[1:]] == [
        ("Called", "toolu_1", ""),
        ("Spawned", f"child/{agent}", ""),
        ("Prompted", "prompt/s1", f"{SESSION}/{agent}"),
        ("Spawned", f"child/{agent}/end", ""),
    ]
    start: Any = told[2]
    assert (start.call, start.child, start.name) == ("toolu_1", f"{SESSION}/{agent}", "look")


def started(file: TranscriptWriter, named: dict[str, str]) -> None:
    file.prompt("go")
    given = {"description": "look", "prompt": "look around"}
    file.says("msg_1", ("toolu_1", "Task", given))
    side: dict[str, Any] = {"isSidechain": True, **named}
    file.prompt("look around", uuid="s1", parentUuid=None, **side)
    file.says("msg_s", "looking", parentUuid="s1", **side)


def test_a_line_without_its_newline_is_left_for_the_next_reading(file):
    file.prompt("go")
    file.prompt("and more")
    data = file.path.read_bytes()
    file.path.write_bytes(data[:-1])
    told = read(file)
    assert len([item for item in told if isinstance(item, Prompted)]) == 1
    file.path.write_bytes(data)
    assert [item.content for item in read(file, told[-1]) if isinstance(item, Prompted)] == [
        "and more"
    ]


def test_an_answer_that_ends_the_turn_does_so_before_what_a_restart_adds(file):
    file.prompt("go")
    file.says("msg_1", "Done.", stop="end_turn")
    file.line("attachment", attachment={"type": "hook_additional_context", "content": ["hello"]})
    file.prompt("and now?")
    told = [type(item).__name__ for item in read(file)]
    assert told.index("TurnEnded") < told.index("Noted")


def test_the_users_title_is_not_replaced_by_a_generated_one(file):
    file.prompt("go")
    file.line("custom-title", customTitle="mine")
    file.line("ai-title", aiTitle="generated")
    assert [item.name for item in read(file) if isinstance(item, About)] == ["mine"]


# -- cursors --------------------------------------------------------------------------------------


def long_turn(file: TranscriptWriter, size: int) -> None:
    """A turn of several megabytes: calls with long inputs and results, without a prompt between them."""
    file.prompt("go")
    number = 0
    while file.path.stat().st_size < size:
        number += 1
        given = {"file_path": f"/home/dev/demo/{number}.py", "content": "x" * 8_000}
        file.says(f"msg_{number}", "Next.", stop="tool_use")
        file.says(f"msg_{number}", (f"toolu_{number}", "Write", given), stop="tool_use")
        file.result(f"toolu_{number}", "y" * 4_000, toolUseResult={"content": given["content"]})


def test_ten_more_lines_of_a_long_turn_are_read_without_the_lines_before(file, monkeypatch):
    long_turn(file, 3 * 2**20)
    cursor = read(file)[-1]
    for number in range(5):
        file.says(f"more_{number}", (f"more_{number}", "Bash", {"command": "make"}))
        file.result(f"more_{number}", "ok")
    found = next(iter(FORMAT.conversations(file.path)))
    parsed: list[int] = []

    def counted(line: JsonlLine) -> Any:
        parsed.append(line.number)
        return parse_line(line)

    for module in (lines, line_items):
        monkeypatch.setattr(module, "parse_line", counted)
    told = list(FORMAT.read(found, cursor, None, at_rest=False))
    assert len([item for item in told if isinstance(item, Called)]) == 5
    assert len(parsed) <= 10 + 3


def test_a_cursor_stays_small_in_a_long_turn(file):
    long_turn(file, 3 * 2**20)
    (last,) = [item for item in read(file) if isinstance(item, Cursor)][-1:]
    assert len(msgspec.json.encode(last)) < 8_000


def test_a_cursor_holds_no_text_of_the_conversation(file):
    file.prompt("a secret plan")
    file.says("msg_1", ("toolu_1", "Write", {"content": "a secret text"}))
    file.result("toolu_1", "a secret result")
    assert "secret" not in json.dumps(read(file)[-1].state)


def test_a_cursor_stays_small_whatever_the_names_are(file):
    long = "x" * 100_000
    file.prompt("go", uuid=f"u{long}", version=long, permissionMode=long)
    side: dict[str, Any] = {"isSidechain": True}
    for number in range(600):
        file.says(f"{number}{long[:300]}", (f"{number}{long[:300]}", "Task", {}), uuid=f"u{number}")
        file.prompt("look", agentId=f"{number}{long[:300]}", uuid=f"v{number}", **side)
        file.says(f"s{number}", ("x", "Bash", {}), uuid=f"w{number}", parentUuid=None, **side)
    assert len(msgspec.json.encode(read(file)[-1])) < STATE_MAX


def test_a_result_after_a_cursor_is_read_with_its_call(file):
    path = "/home/dev/demo/a.py"
    file.prompt("go")
    file.says("msg_1", ("toolu_1", "Write", {"file_path": path, "content": "x"}))
    file.says("msg_2", "waiting")
    cursor = read(file)[-1]
    file.result("toolu_1", "ok")
    file.says("msg_3", "done")
    (result,) = [item for item in read(file, cursor) if isinstance(item, Returned)]
    assert (result.tool, [touch.path for touch in result.files]) == ("Write", [path])


@pytest.mark.parametrize("state", [{}, {"tasks": {}}, {"mapper": 1}, {"mapper": 2, "open": 7}])
def test_a_cursor_of_another_mapping_is_not_used(file, state):
    begun(file)
    told = read(file, Cursor(offset=file.path.stat().st_size, line=3, state=state))
    assert isinstance(told[0], Prompted)


def test_a_turn_ends_once_although_every_line_names_the_reason(file):
    file.prompt("go")
    file.says("msg_1", {"type": "thinking", "thinking": "hm"}, stop="end_turn")
    file.says("msg_1", "Done.", stop="end_turn")
    file.line("system", subtype="stop_hook_summary")
    told: list[Item] = read(file)
    assert len([item for item in told if isinstance(item, TurnEnded)]) == 1
    assert len([item for item in told if isinstance(item, Answered)]) == 1


def test_what_was_copied_into_a_fork_is_looked_up_only_once(tmp_path, file, monkeypatch):
    other = "99999999-2222-4333-8444-555555555555"
    file.prompt("one", promptId="p-1")
    file.says("msg_1", "Done.", stop="end_turn")
    fork = TranscriptWriter(tmp_path / f"{other}.jsonl", other)
    for data in file.path.read_text().splitlines():
        line = json.loads(data) | {"sessionId": other}
        fork.raw(json.dumps(line | ({"promptId": "p-9"} if "promptId" in line else {})))
    fork.count = 100
    fork.prompt("two", promptId="p-9")
    cursor = read(fork)[-1]
    fork.prompt("three", promptId="p-10")
    found = next(iter(FORMAT.conversations(fork.path)))
    assert found.conversation.fork_of == SESSION
    monkeypatch.setattr(Path, "is_file", lambda path: pytest.fail(f"looked at {path}"))
    told = list(FORMAT.read(found, cursor, None, at_rest=False))
    assert [item.content for item in told if isinstance(item, Prompted)] == ["three"]
