"""Tests that Claude Code's hooks and transcript record the same turns and calls once, in any order."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import stator
from importers.claude_code_writer import import_files, view
from stator.hooks import claude_code as hooks
from stator.importers.claude_code.line_fields import timestamp_of
from stator.importers.claude_code.transcript import FORMAT
from stator.model.exchange.items import (
    Answered,
    Began,
    Compacted,
    Conversation,
    Prompted,
    Returned,
    Spawned,
    TurnEnded,
)
from stator.model.log.query import SessionQuery
from stator.runtime.ingest.recorder import Recorder

DATA = Path(__file__).parent / "data" / "claude-code"
SESSION = "5e551000-0000-4000-8000-00000000000a"
MAIN = DATA / f"{SESSION}.jsonl"
TOLD = [json.loads(line) for line in (DATA / "hooks.stdin.jsonl").read_text().splitlines()]
COUNTED = ("turn", "call", "outcome", "turn_end", "compaction", "plan")


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "a.db", project="demo") as opened:
        yield opened


def times() -> list[int]:
    """When each hook ran: right after the transcript's line for the same call or prompt."""
    found, at = [], timestamp_of({"timestamp": "2026-03-01T09:59:59.000Z"})
    lines = [json.loads(line) for line in MAIN.read_text().splitlines()]
    for said in TOLD:
        name = said.get("tool_use_id", said.get("prompt", "nothing"))
        later = [timestamp_of(line) for line in lines if json.dumps(name)[1:-1] in json.dumps(line)]
        is_end = said["hook_event_name"].startswith("Post")
        at = max(at + 1, (later[-1] if is_end else later[0]) + 1 if later else 0)
        found.append(at)
    return found


TIMES = times()


def record(store, told=TOLD, state=None):
    """Record hook inputs one after another, as `hooks.ingest` does."""
    state = {} if state is None else state
    for said in told:
        number = TOLD.index(said)
        talk: Any = hooks.conversation(said)
        for item in hooks.items(said, TIMES[number], str(number), state):
            below = Conversation(source=talk.source, id=item.within, parent=talk.id)
            recorder = Recorder(
                store.port, store.context, below if item.within else talk, via="hook"
            )
            recorder.take(item)
            recorder.flush()


def tally(store, session=SESSION):
    found = Counter(commit.kind for commit in view(store, session).log())
    return {kind: found[kind] for kind in COUNTED}


def made(said, state=None, **fields):
    return list(hooks.items({**said, **fields}, 1, "x", {} if state is None else state))


def by(name):
    return next(said for said in TOLD if said["hook_event_name"] == name)


WHOLE = {"turn": 3, "call": 6, "outcome": 5, "turn_end": 2, "compaction": 1, "plan": 1}


@pytest.mark.parametrize("order", ["ht", "th", "hth", "tht"])
def test_hooks_and_transcript_record_each_turn_and_call_once(store, order):
    parts = {"h": lambda: record(store), "t": lambda: import_files(store, MAIN, at_rest=False)}
    for part in order:
        parts[part]()
    assert tally(store) == WHOLE
    assert len(store.port.sessions(SessionQuery(), limit=100).rows) == 2


def test_hooks_between_imports_record_each_turn_and_call_once(store, tmp_path):
    """The transcript grows between hooks, as it does while an agent runs."""
    lines = MAIN.read_bytes().splitlines(keepends=True)
    growing = tmp_path / MAIN.name
    state: dict[str, Any] = {}
    for part in range(0, max(len(lines), len(TOLD)), 4):
        growing.write_bytes(b"".join(lines[: part + 4]))
        import_files(store, growing, at_rest=False)
        record(store, TOLD[part : part + 4], state)
    import_files(store, growing, at_rest=False)
    assert tally(store) == WHOLE


def test_a_hook_and_the_transcript_record_the_same_for_a_call(store, tmp_path):
    record(store)
    with stator.connect(tmp_path / "b.db", project="demo") as other:
        import_files(other, MAIN, at_rest=False)
        told, read = (
            {
                c.origin[1]: (c.tool, c.status, c.effect)
                for c in _view(s).log()
                if c.kind == "outcome"
            }
            for s in (store, other)
        )
    assert told == read


