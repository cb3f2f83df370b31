"""Tests that Claude Code's transcripts become turns, calls, files, plans, forks and children."""

from __future__ import annotations

import json
import os
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
    kinds,
    prompts,
    view,
)
from stator.importers.claude_code.line_fields import turn_id
from stator.importers.claude_code.transcript import FORMAT
from stator.importers.reading.jsonl import read_beginning
from stator.model.exchange.items import (
    Answered,
    Called,
    Compacted,
    Cursor,
    Noise,
    Noted,
    Planned,
    Prompted,
    Returned,
    Spawned,
    Touched,
    TurnEnded,
    Unknown,
    digest_of,
)
from stator.model.log.redact import Redactor
from stator.runtime.window.transcript import Rendering

OTHER = "99999999-2222-4333-8444-555555555555"


@pytest.fixture
def file(tmp_path) -> TranscriptWriter:
    return TranscriptWriter(tmp_path / f"{SESSION}.jsonl")


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "a.db", project="demo") as opened:
        yield opened


def parallel(file: TranscriptWriter) -> None:
    """Two parallel calls: the result of the first is written between the blocks of the message."""
    file.prompt("look at both", promptId="p-1")
    file.says("msg_1", "I will look.")
    first = file.says("msg_1", ("toolu_1", "Read", {"file_path": "/home/dev/demo/a.py"}))
    file.result("toolu_1", "a", parentUuid=first)
    second = file.says("msg_1", ("toolu_2", "Read", {"file_path": "/home/dev/demo/b.py"}))
    file.result("toolu_2", "b", parentUuid=second)
    file.says("msg_2", "Done.", stop="end_turn")


# -- messages -------------------------------------------------------------------------------------


def test_parallel_calls_form_one_answer_and_none_is_lost(file):
    parallel(file)
    told = items(file.path)
    first, last = items_of_type(Answered, told)
    assert [block["type"] for block in first.reply["content"]] == ["text", "tool_use", "tool_use"]
    assert [call.id for call in items_of_type(Called, told)] == ["toolu_1", "toolu_2"]
    assert [result.id for result in items_of_type(Returned, told)] == ["toolu_1", "toolu_2"]
    assert last.id == "msg_2"


def test_results_of_parallel_calls_are_rendered_for_the_provider(file, store):
    parallel(file)
    import_files(store, file.path)
    said = Rendering(store.port, view(store).id).current().render("anthropic")
    blocks = [block for message in said for block in message["content"]]
    assert [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"] == [
        "toolu_1",
        "toolu_2",
    ]


def test_the_usage_of_a_message_on_several_lines_counts_once(file, store):
    parallel(file)
    import_files(store, file.path)
    spent = {entry.record.unit: entry.record.amount for entry in view(store).entries("spend")}
    assert spent["tokens"] == 30


def test_blocks_after_a_rest_become_another_answer(file, store):
    file.prompt("go")
    file.says("msg_1", ("toolu_1", "Bash", {"command": "one"}))
    import_files(store, file.path)
    file.says("msg_1", ("toolu_2", "Bash", {"command": "two"}))
    import_files(store, file.path)
    file.says("msg_1", "and a word")
    import_files(store, file.path)
    origins = [c.origin[1] for c in view(store).log() if c.kind == "entry"]
    assert origins == ["msg_1", "msg_1+1", "msg_1+2"]


def test_a_message_that_continues_after_another_becomes_a_second_answer(file):
    file.prompt("go")
    file.says("msg_1", "one")
    file.says("msg_2", "two")
    file.says("msg_1", "three")
    assert [answer.id for answer in items_of_type(Answered, items(file.path))] == [
        "msg_1",
        "msg_2",
        "msg_1+1",
    ]


def test_an_answer_names_its_model(file, store):
    parallel(file)
    import_files(store, file.path)
    assert {c.tool for c in view(store).log() if c.kind == "entry"} == {"m-1"}


def test_a_synthetic_message_of_the_program_is_not_an_answer(file):
    body = {"id": "x", "model": "<synthetic>", "role": "assistant", "content": "No response."}
    file.line("assistant", message=body)
    told = items(file.path)
    assert not items_of_type(Answered, told)
    assert items_of_type(Noted, told)


