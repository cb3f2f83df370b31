"""Tests that texts of ours are nobody's words in any transcript, and that their arrival is a record.

The lines have the shapes in which Claude Code 2.1.325, Codex 0.166.0 and Gemini CLI 0.61.0 wrote them, and opencode
1.18.33 keeps the output of a call.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stator
from importers.import_helpers import conversations_in, import_file
from importers.recorded_law import logs
from stator.model.brief.envelope import wrapped
from stator.model.exchange.own_notes import note_id

WORD = "aubergine"
START, PROMPT = f"the {WORD} is in doubt", f"the {WORD} was watered <twice> & weeded"
FILE, ASK = f"another agent changed {WORD}.md", f"write down the {WORD}"
OLD = f"# Before\n{WORD}\n\nStator records this session as s_1. Its MCP tools take that as `session`: use"
CLAUDE, CODEX = "9d4f6173-268b-4fe6-912d-53e6fc86dff4", "01a1ddf3-e8e7-7792-b65b-5dbe784d1e4a"


def escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace(">", "&gt;")


class Lines:
    """Lines of a transcript, each with its time."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    @property
    def now(self) -> str:
        return f"2026-11-16T15:27:{len(self.lines):02}.000Z"

    def write(self, path: Path) -> Path:
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return path


class ClaudeLines(Lines):
    def add(self, kind: str, **more: Any) -> None:
        number = len(self.lines)
        common: dict[str, Any] = {
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
        }
        common |= {"sessionId": CLAUDE, "cwd": "/w", "version": "2.1.325", "isSidechain": False}
        self.lines.append({"type": kind, "timestamp": self.now, **common, **more})

    def given(self, event: str, text: str) -> None:
        """What Claude Code writes when a hook answered: that it ran, and what the model gets."""
        ran = {"type": "hook_success", "hookName": event, "stdout": json.dumps({"x": text})}
        self.add("attachment", attachment=ran)
        shown = f"<system-reminder>\n{event} hook additional context: {text}\n</system-reminder>"
        self.add(
            "attachment", rendered=[{"content": shown}],
            attachment={"type": "hook_additional_context", "content": [text], "hookName": event},
        )  # fmt: skip

    def says(self, number: int, *blocks: dict[str, Any]) -> None:
        message: dict[str, Any] = {
            "id": f"msg_{number}",
            "role": "assistant",
            "type": "message",
            "model": "m",
        }
        message |= {"content": list(blocks), "stop_reason": "end_turn"}
        self.add("assistant", message=message)


def claude_code(folder: Path) -> Path:
    file = ClaudeLines()
    file.given("SessionStart", wrapped("start", START))
    file.add("user", message={"role": "user", "content": "go"}, promptId="p1")
    file.given("UserPromptSubmit", wrapped("prompt", PROMPT))
    use = {"type": "tool_use", "id": "toolu_1", "name": "Write"}
    file.says(1, {**use, "input": {"file_path": "/w/a", "content": "x"}})
    file.given("PreToolUse:Write", wrapped("file", FILE))
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "written"}
    file.add("user", message={"role": "user", "content": [result]}, toolUseResult={})
    file.says(2, {"type": "text", "text": "done"})
    asked = f"Stop hook feedback:\n{wrapped('handover', ASK)}"
    file.add("user", message={"role": "user", "content": asked}, isMeta=True, promptId="p1")
    shown = f'Stop hook blocking error from command: "stator-hook": {wrapped("handover", ASK)}'
    file.add(
        "attachment", attachment={"type": "hook_blocking_error", "hookName": "Stop"},
        rendered=[{"content": f"<system-reminder>\n{shown}\n</system-reminder>"}],
    )  # fmt: skip
    file.says(3, {"type": "text", "text": "noted"})
    file.add("user", message={"role": "user", "content": "on"}, promptId="p2")
    return file.write(folder / f"{CLAUDE}.jsonl")


