"""Tests that Codex's hooks and rollout record the same turns and calls once, in any order."""

from __future__ import annotations

import json

import pytest

import stator
from importers.import_helpers import DATA, prompts_of, view
from stator.hooks import codex
from stator.importers.codex.rollout import FORMAT
from stator.importers.conversation import Report, import_conversation
from stator.model.exchange.items import (
    Answered,
    Began,
    Called,
    Compacted,
    Ended,
    Planned,
    Prompted,
    Returned,
    Spawned,
    TurnEnded,
)
from stator.runtime.ingest.recorder import Recorder

HERE = DATA / "codex"
NOTICES = [json.loads(line) for line in (HERE / "hooks.jsonl").read_text().splitlines()]
(ROLLOUT,) = HERE.glob("*000a.jsonl")


@pytest.fixture
def store():
    with stator.connect("memory:", project="garden") as opened:
        yield opened


def record_hooks(store, notices=NOTICES, state=None, first=0):
    """Record hook inputs."""
    state = {} if state is None else state
    talk = codex.conversation(notices[0])
    assert talk is not None
    recorder = Recorder(store.port, store.context, talk, via="hook")
    for number, said in enumerate(notices, first):
        for item in codex.items(said, 1_790_000_000_000_000 + number, f"hook/{number}", state):
            recorder.take(item)
        recorder.flush()


def import_rollout(store):
    (found,) = FORMAT.conversations(ROLLOUT)
    import_conversation(store.port, store.context, FORMAT, found, Report(), at_rest=False)
    return view(store, found)


def one(said, state=None):
    state = {} if state is None else state
    return list(codex.items({"session_id": "s", **said}, 5, "hook/1", state))


def calls(shown):
    return sorted((call.tool, call.status) for call in shown.calls())


def test_hooks_and_rollout_record_the_same_turns_and_calls_in_any_order(store):
    record_hooks(store)
    shown = import_rollout(store)
    with stator.connect("memory:", project="garden") as other:
        import_rollout(other)
        record_hooks(other)
        again = import_rollout(other)
        assert prompts_of(shown) == prompts_of(again) == ["water the roses", "mend the pump"]
        assert len(shown.calls()) == len(again.calls()) == 7


def test_hooks_between_imports_add_no_call(store):
    record_hooks(store, NOTICES[:5])
    import_rollout(store)
    record_hooks(store, NOTICES[5:], first=5)
    assert len(import_rollout(store).calls()) == 7


def test_the_outcome_of_a_command_is_left_to_the_rollout(store):
    record_hooks(store, NOTICES[:-1])
    assert ("Bash", "error") in calls(import_rollout(store))


def test_without_a_rollout_hooks_record_everything_they_report(store):
    record_hooks(store, state={"no transcript": True})
    shown = view(store, codex.conversation(NOTICES[0]))
    assert [call.status for call in shown.calls()] == ["ok"] * 5
    assert [c.value("output")["output"][0]["type"] for c in shown.log() if c.actor == "model"] == [
        "message"
    ]


def test_a_restart_of_the_program_says_nothing_about_a_call_without_an_end(store):
    record_hooks(store, NOTICES[:5])
    record_hooks(store, [{**NOTICES[0], "source": "resume"}], first=50)
    shown = view(store, codex.conversation(NOTICES[0]))
    assert ("Bash", "started") in calls(shown)


def child_hook(kind, **more):
    return {
        "session_id": "lead",
        "agent_id": "fern",
        "hook_event_name": kind,
        "turn_id": "t",
        **more,
    }


@pytest.mark.parametrize("kind", ["UserPromptSubmit", "PreToolUse", "PostToolUse", "PreCompact"])
def test_what_a_sub_agent_does_belongs_to_its_own_conversation(kind):
    talk = codex.conversation(child_hook(kind))
    assert talk is not None
    assert (talk.id, talk.parent) == ("fern", "lead")


@pytest.mark.parametrize("kind", ["SubagentStart", "SubagentStop"])
def test_that_a_sub_agent_starts_and_ends_belongs_to_its_parent(kind):
    talk = codex.conversation(child_hook(kind))
    assert talk is not None
    assert (talk.id, talk.parent) == ("lead", "")
    (item,) = one(child_hook(kind))
    assert isinstance(item, Spawned)
    assert item.child == "fern"


