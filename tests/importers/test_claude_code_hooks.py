"""Tests that what Claude Code's hooks report has the ids that it has in the transcript."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stator.hooks import claude_code as hooks
from stator.importers.claude_code.transcript import FORMAT
from stator.model.exchange.items import (
    Answered,
    Began,
    Called,
    Compacted,
    Item,
    Noted,
    Planned,
    Prompted,
    Returned,
    Spawned,
    TurnEnded,
)

DATA = Path(__file__).parent / "data" / "claude-code"
SESSION = "5e551000-0000-4000-8000-00000000000a"
MAIN = DATA / f"{SESSION}.jsonl"
TOLD = [json.loads(line) for line in (DATA / "hooks.stdin.jsonl").read_text().splitlines()]


def made(said, state=None, **fields):
    return list(hooks.items({**said, **fields}, 1, "x", {} if state is None else state))


def by(name):
    return next(said for said in TOLD if said["hook_event_name"] == name)


def transcript() -> dict[tuple[str, str, str], Item]:
    """The items of the session and of its sub-agent in their transcripts, by conversation, kind and id."""
    found: dict[tuple[str, str, str], Item] = {}
    for one in FORMAT.conversations(MAIN):
        within = "" if one.conversation.id == SESSION else one.conversation.id
        for item in FORMAT.read(one, None, None):
            found[within, type(item).__name__, item.id] = item
    return found


WITNESSED = (Prompted, Called, Returned, Compacted, Planned, Spawned)


def told_items() -> list[Item]:
    """The items of all hooks, in their order."""
    state: dict[str, Any] = {}
    return [
        item
        for number, said in enumerate(TOLD)
        for item in hooks.items(said, 1 + number, str(number), state)
    ]


@pytest.mark.parametrize("kind", WITNESSED, ids=lambda kind: kind.__name__)
def test_what_a_hook_reports_has_the_id_that_it_has_in_the_transcript(kind):
    read = transcript()
    told = [item for item in told_items() if isinstance(item, kind)]
    assert told
    assert [item for item in told if (item.within, kind.__name__, item.id) not in read] == []


def test_a_hook_and_the_transcript_say_the_same_of_a_call():
    read = transcript()
    for item in told_items():
        if isinstance(item, Called):
            same: Any = read[item.within, "Called", item.id]
            assert (item.tool, item.input, item.effect) == (same.tool, same.input, same.effect)
        elif isinstance(item, Returned):
            same = read[item.within, "Returned", item.id]
            assert (item.tool, item.status, item.files) == (same.tool, same.status, same.files)


def test_only_the_start_and_the_end_of_the_program_are_known_to_hooks_alone():
    others = [item for item in told_items() if not isinstance(item, (*WITNESSED, TurnEnded))]
    assert {type(item) for item in others} <= set(hooks.LIFECYCLE)
    assert FORMAT.name == hooks.SOURCE


def test_a_compaction_makes_no_sub_agents():
    """Claude Code reports the end of the agents that write the summary; they have no type."""
    stop = by("SubagentStop")
    assert made(stop, agent_type="", agent_id="a431be3cbefed0c87") == []


def test_a_program_that_resumes_has_not_compacted_anything():
    state: dict[str, Any] = {}
    start = by("SessionStart")
    told = [*made(by("PreCompact"), state), *made(start, state, source="resume")]
    told += made(start, state, source="compact")
    assert [type(item) for item in told] == [Began]


def test_the_report_of_a_background_task_is_no_prompt():
    report = "<task-notification><task-id>b1</task-id></task-notification>"
    assert made(by("UserPromptSubmit"), prompt=report) == []
    (told,) = made(by("UserPromptSubmit"), {"no transcript": True}, prompt=report)
    assert isinstance(told, Noted)
    assert told.by == "agent"


def test_a_sub_agent_in_the_background_has_started_and_not_ended():
    result = {"isAsync": True, "status": "async_launched", "agentId": "a9"}
    after = by("PostToolUse")
    told = made(after, tool_name="Agent", tool_use_id="t", tool_input={}, tool_response=result)
    assert [(item.id, item.call) for item in told if isinstance(item, Spawned)] == [
        ("child/a9", "t")
    ]


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("plant two beds\nand water them", "plant two beds"),
        ("/compact", ""),
        ("<ide_opened_file>a.py</ide_opened_file>fix it", "fix it"),
        ("<task-notification>x</task-notification>", ""),
    ],
)
def test_a_session_that_hooks_began_is_named_after_what_the_user_asked(prompt, name):
    talk = hooks.conversation({**by("UserPromptSubmit"), "prompt": prompt})
    assert talk is not None
    assert talk.name == name


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
