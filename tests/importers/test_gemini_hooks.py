"""Tests that Gemini CLI's hooks, which have no call ids, never record a call twice."""

from __future__ import annotations

import json

import pytest

import stator
from importers.import_helpers import DATA, prompts_of, view
from stator.hooks import gemini
from stator.importers.conversation import Report, import_conversation
from stator.importers.gemini.chat import FORMAT
from stator.model.exchange.items import Called, Item, Prompted, Returned
from stator.model.log.redact import Redactor
from stator.runtime.ingest.recorder import Recorder

HERE = DATA / "gemini"
NOTICES = [json.loads(line) for line in (HERE / "hooks.jsonl").read_text().splitlines()]
CHAT = HERE / "garden/chats/session-2026-10-02T08-00-7d1f0000.jsonl"
LINES = CHAT.read_bytes().splitlines(keepends=True)
PROMPTS = ["plant a rose", "go on", "go on", "prune it"]
CALLS = 7


@pytest.fixture
def store():
    with stator.connect("memory:", project="garden") as opened:
        yield opened


@pytest.fixture
def chat(tmp_path):
    path = tmp_path / CHAT.name
    path.write_bytes(CHAT.read_bytes())
    return path


def record_hooks(store, notices, chat, state=None, first=0):
    """Record hook inputs."""
    state = {} if state is None else state
    talk = gemini.conversation(notices[0])
    assert talk is not None
    recorder = Recorder(store.port, store.context, talk, via="hook")
    for number, said in enumerate(notices, first):
        told = {**said, "transcript_path": str(chat)}
        for item in gemini.items(told, 1, f"hook/{number}", state):
            recorder.take(item)
        recorder.flush()
    return view(store, talk)


def import_chat(store, path):
    shown = None
    for found in FORMAT.conversations(path):
        import_conversation(store.port, store.context, FORMAT, found, Report(), at_rest=False)
        shown = view(store, found)
    return shown


def kind_at(kind, nth):
    """The position of the nth hook of a kind."""
    return [n for n, said in enumerate(NOTICES) if said["hook_event_name"] == kind][nth]


def test_hooks_and_then_the_chat_record_everything_once(store, chat):
    record_hooks(store, NOTICES, chat)
    shown = import_chat(store, chat)
    assert (prompts_of(shown), len(shown.calls())) == (PROMPTS, CALLS)


def test_the_chat_and_then_hooks_record_everything_once(store, chat):
    import_chat(store, chat)
    shown = record_hooks(store, NOTICES, chat)
    assert (prompts_of(shown), len(shown.calls())) == (PROMPTS, CALLS)


def test_hooks_without_the_chat_derive_the_same_ids(store, chat):
    record_hooks(store, NOTICES, "", {"no transcript": True})
    shown = import_chat(store, chat)
    assert (prompts_of(shown), len(shown.calls())) == (PROMPTS, CALLS)


@pytest.mark.parametrize("begin", range(0, len(NOTICES), 3))
def test_hooks_installed_mid_conversation_record_nothing_twice(store, chat, begin):
    import_chat(store, chat)
    shown = record_hooks(store, NOTICES[begin:], chat, first=begin)
    assert (prompts_of(shown), len(shown.calls())) == (PROMPTS, CALLS)


@pytest.mark.parametrize("lost", range(0, len(NOTICES), 3))
def test_a_lost_hook_causes_no_duplicates(store, chat, lost):
    record_hooks(store, NOTICES[:lost] + NOTICES[lost + 1 :], chat)
    shown = import_chat(store, chat)
    assert (prompts_of(shown), len(shown.calls())) == (PROMPTS, CALLS)


def test_hooks_while_the_chat_grows_have_the_ids_of_the_chat(tmp_path):
    """Each hook is mapped when the chat contains everything written before the hook's time."""
    path = tmp_path / CHAT.name
    state: dict[str, object] = {}
    told: list[Item] = []
    for number, said in enumerate(NOTICES[1:], 1):
        before = [line for line in LINES if moment_of(line) <= said["timestamp"]]
        path.write_bytes(b"".join(before))
        given = {**said, "transcript_path": str(path)}
        told += gemini.items(given, 1, f"hook/{number}", state)
    (found,) = FORMAT.conversations(CHAT)
    for kind in (Prompted, Called, Returned):
        chat_ids = [item.id for item in FORMAT.read(found, None, None) if type(item) is kind]
        assert [item.id for item in told if type(item) is kind] == chat_ids


