"""Tests that Gemini CLI's chats become sessions."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import stator
from importers import counts_gemini, growing_files
from importers.growing_files import (
    import_while_growing,
    items,
    model_output,
    outcomes,
    totals,
    usage_of,
)
from importers.import_helpers import (
    DATA,
    RECORDINGS,
    import_file,
    needs_recordings,
    plan,
    prompts_of,
    rendered,
)
from stator.errors import InvalidInput
from stator.importers.gemini.chat import FORMAT
from stator.importers.reading import jsonl as lines
from stator.importers.reading.found_conversation import FoundConversation
from stator.importers.reading.jsonl import read_beginning
from stator.model.exchange import items as foreign
from stator.model.exchange.items import Conversation, digest_of

CHATS = DATA / "gemini" / "garden" / "chats"
MAIN = CHATS / "session-2026-10-02T08-00-7d1f0000.jsonl"
OLD = CHATS / "session-2025-08-01T08-00-7d1f0000.json"
CHILD = CHATS / "7d1f0000-1111-4222-8333-444444444444" / "agent-bee.jsonl"
ALL = [MAIN, OLD, CHILD]
ROOT = "/home/dev/garden"


@pytest.fixture
def store():
    with stator.connect("memory:", project="garden") as opened:
        yield opened


def import_chat(store, path):
    return growing_files.import_one(store, path, "gemini")


def message(name, kind="user", content="go", **more):
    return {"id": name, "type": kind, "content": content, **more}


def called(name, tool="run_shell_command", output="ok", status="success", **args):
    shown = {"functionResponse": {"id": name, "name": tool, "response": {"output": output}}}
    return {"id": name, "name": tool, "args": args, "status": status, "result": [shown]}


def written(tmp_path, *lines, name="session-x.jsonl"):
    path = tmp_path / name
    meta = {"sessionId": "s1", "projectHash": "h", "kind": "main"}
    path.write_text("".join(json.dumps(line) + "\n" for line in (meta, *lines)))
    return path


# -- what is in a chat ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ALL, ids=["lines", "document", "sub-agent"])
def test_a_chat_is_recognized_by_its_first_record(path):
    assert FORMAT.recognizes(path, read_beginning(str(path)))


def test_the_output_of_a_run_is_not_a_chat():
    assert not FORMAT.recognizes(Path("x"), b'{"type": "init", "session_id": "s", "model": "m"}\n')


@pytest.mark.parametrize("path", ALL, ids=["lines", "document", "sub-agent"])
def test_the_counts_match_an_independent_count(path):
    assert totals(items(path, "gemini")) == counts_gemini.count(path)


def test_a_turn_begins_with_a_prompt_by_a_person(store):
    _, shown = import_chat(store, MAIN)
    assert prompts_of(shown) == ["plant a rose", "go on", "go on", "prune it"]


def test_the_calls_of_a_second_version_belong_to_its_answer(store):
    _, shown = import_chat(store, MAIN)
    first = next(c for c in shown.log() if c.kind == "entry" and c.actor == "model")
    kinds = [block["type"] for block in first.value("output")["content"]]
    assert kinds == ["text", "tool_use", "tool_use"]


def test_every_call_has_its_recorded_outcome(store):
    _, shown = import_chat(store, MAIN)
    ended = [(call.turn, call.tool, call.status, call.cause) for call in shown.calls()]
    assert sorted(ended) == [
        (1, "run_shell_command", "error", "exit code 3"),
        (1, "run_shell_command", "ok", ""),
        (1, "write_file", "ok", ""),
        (1, "write_todos", "ok", ""),
        (2, "mcp_well_depth", "error", "too deep"),
        (2, "replace", "ok", ""),
        (3, "run_shell_command", "ok", ""),
    ]


def test_edits_yield_files_with_digests(store):
    _, shown = import_chat(store, MAIN)
    changes = [
        (touch.op, touch.path, touch.before, touch.after)
        for item in items(MAIN, "gemini")
        if isinstance(item, foreign.Returned)
        for touch in item.files
    ]
    rose, red = digest_of("rose\n"), digest_of("red rose\n")
    assert changes == [
        ("created", f"{ROOT}/rose.txt", "", rose),
        ("modified", f"{ROOT}/rose.txt", rose, red),
    ]
    assert [entry.record.path for entry in shown.entries("files")] == ["rose.txt"]


def test_write_todos_sets_the_plan(store):
    _, shown = import_chat(store, MAIN)
    assert plan(shown) == [("dig", "done"), ("water", "pending")]


def test_a_failed_write_todos_changes_no_plan(store, tmp_path):
    todos = [{"description": "fly", "status": "pending"}]
    call = called("x", "write_todos", "no", "error", todos=todos)
    told = [message("u1"), message("g1", "gemini", "", toolCalls=[call])]
    _, shown = import_chat(store, written(tmp_path, *told))
    assert plan(shown) == []


def test_the_model_of_an_answer_is_a_setting_when_it_changes(tmp_path):
    models = ("rose-1", "rose-1", "rose-2")
    told = [message(f"g{n}", "gemini", "yes", model=model) for n, model in enumerate(models)]
    found = items(written(tmp_path, message("u1"), *told), "gemini")
    settings = [(i.id, i.settings) for i in found if isinstance(i, foreign.Configured)]
    assert settings == [("settings/1", {"model": "rose-1"}), ("settings/2", {"model": "rose-2"})]


def test_the_prompt_of_a_sub_agent_is_its_parents():
    (first,) = [item for item in items(CHILD, "gemini") if isinstance(item, foreign.Prompted)]
    assert first.by == "agent"


def test_a_sub_agent_hangs_at_the_call_that_started_it(tmp_path):
    call = {**called("d1", "delegate", agent_name="bee"), "agentId": "bee-1"}
    chats = tmp_path / "chats"
    parent = {"sessionId": "parent-0", "projectHash": "h", "kind": "main"}
    child = {"sessionId": "bee-1", "projectHash": "h", "kind": "subagent"}
    (chats / "parent-0").mkdir(parents=True)
    told = [parent, message("u1"), message("g1", "gemini", "", toolCalls=[call])]
    main = chats / "session-2026-10-02T08-00-parent-0.jsonl"
    main.write_text("".join(json.dumps(line) + "\n" for line in told))
    own = chats / "parent-0" / "bee-1.jsonl"
    own.write_text(json.dumps(child) + "\n")
    (found,) = FORMAT.conversations(own)
    (begun,) = [item for item in items(main, "gemini") if isinstance(item, foreign.Called)]
    assert (found.conversation.parent, found.conversation.parent_call) == ("parent-0", begun.id)


def test_calls_and_results_are_paired_when_rendered(store, tmp_path):
    told = [message("u1"), message("g1", "gemini", "yes", toolCalls=[called("x", command="ls")])]
    _, shown = import_chat(store, written(tmp_path, *told))
    blocks = [block for said in rendered(store, shown) for block in said["content"]]
    asks = [block["id"] for block in blocks if block["type"] == "tool_use"]
    answers = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    assert asks == answers != []


def test_the_providers_id_of_a_call_is_stored_as_its_key():
    keys = {item.key for item in items(MAIN, "gemini") if isinstance(item, foreign.Called)}
    assert "write_file__1" in keys


def test_messages_missing_from_a_set_make_a_compaction(store):
    _, shown = import_chat(store, MAIN)
    (found,) = [c for c in shown.log() if c.kind == "compaction"]
    assert found.value("input")["summary"] == "<state_snapshot>a rose was planted</state_snapshot>"


def test_a_changed_wording_is_not_a_compaction(store, tmp_path):
    masked = {"$set": {"messages": [message("u1"), message("g1", "gemini", "…")]}}
    _, shown = import_chat(
        store, written(tmp_path, message("u1"), message("g1", "gemini", "long"), masked)
    )
    assert not [c for c in shown.log() if c.kind == "compaction"]


def test_a_rewind_is_noted_and_the_earlier_turns_stay(store):
    _, shown = import_chat(store, MAIN)
    assert any("went back" in str(c.value("output")) for c in shown.log() if c.kind == "entry")


@pytest.mark.parametrize(
    ("status", "output", "ended"),
    [
        ("error", "no such file", ("error", "no such file")),
        ("cancelled", "[Operation Cancelled] Reason: User did not allow tool call", ("denied", "refused by the user")),
        ("cancelled", "[Operation Cancelled] User cancelled tool execution.", ("in doubt", "interrupted")),
        ("success", "Output: Exit Code: 9\nExit Code: 0", ("ok", "")),
        ("executing", "", ("started", "")),
    ],
)  # fmt: skip
def test_the_status_of_a_call_sets_its_outcome(store, tmp_path, status, output, ended):
    call = called("x", output=output, status=status, command="make")
    _, shown = import_chat(
        store, written(tmp_path, message("u1"), message("g1", "gemini", "", toolCalls=[call]))
    )
    (found,) = shown.calls()
    assert (found.status, found.cause) == ended


def test_a_result_that_is_only_in_a_message_is_recorded(store, tmp_path):
    asks = {"functionCall": {"id": "x", "name": "run_shell_command", "args": {"command": "ls"}}}
    shown = {
        "functionResponse": {"id": "x", "name": "run_shell_command", "response": {"output": "a"}}
    }
    told = [message("u1"), message("g1", "gemini", [asks]), message("u2", "user", [shown])]
    report, found = import_chat(store, written(tmp_path, *told))
    assert (report.calls, [call.status for call in found.calls()]) == (1, ["ok"])


def test_a_command_to_gemini_cli_is_not_a_prompt(store, tmp_path):
    report, _ = import_chat(store, written(tmp_path, message("u1", content="/help"), message("u2")))
    assert report.turns == 1


# -- the conversation -------------------------------------------------------------------------------


def test_the_older_document_format_yields_the_same_session(store):
    report, shown = import_chat(store, OLD)
    assert (report.turns, report.calls) == (1, 2)
    assert sorted((call.tool, call.status) for call in shown.calls()) == [
        ("read_file", "ok"),
        ("run_shell_command", "denied"),
    ]


def test_the_working_folder_comes_from_the_project_root_file():
    (found,) = FORMAT.conversations(MAIN)
    assert found.conversation.cwd == ROOT


def test_the_working_folder_comes_from_the_session_context(tmp_path):
    path = tmp_path / MAIN.name
    path.write_bytes(MAIN.read_bytes())
    (found,) = FORMAT.conversations(path)
    assert found.conversation.cwd == ROOT


def test_a_sub_agent_is_a_session_below_its_parent(store):
    _, parent = import_chat(store, MAIN)
    _, child = import_chat(store, CHILD)
    assert (child.record.parent.session, child.record.parent.kind) == (parent.id, "child")


def test_default_paths_are_the_chats_folders_of_all_projects(tmp_path):
    (tmp_path / ".gemini/tmp/garden/chats").mkdir(parents=True)
    assert list(FORMAT.default_paths(tmp_path, {})) == [tmp_path / ".gemini/tmp/garden/chats"]


def test_a_chat_with_only_a_folder_digest_belongs_to_that_folder():
    (found,) = FORMAT.conversations(MAIN)
    talk = Conversation(source="gemini", id="x", labels=found.conversation.labels)
    assert FORMAT.is_in_folder(FoundConversation(path="x", conversation=talk), ROOT)
    assert not FORMAT.is_in_folder(FoundConversation(path="x", conversation=talk), "/home/dev")


# -- repeated imports and growing files -------------------------------------------------------------


@pytest.mark.parametrize("path", ALL, ids=["lines", "document", "sub-agent"])
def test_importing_again_adds_nothing(store, path):
    import_chat(store, path)
    again, _ = import_chat(store, path)
    assert (again.commits, again.unchanged) == (0, 1)


def test_a_chat_that_grows_line_by_line_becomes_the_same_session(store, tmp_path):
    piecewise = import_while_growing(store, MAIN, tmp_path / MAIN.name, "gemini")
    with stator.connect("memory:", project="garden") as other:
        _, whole = import_chat(other, MAIN)
        assert prompts_of(piecewise) == prompts_of(whole)
        assert model_output(piecewise) == model_output(whole)
        assert outcomes(piecewise) == outcomes(whole)
        assert usage_of(piecewise) == usage_of(whole)


def test_a_chat_that_grew_adds_only_new_turns(store, tmp_path):
    path = written(tmp_path, message("u1"), message("g1", "gemini", "yes"))
    import_chat(store, path)
    with path.open("a") as file:
        file.write(json.dumps(message("u2", content="more")) + "\n")
    report, shown = import_chat(store, path)
    assert (report.turns, prompts_of(shown)) == (1, ["go", "more"])


# -- bad files --------------------------------------------------------------------------------------


def test_a_cut_last_line_is_reported_and_the_rest_is_imported(store, tmp_path):
    path = tmp_path / MAIN.name
    path.write_bytes(MAIN.read_bytes()[:-8])
    report, shown = import_chat(store, path)
    assert [skip.why for skip in report.skips] == ["cut off"]
    assert len(prompts_of(shown)) == 4


@pytest.mark.parametrize("bad", [b"{nonsense\n", b"\0" * 300 + b"\n", b"[1, 2]\n"])
def test_a_bad_line_in_the_middle_is_skipped_and_the_rest_is_imported(store, tmp_path, bad):
    whole = MAIN.read_bytes().splitlines(keepends=True)
    path = tmp_path / MAIN.name
    path.write_bytes(b"".join([*whole[:12], bad, *whole[12:]]))
    report, shown = import_chat(store, path)
    assert (report.skipped, len(prompts_of(shown))) == (1, 4)


def test_lone_surrogates_are_kept(store, tmp_path):
    _, shown = import_chat(store, written(tmp_path, message("u1", content="a \ud800 b")))
    assert prompts_of(shown) == ["a \ud800 b"]


@pytest.mark.parametrize("line", [{"x": 1}, message("a", "telepathy")])
def test_a_line_of_an_unknown_kind_is_stored_unchanged(store, tmp_path, line):
    report, _ = import_chat(store, written(tmp_path, message("u1"), line))
    assert (report.unknown, report.turns) == (1, 1)


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [None, 7, {"text": 7}]])
def test_values_of_wrong_types_do_not_raise(store, tmp_path, value):
    odd = [
        message("a", "user", value),
        message("b", "gemini", value, toolCalls=value, tokens=value, thoughts=value, timestamp=value),
        message("c", "gemini", "", toolCalls=[dict.fromkeys(("id", "name", "args", "status", "result"), value)]),
        message("d", "user", [{"functionResponse": value}]),
        {"$set": {"messages": value, "summary": value}},
        {"$set": value},
        {"$rewindTo": value},
    ]  # fmt: skip
    report, _ = import_chat(store, written(tmp_path, *odd, message("z", content="still here")))
    assert report.turns >= 1


def test_a_rewind_to_an_unknown_message_removes_everything(store, tmp_path):
    report, _ = import_chat(
        store, written(tmp_path, message("u1"), {"$rewindTo": "nowhere"}, message("u2"))
    )
    assert report.turns == 2


def test_a_line_above_the_limit_is_skipped_and_the_rest_is_imported(store, tmp_path, monkeypatch):
    long = message("u2", content="x" * 3000)
    path = written(tmp_path, message("u1"), long, message("u3", content="on"))
    monkeypatch.setattr(lines, "LINE_MAX", 2000)
    report, shown = import_chat(store, path)
    assert (report.skipped, prompts_of(shown)) == (1, ["go", "on"])


def test_a_pipe_is_refused_without_waiting(tmp_path):
    path = tmp_path / "session-x.jsonl"
    os.mkfifo(path)
    with pytest.raises(InvalidInput):
        list(FORMAT.conversations(path))


def test_a_repeated_message_counts_once(store, tmp_path):
    report, _ = import_chat(store, written(tmp_path, message("u1"), message("u1"), message("u1")))
    assert report.turns == 1


def test_a_later_version_of_an_answer_adds_only_what_is_new(store, tmp_path):
    late = message("g1", "gemini", "yes", toolCalls=[called("x", command="ls")])
    told = [message("u1"), message("g1", "gemini", "yes"), message("u2", content="more"), late]
    report, shown = import_chat(store, written(tmp_path, *told))
    assert report.calls == 1
    assert [block["type"] for block in model_output(shown)] == ["text", "tool_use"]


def test_a_cut_document_is_refused(tmp_path):
    path = tmp_path / OLD.name
    path.write_bytes(OLD.read_bytes()[:-30])
    with pytest.raises(InvalidInput):
        list(FORMAT.conversations(path))


@pytest.mark.parametrize("change", [lambda b: b"\xef\xbb\xbf" + b, lambda b: b.replace(b"\n", b"\r\n"),
                                    lambda b: b.decode().encode("utf-16")], ids=["bom", "crlf", "utf-16"])  # fmt: skip
@pytest.mark.parametrize("path", [MAIN, OLD], ids=["lines", "document"])
def test_other_encodings_are_read(store, tmp_path, path, change):
    other = tmp_path / path.name
    other.write_bytes(change(path.read_bytes()))
    assert FORMAT.recognizes(other, read_beginning(str(other)))
    report, _ = import_chat(store, other)
    assert (report.turns, report.skipped) == (counts_gemini.count(path)["turns"], 0)


# -- real sessions ----------------------------------------------------------------------------------


@needs_recordings
def test_the_counts_of_real_sessions_match_an_independent_count(store):
    paths = list(RECORDINGS.glob("generated/gemini-*/session-*"))
    assert paths
    for path in paths:
        assert totals(items(path, "gemini")) == counts_gemini.count(path)
        assert import_file(store, path, "gemini").turns == counts_gemini.count(path)["turns"]