class CodexLines(Lines):
    def add(self, kind: str, **payload: Any) -> None:
        self.lines.append(
            {"timestamp": self.now, "ordinal": len(self.lines), "type": kind, "payload": payload}
        )

    def message(self, role: str, text: str, by: str) -> None:
        meta = {"turn_id": "t1", "content_item_metadata": [{"provenance": {"type": by}}]}
        self.add(
            "response_item", type="message", id=f"msg_{len(self.lines)}", role=role,
            content=[{"type": "input_text", "text": text}],
            internal_chat_message_metadata_passthrough=meta,
        )  # fmt: skip

    def says(self, text: str) -> None:
        self.add(
            "response_item", type="message", id=f"msg_{len(self.lines)}", role="assistant",
            content=[{"type": "output_text", "text": text}],
        )  # fmt: skip


def codex(folder: Path) -> Path:
    file = CodexLines()
    file.add("session_meta", id=CODEX, cwd="/w", cli_version="0.166.0")
    file.add("event_msg", type="task_started", turn_id="t1")
    file.message("developer", wrapped("start", START), "harness")
    file.message("user", "go", "user")
    file.message("developer", wrapped("prompt", PROMPT), "harness")
    call = {"type": "function_call", "name": "exec_command", "call_id": "call_1", "id": "fc_1"}
    file.add("response_item", **call, arguments='{"cmd": "touch a"}')
    file.message("developer", wrapped("file", FILE), "harness")
    file.add("response_item", type="function_call_output", call_id="call_1", output="ok")
    file.says("done")
    asked = escaped(wrapped("handover", ASK))
    file.message("user", f'<hook_prompt hook_run_id="stop:9:/h">{asked}</hook_prompt>', "harness")
    file.says("noted")
    file.add("event_msg", type="task_complete", turn_id="t1")
    file.add("event_msg", type="task_started", turn_id="t2")
    return file.write(folder / f"rollout-2026-11-16T15-28-13-{CODEX}.jsonl")


def gemini(folder: Path) -> Path:
    file = Lines()
    context = "<hook_context>{}</hook_context>"

    def message(kind: str, content: Any, **more: Any) -> None:
        name = f"m{len(file.lines)}"
        file.lines.append(
            {"id": name, "timestamp": file.now, "type": kind, "content": content, **more}
        )

    file.lines.append(
        {"sessionId": "g-1", "projectHash": "p", "startTime": file.now, "kind": "main"}
    )
    message(
        "user",
        [
            {"text": context.format(escaped(wrapped("start", START))) + "\n\ngo"},
            {"text": context.format(escaped(wrapped("prompt", PROMPT)))},
        ],
    )
    output = f"written\n\n{context.format(escaped(wrapped('file', FILE)))}"
    answer = {
        "functionResponse": {"id": "w1", "name": "write_file", "response": {"output": output}}
    }
    call: dict[str, Any] = {
        "id": "w1",
        "name": "write_file",
        "args": {"file_path": "/w/a", "content": "x"},
    }
    call |= {"status": "success", "timestamp": file.now, "result": [answer]}
    message("gemini", "", toolCalls=[call], model="g")
    message("user", [answer])
    message("gemini", "done", model="g")
    message("user", [{"text": wrapped("handover", ASK)}])
    message("gemini", "noted", model="g")
    message("user", [{"text": "on"}])
    return file.write(folder / "session-2026-11-16T15-28-3f12b7ac.jsonl")


FILES = {"claude-code": claude_code, "codex": codex, "gemini": gemini}
GIVEN = [("start", START), ("prompt", PROMPT), ("file", FILE), ("handover", ASK)]


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "store.db") as opened:
        yield opened


@pytest.fixture(params=FILES)
def read(request, store, tmp_path):
    """A session of each agent that received every kind of text."""
    path = FILES[request.param](tmp_path)
    import_file(store, path, request.param, at_rest=True)
    (talk,) = conversations_in(path, request.param)
    return store.read(talk.conversation.session)