# -- turns ----------------------------------------------------------------------------------------


def test_a_turn_id_is_made_from_the_prompt_id_and_the_text(file):
    file.prompt("go", promptId="p-1")
    file.prompt("on", promptId="p-1")
    one, two = items_of_type(Prompted, items(file.path))
    assert one.id.startswith("prompt/p-1/")
    assert two.id.startswith("prompt/p-1/")
    assert one.id != two.id


def test_a_secret_in_a_prompt_does_not_change_the_turn_id():
    secret = "sk-ant-api03-" + "Zq3" * 30
    prompt = f"use {secret} for it"
    assert turn_id("p", prompt) == turn_id("p", Redactor(b"another key").scrub(prompt))


@pytest.mark.parametrize(
    "content",
    [
        "<local-command-caveat>The command below was run by the user</local-command-caveat>",
        "<local-command-stdout>Kept the model</local-command-stdout>",
        "<command-name>/clear</command-name>\n<command-message>clear</command-message>",
        "<bash-input>ls</bash-input>",
        "<bash-stdout>a.py</bash-stdout><bash-stderr></bash-stderr>",
        "<task-notification>done</task-notification>",
        "[Request interrupted by user]",
    ],
)
def test_user_lines_written_by_the_program_are_not_prompts(file, content):
    file.prompt(content)
    assert not items_of_type(Prompted, items(file.path))


def test_a_slash_command_for_the_model_is_a_prompt_as_typed(file):
    name = "<command-message>review</command-message>\n<command-name>/review</command-name>"
    file.prompt(f"{name}\n<command-args>the last commit</command-args>")
    file.prompt("Read the diff and …", isMeta=True)
    (prompt,) = items_of_type(Prompted, items(file.path))
    assert prompt.content == "/review the last commit"