def moment_of(line):
    """The earliest time at which a line was written."""
    value = json.loads(line)
    calls = value.get("toolCalls") or [{}]
    times = [value.get("timestamp", ""), value.get("startTime", ""), calls[-1].get("timestamp", "")]
    return max([*times, (value.get("$set") or {}).get("lastUpdated", "")])


def test_the_same_command_twice_in_a_turn_is_two_calls(store, chat):
    shown = record_hooks(store, NOTICES, "", {"no transcript": True})
    pumps = [call.status for call in shown.calls() if call.tool == "run_shell_command"]
    assert sorted(pumps) == ["error", "ok", "ok"]


def test_the_same_command_twice_at_once_is_two_calls():
    state = {"no transcript": True}
    before, after = NOTICES[kind_at("BeforeTool", 2)], NOTICES[kind_at("AfterTool", 2)]
    told = [
        item for said in (before, before, after, after) for item in gemini.items(said, 1, "", state)
    ]
    began = [item.id for item in told if isinstance(item, Called)]
    ended = [item.id for item in told if isinstance(item, Returned)]
    assert began == ended
    assert len(set(began)) == 2


def test_a_restart_of_the_program_says_nothing_about_a_call_without_an_end(store, chat):
    upto = kind_at("BeforeTool", 0) + 1
    record_hooks(store, NOTICES[:upto], "", {"no transcript": True})
    later = {**NOTICES[0], "source": "resume", "timestamp": "2026-10-03T08:00:00.000Z"}
    shown = record_hooks(store, [later], "", {"no transcript": True}, first=500)
    assert not [commit for commit in shown.log() if commit.kind == "outcome"]


def test_redacted_hooks_cause_no_duplicates(store, tmp_path):
    secret = "ghp_" + "a1B2" * 9
    swap = {"plant a rose": f"plant a rose with {secret}", '"pump"': f'"pump --token {secret}"'}

    def changed(text):
        for old, new in swap.items():
            text = text.replace(old, new)
        return text

    path = tmp_path / CHAT.name
    path.write_text(changed(CHAT.read_text()))
    redactor = Redactor(b"spool")
    lines = (HERE / "hooks.jsonl").read_text().splitlines()
    notices = [json.loads(redactor.scrub(changed(line))) for line in lines]
    assert secret not in json.dumps(notices)
    record_hooks(store, notices, path)
    shown = import_chat(store, path)
    assert (len(prompts_of(shown)), len(shown.calls())) == (4, CALLS)


def test_a_pre_compress_hook_is_not_a_compaction(store, chat):
    shown = record_hooks(store, NOTICES, "", {"no transcript": True})
    assert not [commit for commit in shown.log() if commit.kind == "compaction"]


def test_a_tool_response_yields_files_and_the_outcome():
    state = {"no transcript": True}
    told = [item for said in NOTICES for item in gemini.items(said, 1, "x", state)]
    ended = [item for item in told if isinstance(item, Returned)]
    assert [(touch.op, touch.path) for touch in ended[0].files] == [
        ("created", "/home/dev/garden/rose.txt")
    ]
    assert [(i.status, i.cause) for i in ended if i.status != "ok"] == [
        ("error", "exit code 3"),
        ("error", "too deep"),
    ]
    assert [item.content for item in told if isinstance(item, Prompted)] == PROMPTS


@pytest.mark.parametrize("value", [None, 7, [], {}, "x"])
def test_values_of_wrong_types_do_not_raise(value):
    names = "tool_name tool_input tool_response prompt prompt_response timestamp source".split()
    for kind in "SessionStart BeforeAgent BeforeTool AfterTool AfterAgent SessionEnd Odd".split():
        said = {"hook_event_name": kind, **dict.fromkeys(names, value), "transcript_path": value}
        list(gemini.items(said, 5, "hook/1", {}))


def test_text_that_hooks_put_before_the_first_prompt_is_left_out(store, chat):
    said = "<hook_context>recorded as s_1\nand more</hook_context>\n\n"
    told = [
        {**notice, "prompt": said + notice["prompt"]}
        if notice.get("prompt") == PROMPTS[0]
        else notice
        for notice in NOTICES
    ]
    prompt = json.dumps(PROMPTS[0]).encode()
    with_context = json.dumps(said + PROMPTS[0]).encode()
    chat.write_bytes(CHAT.read_bytes().replace(prompt, with_context, 1))
    record_hooks(store, told, chat)
    shown = import_chat(store, chat)
    assert (prompts_of(shown), len(shown.calls())) == (PROMPTS, CALLS)