def _view(store):
    return view(store, SESSION)


def test_a_hook_and_the_transcript_record_the_same_files(store, tmp_path):
    record(store)
    with stator.connect(tmp_path / "b.db", project="demo") as other:
        import_files(other, MAIN, at_rest=False)
        told, read = (
            {
                (e.record.path, e.record.op, e.record.before, e.record.after)
                for e in _view(s).entries("files")
            }
            for s in (store, other)
        )
    assert told == read


def test_a_hook_in_a_sub_agent_belongs_to_the_sub_agents_session(store):
    record(store)
    import_files(store, MAIN)
    assert tally(store, f"{SESSION}/ga1")["call"] == 1
    assert FORMAT.name == hooks.SOURCE


def test_a_call_without_an_end_is_in_doubt_when_the_agent_restarts(store):
    record(store)
    talk: Any = hooks.conversation(TOLD[0])
    recorder = Recorder(store.port, store.context, talk, via="hook")
    recorder.take(Began(id="again", how="resume"))
    recorder.flush()
    assert {c.status for c in _view(store).calls() if c.turn == 3} == {"in doubt"}


def test_an_interrupted_write_is_in_doubt_and_an_interrupted_read_cancelled():
    failed = by("PostToolUseFailure")
    (write,) = made(failed, is_interrupt=True)
    (read,) = made(failed, is_interrupt=True, tool_name="Read")
    assert (write.status, read.status) == ("in doubt", "cancelled")


def test_a_call_without_permission_is_denied():
    denied = {**by("PreToolUse"), "hook_event_name": "PermissionDenied", "reason": "by a rule"}
    (told,) = made(denied)
    assert isinstance(told, Returned)
    assert (told.status, told.cause) == ("denied", "by a rule")


def test_a_compaction_is_recorded_once_with_or_without_a_summary():
    before, after = by("PreCompact"), {**by("PreCompact"), "hook_event_name": "PostCompact"}
    start = {**by("SessionStart"), "source": "compact"}
    state: dict[str, Any] = {}
    told = [
        *made(before, state),
        *made(after, state, compact_summary="short"),
        *made(start, state),
        *made(before, state),
        *made(start, state),
    ]
    assert [(item.id, item.summary) for item in told] == [("compact/1", "short"), ("compact/2", "")]
    assert all(isinstance(item, Compacted) for item in told)


def test_without_a_transcript_the_hook_records_the_last_answer():
    stop = by("Stop")
    assert [type(item) for item in made(stop)] == [TurnEnded]
    assert [type(item) for item in made(stop, {"no transcript": True})] == [Answered, TurnEnded]


def test_a_prompt_without_an_id_is_left_to_the_transcript():
    prompt = {name: value for name, value in by("UserPromptSubmit").items() if name != "prompt_id"}
    assert made(prompt) == []
    (told,) = made(prompt, {"no transcript": True})
    assert isinstance(told, Prompted)


def test_the_start_and_stop_of_a_sub_agent_are_recorded():
    (start,) = made(by("SubagentStart"))
    (stop,) = made(by("SubagentStop"))
    assert isinstance(start, Spawned)
    assert (start.child, start.status) == (f"{SESSION}/ga1", "started")
    assert (stop.child, stop.status) == (f"{SESSION}/ga1", "ended")


@pytest.mark.parametrize("said", [{}, {"hook_event_name": 3}, {"hook_event_name": "NewOne"}])
def test_an_unknown_hook_yields_no_items(said):
    assert made(said) == []
    assert hooks.conversation(said) is None


@pytest.mark.parametrize("name", sorted({said["hook_event_name"] for said in TOLD}))
def test_values_of_wrong_types_do_not_raise(name):
    shapes: tuple[Any, ...] = (None, 7, [], {"x": []})
    for bad in shapes:
        made(dict.fromkeys(by(name), bad) | {"hook_event_name": name})