def test_the_prompt_of_a_sub_agent_is_an_agents():
    (item,) = one(child_hook("UserPromptSubmit", prompt="dig"))
    assert isinstance(item, Prompted)
    assert (item.id, item.by) == ("turn/t", "agent")


def test_a_prompt_is_what_the_person_typed():
    asked = "# Context from my IDE setup:\n\n## Open tabs:\n- a\n\n## My request for Codex:\ndig"
    (item,) = one({"hook_event_name": "UserPromptSubmit", "turn_id": "t", "prompt": asked})
    assert isinstance(item, Prompted)
    assert (item.content, item.by) == ("dig", "user")


@pytest.mark.parametrize(("answer", "planned"), [("Plan updated", 1), ("failed to parse", 0)])
def test_a_plan_changes_only_when_its_call_succeeded(answer, planned):
    plan = {"plan": [{"step": "dig", "status": "pending"}]}
    told = one({"hook_event_name": "PostToolUse", "tool_name": "update_plan", "tool_use_id": "c",
                "tool_input": plan, "tool_response": answer})  # fmt: skip
    assert sum(isinstance(item, Planned) for item in told) == planned


def test_ids_of_hooks_are_those_of_the_rollout():
    (found,) = FORMAT.conversations(ROLLOUT)
    rollout = {(type(item), item.id) for item in FORMAT.read(found, None, None)}
    kinds = (Prompted, Called, Returned, TurnEnded)
    told = {
        (type(item), item.id) for said in NOTICES for item in one(said) if isinstance(item, kinds)
    }
    assert told
    assert told <= rollout


def test_an_error_reported_by_an_mcp_server_is_an_error():
    said = {"hook_event_name": "PostToolUse", "tool_name": "mcp__a__b", "tool_use_id": "c",
            "tool_response": {"isError": True, "content": []}}  # fmt: skip
    (item,) = one(said)
    assert isinstance(item, Returned)
    assert item.status == "error"


def test_each_hook_becomes_its_item():
    assert isinstance(one({"hook_event_name": "SessionStart", "source": "startup"})[0], Began)
    assert isinstance(one({"hook_event_name": "SessionEnd", "reason": "other"})[0], Ended)
    assert isinstance(one({"hook_event_name": "Stop"})[0], TurnEnded)
    pre = {"hook_event_name": "PreToolUse", "tool_name": "view_image", "tool_use_id": "c"}
    (item,) = one(pre)
    assert isinstance(item, Called)
    assert item.effect == "read"


def test_an_answer_is_recorded_from_a_hook_only_without_a_rollout():
    said = {"hook_event_name": "Stop", "last_assistant_message": "done"}
    assert not any(isinstance(item, Answered) for item in one(said))
    assert any(isinstance(item, Answered) for item in one(said, {"no transcript": True}))


def test_several_hooks_of_one_compaction_record_it_once():
    state = {"no transcript": True}
    notices = [{"hook_event_name": "PreCompact"}, {"hook_event_name": "PostCompact"},
               {"hook_event_name": "SessionStart", "source": "compact"}]  # fmt: skip
    told = [item for said in notices for item in one(said, state)]
    assert [item.id for item in told if isinstance(item, Compacted)] == ["compact/1"]


def test_the_start_that_follows_a_compaction_is_no_start_of_the_program():
    assert one({"hook_event_name": "SessionStart", "source": "compact"}) == []


@pytest.mark.parametrize("value", [None, 7, [], {}, "x"])
def test_values_of_wrong_types_do_not_raise(value):
    names = "tool_name tool_input tool_response tool_use_id turn_id prompt agent_id source".split()
    for (
        kind
    ) in "SessionStart UserPromptSubmit PreToolUse PostToolUse Stop SubagentStart Odd".split():
        one({"hook_event_name": kind, **dict.fromkeys(names, value)})
    assert codex.conversation({"session_id": value}) is None or value == "x"
