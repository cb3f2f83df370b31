"""Tests the law of readers on made-up conversations of agents that can be stopped anywhere and resumed."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from importers.format_laws import assert_reading_is_lawful
from importers.format_laws import lines_of as prefixes

WORDS = st.sampled_from(["go on", "done", "tax", "- [ ] a\n- [x] b", "", "<feedback>no</feedback>"])
TOOLS = st.sampled_from(["read", "write", "bash", "todowrite", "task"])
COMMANDS = st.sampled_from(["ls", "rm a.py", "make", "cat a.py | head", "echo x > out.txt"])
IDS = st.sampled_from(["call_0", "call_1", "call_2", "call_3"])
"""Few ids, so that they repeat as they do with some providers."""


def lawful(name, file, versions, *, continues=True):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "17" / file
        path.parent.mkdir()
        assert_reading_is_lawful(name, path, versions, continues=continues)


def time(number):
    return f"2026-02-03T10:{number // 60 % 60:02}:{number % 60:02}.000Z"


# -- pi: a tree of lines ----------------------------------------------------------------------------


@st.composite
def pi_lines(draw):
    entries = [{"type": "session", "id": "5e55", "cwd": "/shop", "timestamp": time(0)}]
    known: list[str | None] = [None]
    for number in range(1, draw(st.integers(2, 14))):
        # mostly at the end, sometimes from an earlier entry, or one that does not exist
        parent = draw(st.sampled_from([known[-1], known[-1], known[-1], *known, "gone"]))
        kind = draw(
            st.sampled_from(["user", "assistant", "result", "model", "compact", "bash", "odd"])
        )
        entry = {
            "id": f"e{number}",
            "parentId": parent,
            "timestamp": time(number),
            "type": "message",
        }
        entries.append(entry | draw(pi_entry(kind, known)))
        known.append(f"e{number}")
        if draw(st.integers(0, 9)) == 0:
            entries.append(deepcopy(draw(st.sampled_from(entries[1:]))))
    return "".join(json.dumps(entry) + "\n" for entry in entries).encode()


@st.composite
def pi_entry(draw, kind, known):
    if kind == "user":
        return {"message": {"role": "user", "content": draw(WORDS)}}
    if kind == "assistant":
        uses = [
            {"type": "toolCall", "id": draw(IDS), "name": draw(TOOLS),
             "arguments": {"path": draw(WORDS), "command": draw(COMMANDS), "content": "x"}}
            for _ in range(draw(st.integers(0, 3)))
        ]  # fmt: skip
        stop = draw(st.sampled_from(["stop", "toolUse", "aborted", "error"]))
        content = [{"type": "text", "text": draw(WORDS)}, *uses]
        return {"message": {"role": "assistant", "content": content, "stopReason": stop}}
    if kind == "result":
        said = [{"type": "text", "text": draw(WORDS)}]
        return {"message": {"role": "toolResult", "toolCallId": draw(IDS), "content": said,
                            "isError": draw(st.booleans())}}  # fmt: skip
    if kind == "model":
        return {"type": "model_change", "provider": "p", "modelId": draw(WORDS)}
    if kind == "compact":
        kept = draw(st.sampled_from(known))
        return {"type": "compaction", "summary": draw(WORDS), "firstKeptEntryId": kept}
    if kind == "bash":
        return {
            "message": {
                "role": "bashExecution",
                "command": draw(COMMANDS),
                "output": "",
                "exitCode": 0,
            }
        }
    return {"type": draw(st.sampled_from(["label", "hologram"]))}


@settings(max_examples=60, deadline=None)
@given(pi_lines())
def test_any_tree_of_pi_is_read_lawfully(data):
    lawful("pi", "a.jsonl", prefixes(data))


# -- opencode: rows that change until they are complete ----------------------------------------------


@st.composite
def opencode_versions(draw):
    """The versions of a conversation: each part is added, and each call runs, before a message is complete."""
    messages: list[dict[str, Any]] = []
    parts: list[dict[str, Any]]
    versions: list[bytes] = []
    rests: list[int] = []

    def shown():
        info: dict[str, Any] = {
            "id": "ses_a1",
            "title": "Tax",
            "directory": "/shop",
            "version": "1",
            "time": {"updated": 9},
        }
        versions.append(json.dumps({"info": info, "messages": messages}).encode())

    for number in range(draw(st.integers(1, 6))):
        created = 1_794_725_170_000 + number * 1000
        if draw(st.integers(0, 2)) == 0 or not number:
            rests.append(len(versions) - 1)
            parts = [{"id": f"prt_{number}_u", "type": "text", "text": draw(WORDS),
                      "synthetic": draw(st.sampled_from([False, False, True]))}]  # fmt: skip
            if draw(st.integers(0, 5)) == 0:
                parts = [{"id": f"prt_{number}_c", "type": "compaction"}]
            messages.append({"info": {"id": f"msg_{number}", "role": "user", "time": {"created": created}},
                             "parts": []})  # fmt: skip
            if draw(st.booleans()):
                shown()
            messages[-1]["parts"] = parts
            shown()
            continue
        info: dict[str, Any] = {
            "id": f"msg_{number}",
            "role": "assistant",
            "time": {"created": created},
            "modelID": "m",
        }
        if draw(st.integers(0, 5)) == 0:
            info["summary"] = True
        parts = []
        messages.append({"info": info, "parts": parts})
        for place in range(draw(st.integers(0, 3))):
            part = {
                "id": f"prt_{number}_{place}",
                "type": "text",
                "text": "",
                "time": {"start": created + place},
            }
            if draw(st.booleans()):
                state = {"status": "pending", "input": {}}
                part = {
                    "id": part["id"],
                    "type": "tool",
                    "tool": draw(TOOLS),
                    "callID": draw(IDS),
                    "state": state,
                }
            parts.append(part)
            shown()
            if part["type"] == "text":
                part["text"] = draw(WORDS)
            for status in draw(
                st.sampled_from([[], ["running"], ["running", "completed"], ["running", "error"]])
            ):
                if part["type"] == "tool":
                    given = {"command": draw(COMMANDS), "filePath": "/shop/a.py"}
                    part["state"] = {"status": status, "input": given, "output": "x", "error": "Aborted",
                                     "time": {"start": created, "end": created + 9}}  # fmt: skip
            shown()
        if draw(st.integers(0, 4)):  # otherwise the program was killed here
            parts.append(
                {
                    "id": f"prt_{number}_z",
                    "type": "step-finish",
                    "tokens": {"input": 5, "output": 2},
                }
            )
            info["finish"] = draw(st.sampled_from(["stop", "tool-calls"]))
            info["time"] = {**info["time"], "completed": created + 500}
            if draw(st.integers(0, 4)) == 0:
                info["error"] = {"name": "MessageAbortedError"}
        shown()
    return versions, [versions[number] for number in rests[1:]]


@settings(max_examples=80, deadline=None)
@given(opencode_versions())
def test_any_conversation_of_opencode_is_read_lawfully(made):
    versions, _ = made
    lawful("opencode", "export.json", versions, continues=False)


@settings(max_examples=60, deadline=None)
@given(opencode_versions())
def test_a_conversation_of_opencode_that_rests_before_a_prompt_is_continued(made):
    versions, rests = made
    lawful("opencode", "export.json", [*rests, versions[-1]])


# -- Cline: a list of messages ------------------------------------------------------------------------


@st.composite
def cline_messages(draw):
    details = {
        "type": "text",
        "text": "<environment_details>\n# Current Time\n</environment_details>",
    }
    told = [
        {"role": "user", "content": [{"type": "text", "text": "<task>\nadd tax\n</task>"}, details]}
    ]
    for _ in range(draw(st.integers(1, 6))):
        asked = [
            {"type": "tool_use", "id": draw(IDS), "input": {"path": "a.py", "command": draw(COMMANDS)},
             "name": draw(st.sampled_from(["read_file", "execute_command", "attempt_completion"]))}
            for _ in range(draw(st.integers(0, 2)))
        ]  # fmt: skip
        told.append(
            {"role": "assistant", "content": [{"type": "text", "text": draw(WORDS)}, *asked]}
        )
        results = [
            {"type": "text", "text": f"[{one['name']}] Result:\n{draw(WORDS)}"}
            for one in asked
            if draw(st.booleans())
        ]
        told.append(
            {"role": "user", "content": [*results, {"type": "text", "text": draw(WORDS)}, details]}
        )
    return told


@settings(max_examples=80, deadline=None)
@given(cline_messages())
def test_any_task_of_cline_is_read_lawfully(told):
    versions = [json.dumps(told[:count]).encode() for count in range(1, len(told) + 1)]
    lawful("cline", "api_conversation_history.json", versions)


@settings(max_examples=40, deadline=None)
@given(cline_messages(), WORDS)
def test_a_task_that_is_resumed_keeps_what_was_given_at_rest(told, words):
    """Cline puts what the user says on resuming into the last message, if that was the user's."""
    resumed = deepcopy(told)
    resumed[-1]["content"] += [
        {"type": "text", "text": "[TASK RESUMPTION] This task was interrupted."},
        {"type": "text", "text": f"<user_message>\n{words} again\n</user_message>"},
    ]
    versions = [json.dumps(told).encode(), json.dumps(resumed).encode()]
    lawful("cline", "api_conversation_history.json", versions)