def test_a_turn_stopped_by_the_user_is_interrupted(file, store):
    file.prompt("go")
    file.says("msg_1", ("toolu_1", "Bash", {"command": "sleep 9"}))
    file.result("toolu_1", "The user doesn't want to proceed with this tool use.", error=True)
    file.prompt([{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    import_files(store, file.path)
    (end,) = [c for c in view(store).log() if c.kind == "turn_end"]
    assert end.status == "interrupted"


def test_an_end_turn_answer_ends_its_turn(file):
    parallel(file)
    assert items_of_type(TurnEnded, items(file.path))


def test_progress_and_housekeeping_lines_never_become_commits(file, store):
    parallel(file)
    before = len(items(file.path))
    for kind in ("progress", "queue-operation", "file-history-snapshot", "last-prompt", "mode"):
        file.line(kind, data={"type": "hook_progress"})
    told = items(file.path)
    assert len(told) == before + 5
    assert len(items_of_type(Noise, told)) == 5
    report = import_files(store, file.path)
    assert report.noise["progress/hook_progress"] == 1


def test_a_line_of_an_unknown_type_is_stored_unchanged(file, store):
    file.prompt("go")
    file.line("hologram", data={"x": [1, 2]})
    report = import_files(store, file.path)
    (raw,) = [c for c in view(store).log() if c.kind == "raw"]
    assert raw.value("input")["data"] == {"x": [1, 2]}
    assert report.unknown == 1


# -- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "said", "fields", "status"),
    [
        ("Bash", "fine", {}, "ok"),
        ("Bash", "Exit code 2\nno", {"error": True}, "error"),
        (
            "Bash",
            "The user doesn't want to proceed with this tool use. …",
            {"error": True},
            "denied",
        ),
        ("Bash", "", {"toolUseResult": {"interrupted": True, "stdout": ""}}, "in doubt"),
        ("Read", "", {"toolUseResult": {"interrupted": True}}, "cancelled"),
        ("Bash", "[Tool call interrupted: its outcome is unknown", {"error": True}, "in doubt"),
        ("Bash", "stopped", {"error": True, "toolDenialKind": "interrupted"}, "in doubt"),
        ("mcp__x__y", [{"type": "text", "text": "42"}], {}, "ok"),
    ],
)
def test_a_result_sets_the_outcome_of_its_call(file, tool, said, fields, status):
    file.prompt("go")
    file.says("msg_1", ("toolu_1", tool, {}))
    file.result("toolu_1", said, **fields)
    (result,) = items_of_type(Returned, items(file.path))
    assert result.status == status


def test_web_results_are_marked_as_web(file):
    file.prompt("go")
    file.says("msg_1", ("toolu_1", "WebFetch", {"url": "http://127.0.0.1/"}))
    file.result("toolu_1", "a page")
    (result,) = items_of_type(Returned, items(file.path))
    assert result.source == "web"


def test_a_call_without_a_result_has_no_outcome_before_the_next_prompt(file, store):
    file.prompt("go")
    file.says("msg_1", ("toolu_1", "Bash", {"command": "make"}), ("toolu_2", "Read", {}))
    import_files(store, file.path)
    assert "outcome" not in kinds(view(store))
    file.prompt("and now?")
    import_files(store, file.path)
    assert {call.tool: call.status for call in view(store).calls()} == {
        "Bash": "in doubt",
        "Read": "cancelled",
    }


def test_a_result_without_its_call_is_stored_and_counted(file, store):
    file.prompt("go")
    file.result("toolu_9", "late")
    assert import_files(store, file.path).orphans == 1


def test_the_bytes_of_an_image_are_not_stored(file):
    data = "iVBORw0KGgo" + "A" * 4000
    source = {"type": "base64", "media_type": "image/png", "data": data}
    image = {"type": "image", "source": source}
    file.prompt([{"type": "text", "text": "what is this?"}, image])
    file.says("msg_1", ("toolu_1", "Read", {"file_path": "/x.png"}))
    file.result("toolu_1", [image])
    told = items(file.path)
    assert "AAAA" not in repr(told)
    (prompt,) = items_of_type(Prompted, told)
    assert prompt.content[1]["text"].startswith("[image image/png, 3008 bytes, sha256 ")


# -- files and plans ------------------------------------------------------------------------------


def touched(file: TranscriptWriter, tool: str, given: object, result: object) -> list[Any]:
    file.prompt("go")
    file.says("msg_1", ("toolu_1", tool, given))
    file.result("toolu_1", "ok", toolUseResult=result)
    (told,) = items_of_type(Returned, items(file.path))
    return [(t.path, t.op, t.before, t.after) for t in told.files]


def test_a_written_file_is_created_with_its_digest(file):
    path, text = "/home/dev/demo/a.py", "print(1)\n"
    result = {"type": "create", "filePath": path, "content": text, "originalFile": None}
    assert touched(file, "Write", {"file_path": path, "content": text}, result) == [
        (path, "created", "", digest_of(text))
    ]


def test_an_overwritten_file_has_both_digests(file):
    path = "/home/dev/demo/a.py"
    result = {"type": "update", "filePath": path, "content": "two", "originalFile": "one"}
    assert touched(file, "Write", {"file_path": path, "content": "two"}, result) == [
        (path, "modified", digest_of("one"), digest_of("two"))
    ]


def test_an_edit_is_applied_to_compute_the_digest_of_the_file(file):
    path = "/home/dev/demo/a.py"
    given = {"file_path": path, "old_string": "one", "new_string": "two"}
    result = {"filePath": path, "originalFile": "one one", "userModified": False}
    assert touched(file, "Edit", given, result) == [
        (path, "modified", digest_of("one one"), digest_of("two one"))
    ]


def test_an_edit_changed_by_the_user_has_no_digest_afterwards(file):
    path = "/home/dev/demo/a.py"
    given = {"file_path": path, "old_string": "one", "new_string": "two"}
    result = {"filePath": path, "originalFile": "one", "userModified": True}
    assert touched(file, "Edit", given, result)[0][3] == ""


def test_several_edits_of_one_file_are_applied_in_order(file):
    path = "/home/dev/demo/a.py"
    edits = [
        {"old_string": "a", "new_string": "b"},
        {"old_string": "b", "new_string": "c", "replace_all": True},
    ]
    result = {"filePath": path, "originalFile": "a b"}
    assert touched(file, "MultiEdit", {"file_path": path, "edits": edits}, result) == [
        (path, "modified", digest_of("a b"), digest_of("c c"))
    ]


def test_a_command_yields_files_only_where_certain(file):
    given = {"command": "cd /home/dev/demo && rm old.py && echo x > new.py && make *.o"}
    assert touched(file, "Bash", given, {"stdout": ""}) == [
        ("/home/dev/demo/old.py", "deleted", "", ""),
        ("/home/dev/demo/new.py", "created", "", ""),
    ]


def test_a_failed_call_yields_no_files(file):
    file.prompt("go")
    file.says("msg_1", ("toolu_1", "Bash", {"command": "rm a.py"}))
    file.result("toolu_1", "Exit code 1\nno such file", error=True)
    assert items_of_type(Returned, items(file.path))[0].files == ()


def test_a_file_attachment_counts_as_read(file):
    shown = [{"content": "Result of calling the Read tool: …"}]
    given = {"type": "file", "filename": "/home/dev/demo/a.py"}
    file.prompt("go")
    file.line("attachment", attachment=given, rendered=shown)
    (read,) = items_of_type(Touched, items(file.path))
    assert read.files[0].op == "read"


def test_todo_write_sets_the_plan(file, store):
    file.prompt("go")
    todos = [{"content": "one", "status": "completed"}, {"content": "two", "status": "in_progress"}]
    file.says("msg_1", ("toolu_1", "TodoWrite", {"todos": todos}))
    file.result("toolu_1", "ok", toolUseResult={"newTodos": todos})
    import_files(store, file.path)
    plan = {e.record.step: e.record.status for e in view(store).entries("plan")}
    assert plan == {"one": "done", "two": "in_progress"}


def test_task_updates_change_the_plan_by_task_number(file):
    file.prompt("go")
    file.says("msg_1", ("toolu_1", "TaskCreate", {"subject": "one", "description": "first"}))
    file.result("toolu_1", "Task #1 created successfully: one")
    file.prompt("on")
    file.says("msg_2", ("toolu_2", "TaskUpdate", {"taskId": "1", "status": "completed"}))
    file.result("toolu_2", "Updated task #1 status")
    told = items(file.path)
    _, update = items_of_type(Planned, told)
    assert (update.steps[0].step, update.steps[0].status, update.whole) == ("one", "done", False)
    place = next(at for at, item in enumerate(told) if getattr(item, "content", "") == "on")
    cursor = [item for item in told[:place] if isinstance(item, Cursor)][-1]
    assert items_of_type(Planned, items(file.path, cursor))[0].steps[0].step == "one"


# -- compactions, sub-agents, forks ----------------------------------------------------------------


@pytest.mark.parametrize(
    "about",
    [
        {"compactMetadata": {"preTokens": 900, "preservedMessages": {"uuids": ["u4", "u5"]}}},
        {"compact_metadata": {"pre_tokens": 900, "preserved_segment": {"head_uuid": "u4"}}},
    ],
)
def test_a_compaction_has_a_summary_and_names_the_first_kept_item(file, about):
    file.prompt("one")
    file.says("msg_1", "first", stop="end_turn")
    file.prompt("two")
    file.says("msg_2", "second", stop="end_turn")
    file.line("system", subtype="compact_boundary", **about)
    file.prompt("This session is being continued …", isCompactSummary=True)
    told = items(file.path)
    (compacted,) = items_of_type(Compacted, told)
    assert (compacted.id, compacted.keeps_from, compacted.before) == ("compact/1", "msg_2", 900)
    assert compacted.summary == "This session is being continued …"
    assert len(items_of_type(Prompted, told)) == 2


def test_compaction_numbers_continue_after_a_cursor(file, store):
    file.prompt("one")
    file.says("msg_1", "first", stop="end_turn")
    for turn in range(2):
        file.line("system", subtype="compact_boundary", compactMetadata={})
        file.prompt("a summary", isCompactSummary=True)
        file.prompt(f"turn {turn}")
        import_files(store, file.path)
    origins = [c.origin[1] for c in view(store).log() if c.kind == "compaction"]
    assert origins == ["compact/1", "compact/2"]


def subagents(file: TranscriptWriter, **meta: object) -> Path:
    file.prompt("ask somebody")
    given = {"description": "look around", "prompt": "look", "subagent_type": "Explore"}
    file.says("msg_1", ("toolu_1", "Task", given))
    file.result("toolu_1", "all fine", toolUseResult={"agentId": "a1b2", "status": "completed"})
    below = TranscriptWriter(file.path.with_suffix("") / "subagents" / "agent-a1b2.jsonl")
    side: dict[str, Any] = {"isSidechain": True, "agentId": "a1b2"}
    below.prompt("look", uuid="b1", **side)
    below.says("msg_b1", ("toolu_b1", "Grep", {"pattern": "x"}), uuid="b2", **side)
    below.result("toolu_b1", "none", uuid="b3", **side)
    if meta:
        below.path.with_suffix(".meta.json").write_text(json.dumps(meta))
    return below.path


def test_a_sub_agent_is_a_child_session_with_calls_of_its_own(file, store):
    subagents(file, toolUseId="toolu_1")
    import_files(store, file.path)
    child = view(store, f"{SESSION}/a1b2")
    assert child.record.parent.session == view(store).id
    assert [call.tool for call in child.calls()] == ["Grep"]
    assert [call.tool for call in view(store).calls()] == ["Task"]
    (known,) = view(store).entries("children")
    assert (known.record.session, known.record.status) == (child.id, "completed")


def test_a_sub_agent_in_its_parents_file_is_the_same_session(file, store):
    path = subagents(file)
    import_files(store, file.path)
    with file.path.open("ab") as whole:
        whole.write(path.read_bytes())
    report = import_files(store, file.path)
    assert report.calls == 0
    assert kinds(view(store, f"{SESSION}/a1b2")).count("call") == 1


def test_linked_sidechain_lines_without_an_id_form_one_sub_agent(file, store):
    file.prompt("ask somebody")
    file.says("msg_1", ("toolu_1", "Task", {"description": "hello"}))
    file.prompt("how are you?", isSidechain=True, parentUuid=None, uuid="s1")
    file.says("msg_s", "fine", isSidechain=True, parentUuid="s1")
    file.result("toolu_1", "fine")
    told = items(file.path)
    assert {
        item.within for item in (*items_of_type(Prompted, told), *items_of_type(Answered, told))
    } == {
        "",
        f"{SESSION}/s1",
    }
    import_files(store, file.path)
    assert prompts(view(store, f"{SESSION}/s1")) == ["how are you?"]


def test_a_compaction_sub_agent_is_not_a_session(tmp_path):
    path = tmp_path / SESSION / "subagents" / "agent-acompact-1f.jsonl"
    writing = TranscriptWriter(path)
    writing.prompt("Your task is to summarise", isSidechain=True, agentId="acompact-1f")
    assert FORMAT.recognizes(path, read_beginning(str(path)))
    assert list(FORMAT.conversations(path)) == []


def test_the_result_of_a_sub_agent_names_it(file):
    subagents(file)
    start, end = items_of_type(Spawned, items(file.path))
    assert (start.id, start.child, start.call) == ("child/a1b2", f"{SESSION}/a1b2", "toolu_1")
    assert (end.id, end.child, end.call) == ("child/a1b2/end", f"{SESSION}/a1b2", "toolu_1")
    assert (start.status, end.status) == ("started", "completed")


def forked(tmp_path, file: TranscriptWriter) -> TranscriptWriter:
    """A fork as Claude Code writes it: copied lines with their uuids, the fork's id and a single
    prompt id."""
    other = TranscriptWriter(tmp_path / f"{OTHER}.jsonl", OTHER)
    for data in file.path.read_text().splitlines():
        said = json.loads(data) | {"sessionId": OTHER}
        if "promptId" in said:
            said["promptId"] = "p-fork"
        other.raw(json.dumps(said))
    other.count = 100
    return other


def test_a_fork_shares_the_copied_commits_and_continues_separately(tmp_path, file, store):
    parallel(file)
    other = forked(tmp_path, file)
    other.prompt("another way", promptId="p-fork")
    other.says("msg_9", "Done.", stop="end_turn")
    file.count = 50
    file.prompt("one way", promptId="p-2")
    import_files(store, file.path, other.path)
    fork = view(store, OTHER)
    assert (fork.record.parent.kind, fork.record.parent.session) == ("fork", view(store).id)
    assert prompts(fork) == ["look at both", "another way"]
    assert prompts(view(store)) == ["look at both", "one way"]


def test_a_fork_of_an_unknown_session_is_labelled_with_its_origin(tmp_path, file, store):
    parallel(file)
    other = forked(tmp_path, file)
    other.prompt("another way", promptId="p-fork")
    import_files(store, other.path)
    assert view(store, OTHER).record.labels["forked from"] == SESSION
    assert prompts(view(store, OTHER)) == ["look at both", "another way"]


def test_a_fork_marked_with_forked_from_is_recognized(tmp_path, file, store):
    parallel(file)
    other = TranscriptWriter(tmp_path / f"{OTHER}.jsonl", OTHER)
    for number, data in enumerate(file.path.read_text().splitlines()):
        said = json.loads(data)
        origin = {"sessionId": SESSION, "messageUuid": said["uuid"]}
        other.raw(
            json.dumps(said | {"uuid": f"n{number}", "sessionId": OTHER, "forkedFrom": origin})
        )
    other.count = 100
    other.prompt("another way", promptId="p-9")
    import_files(store, file.path, other.path)
    assert view(store, OTHER).record.parent.session == view(store).id
    assert prompts(view(store, OTHER)) == ["look at both", "another way"]


# -- the conversation -----------------------------------------------------------------------------


def test_a_session_is_named_after_its_title(file):
    parallel(file)
    file.line("ai-title", aiTitle="Both files")
    file.line("custom-title", customTitle="My two files")
    (found,) = FORMAT.conversations(file.path)
    assert found.conversation.name == "My two files"


def test_a_session_without_a_title_is_named_after_its_first_prompt(file):
    parallel(file)
    (found,) = FORMAT.conversations(file.path)
    assert found.conversation.name == "look at both"
    assert found.conversation.labels == {"version": "2.1.0", "branch": "main"}


def test_the_working_folder_comes_from_the_lines_not_from_the_path(tmp_path):
    writing = TranscriptWriter(tmp_path / "-home-dev-a-b" / f"{SESSION}.jsonl", cwd="/home/dev/a-b")
    writing.prompt("go")
    (found,) = FORMAT.conversations(writing.path)
    assert found.conversation.cwd == "/home/dev/a-b"
    assert FORMAT.is_in_folder(found, "/home/dev/a-b")
    assert not FORMAT.is_in_folder(found, "/home/dev/a")


def test_default_paths_are_claude_codes_folders(tmp_path):
    assert list(FORMAT.default_paths(tmp_path, {})) == [tmp_path / ".claude" / "projects"]
    chosen = {"CLAUDE_CONFIG_DIR": str(tmp_path / "c")}
    assert list(FORMAT.default_paths(tmp_path, chosen)) == [tmp_path / "c" / "projects"]


def test_a_file_without_messages_contains_no_conversation(file):
    file.raw(json.dumps({"type": "summary", "summary": "old", "leafUuid": "x"}))
    assert list(FORMAT.conversations(file.path)) == []


@pytest.mark.parametrize("begin", [b"", b"{}", b"[1]", b'{"type":"user"}', b"\x00\x01", b"hello\n"])
def test_other_files_are_not_recognized_as_transcripts(begin):
    assert not FORMAT.recognizes(Path("x.jsonl"), begin)


def test_the_next_import_starts_at_the_last_turn(file, store):
    parallel(file)
    import_files(store, file.path)
    file.prompt("and more", promptId="p-2")
    report = import_files(store, file.path)
    assert (report.turns, report.calls) == (1, 0)
    assert import_files(store, file.path).commits == 0


# -- printed output -------------------------------------------------------------------------------


def printed(path: Path) -> None:
    common = {"session_id": SESSION, "parent_tool_use_id": None}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a"}
    lines = [
        {"type": "system", "subtype": "init", "cwd": "/home/dev/demo", "uuid": "x0", **common},
        _assistant("x1", ("toolu_1", "Read", {}), "msg_1") | common,
        {"type": "user", "message": {"content": [result]}, "uuid": "x2", **common},
        _assistant("x3", "Done.", "msg_2") | common,
        {"type": "result", "subtype": "success", "is_error": False, "uuid": "x4", **common},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _assistant(uuid: str, block: object, message: str) -> dict[str, Any]:
    body = {"id": message, "role": "assistant", "model": "m-1", "content": [as_block(block)]}
    return {"type": "assistant", "uuid": uuid, "message": body}


def test_printed_output_merges_with_the_transcript(tmp_path, file, store):
    path = tmp_path / "out.jsonl"
    printed(path)
    assert FORMAT.recognizes(path, read_beginning(str(path)))
    import_files(store, path)
    parallel(file)
    import_files(store, file.path)
    assert [kinds(view(store)).count(kind) for kind in ("turn", "call", "outcome")] == [1, 2, 2]


def test_printed_output_of_a_recorded_session_adds_nothing(tmp_path, file, store):
    path = tmp_path / "out.jsonl"
    printed(path)
    parallel(file)
    import_files(store, file.path)
    assert import_files(store, path).calls == 0


def test_an_unreadable_line_of_a_known_type_is_stored_unchanged(file):
    file.line("assistant", message="not an object")
    file.line("user", message={"content": 7})
    file.line("system", subtype="something new")
    assert len(items_of_type(Unknown, items(file.path))) == 3


def test_a_result_that_arrives_after_the_import_settles_its_call(file, store):
    file.prompt("go")
    file.says("msg_1", ("toolu_1", "Read", {"file_path": "/a.txt"}), stop="tool_use")
    import_files(store, file.path)
    file.result("toolu_1", "what is in it")
    file.says("msg_2", "done", stop="end_turn")
    import_files(store, file.path)
    (call,) = view(store).calls()
    assert call.status == "ok"
    assert "what is in it" in str(Rendering(store.port, view(store).id).current().render("plain"))
    assert import_files(store, file.path).commits == 0


def test_an_image_beside_a_result_becomes_a_note(file, store):
    source = {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}
    file.prompt("go")
    file.says("msg_1", ("toolu_1", "Read", {"file_path": "/a.png"}))
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "an image"}
    file.prompt([result, {"type": "image", "source": source}])
    (noted,) = items_of_type(Noted, items(file.path))
    assert "image/png" in str(noted.content)


def test_a_compaction_at_the_end_of_the_file_waits_for_its_summary(file, store):
    file.prompt("go")
    file.line("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"})
    import_files(store, file.path, at_rest=False)
    assert "compaction" not in kinds(view(store))
    file.prompt("what it was about", isCompactSummary=True)
    import_files(store, file.path, at_rest=False)
    (compacted,) = items_of_type(Compacted, items(file.path))
    assert kinds(view(store)).count("compaction") == 1
    assert compacted.summary == "what it was about"


@pytest.mark.parametrize(("length", "kept"), [(5_000, 4), (10, 200)])
def test_the_task_names_in_a_cursor_are_limited(file, length, kept):
    file.prompt("go")
    for number in range(1, 203):
        call = f"toolu_{number}"
        file.says(f"msg_{number}", (call, "TaskCreate", {"subject": f"{number} " + "x" * length}))
        file.result(call, f"Task #{number} created")
    file.prompt("next")
    names = items_of_type(Cursor, items(file.path))[-1].state["tasks"]
    assert len(names) == kept
    assert "202" in names


def test_two_forks_of_a_session_are_recognized_after_it_was_continued(tmp_path, file):
    parallel(file)
    third = "33333333-2222-4333-8444-555555555555"
    paths = []
    for name in (third, OTHER):
        other = forked(tmp_path, file)
        other.prompt("another way", promptId="p-fork")
        paths.append(other.path.rename(tmp_path / f"{name}.jsonl"))
    file.prompt("one way", promptId="p-2")
    os.utime(file.path, (2_000_000_000, 2_000_000_000))
    told = [next(iter(FORMAT.conversations(path))).conversation for path in paths]
    assert [talk.fork_of for talk in told] == [SESSION, SESSION]