def test_what_arrived_is_a_record_of_its_own(read):
    found = {entry.record.note: entry.record for entry in read.entries("deliveries")}
    assert {(one.kind, one.note, one.whole) for one in found.values()} == {
        (kind, note_id(text), True) for kind, text in GIVEN
    }


def test_what_arrived_can_be_read_as_it_was_given(read):
    texts = [commit.value("output") for commit in read.log() if commit.kind == "delivery"]
    assert texts == [text for _, text in GIVEN]


def test_our_texts_are_nobodys_words(read):
    for commit in read.log():
        if commit.kind != "delivery":
            assert WORD not in str([commit.value(name) for name in ("input", "output")])


def test_our_texts_begin_no_turn_and_name_no_session(read):
    asked = [commit.value("input") for commit in read.log() if commit.kind == "turn"]
    assert asked[0] == "go"
    assert WORD not in f"{asked}{read.name}{read.brief().text}"


def test_no_search_finds_our_texts(store, read):
    assert list(store.search(WORD)) == []


@pytest.mark.parametrize("agent", FILES)
def test_the_arrivals_of_a_growing_transcript_are_those_of_the_whole_one(agent, store, tmp_path):
    path = FILES[agent](tmp_path)
    import_file(store, path, agent, at_rest=True)
    whole = logs(store)
    lines = path.read_text().splitlines(keepends=True)
    with stator.connect(tmp_path / "grown.db") as grown:
        for number in range(1, len(lines) + 1):
            path.write_text("".join(lines[:number]))
            import_file(grown, path, agent, at_rest=False)
        import_file(grown, path, agent, at_rest=True)
        assert logs(grown) == whole


# -- what is not ours ------------------------------------------------------------------------------


def imported_prompt(store, tmp_path, **message: Any):
    file = ClaudeLines()
    file.add("user", promptId="p1", **message)
    path = file.write(tmp_path / f"{CLAUDE}.jsonl")
    import_file(store, path, "claude-code", at_rest=True)
    (talk,) = conversations_in(path, "claude-code")
    return store.read(talk.conversation.session)


def test_a_person_who_quotes_our_text_keeps_their_words(store, tmp_path):
    words = f"what is this? {wrapped('start', START)}"
    seen = imported_prompt(store, tmp_path, message={"role": "user", "content": words})
    assert [commit.value("input") for commit in seen.log() if commit.kind == "turn"] == [words]


def test_a_text_that_only_begins_like_ours_inside_a_programs_text_stays_there(store, tmp_path):
    words = 'a file says <stator-note kind="start" id="00000000">\nhidden from the record'
    meta = {"message": {"role": "user", "content": words}, "isMeta": True}
    seen = imported_prompt(store, tmp_path, **meta)
    assert "hidden from the record" in str([c.value("output") for c in seen.log()])


def test_a_text_of_another_hook_beside_ours_stays(store, tmp_path):
    words = f"the other hook\n{wrapped('start', START)}"
    meta = {"message": {"role": "user", "content": words}, "isMeta": True}
    seen = imported_prompt(store, tmp_path, **meta)
    texts = {c.kind: c.value("output") for c in seen.log()}
    assert (texts["entry"], texts["delivery"]) == ("the other hook", START)


def test_a_text_that_was_cut_on_its_way_arrived_and_not_as_given(store, tmp_path):
    words = f"Stop hook feedback:\n{wrapped('handover', ASK)[:-25]}"
    meta = {"message": {"role": "user", "content": words}, "isMeta": True}
    seen = imported_prompt(store, tmp_path, **meta)
    assert [entry.record.whole for entry in seen.entries("deliveries")] == [False]


def test_what_an_earlier_release_answered_is_nobodys_words(store, tmp_path):
    shown = f"<system-reminder>\nSessionStart hook additional context: {OLD}\n</system-reminder>"
    meta = {"message": {"role": "user", "content": shown}, "isMeta": True}
    seen = imported_prompt(store, tmp_path, **meta)
    assert [c.kind for c in seen.log() if c.kind in ("entry", "turn", "delivery")] == []