# -- Copilot: lines of one conversation and its sub-agents ---------------------------------------------


@st.composite
def copilot_lines(draw):
    start = {"sessionId": "5e55", "selectedModel": "m", "context": {"cwd": "/shop"}}
    events = [{"type": "session.start", "data": start}]
    for _ in range(draw(st.integers(1, 16))):
        agent = draw(st.sampled_from([{}, {}, {"agentId": "a1"}]))
        asked = [
            {"toolCallId": draw(IDS), "name": draw(st.sampled_from(["bash", "create", "view", "update_todo", "task"])),
             "arguments": {"command": draw(COMMANDS), "path": "a.py", "todos": draw(WORDS)}}
            for _ in range(draw(st.integers(0, 2)))
        ]  # fmt: skip
        source = draw(st.sampled_from(["user", "system", "agent-1"]))
        said = {"content": draw(WORDS), "source": source}
        answer = {"content": draw(WORDS), "toolRequests": asked}
        done = {"success": draw(st.booleans()), "result": {"content": draw(WORDS)}}
        mark = draw(
            st.sampled_from(["assistant.turn_start", "assistant.turn_end", "abort", "hologram"])
        )
        kinds = [
            {"type": "user.message", "data": said},
            {"type": "assistant.message", "data": answer, **agent},
            {"type": "tool.execution_start", "data": {"toolCallId": draw(IDS), "toolName": "bash"}},
            {"type": "tool.execution_complete", "data": {"toolCallId": draw(IDS), **done}, **agent},
            {"type": "subagent.started", "data": {"toolCallId": draw(IDS)}, "agentId": "a1"},
            {"type": mark, "data": {}, **agent},
            {"type": "session.compaction_complete", "data": {"success": True}},
        ]
        events.append(draw(st.sampled_from(kinds)))
    rows = [{**event, "id": f"e{n}", "timestamp": time(n)} for n, event in enumerate(events)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@settings(max_examples=60, deadline=None)
@given(copilot_lines())
def test_any_session_of_copilot_is_read_lawfully(data):
    lawful("copilot", "events.jsonl", prefixes(data))


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_last_line_without_its_newline_is_read_once(cut):
    rows = [
        {"type": "session.start", "data": {"sessionId": "5e55"}, "id": "e0"},
        {"type": "user.message", "data": {"content": "add tax"}, "id": "e1"},
        {"type": "hologram", "data": {}, "id": "e2"},
    ]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    lawful("copilot", "events.jsonl", [data[: -cut - 1], data.rstrip(b"\n"), data])
