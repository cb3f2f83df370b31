"""Which entries of a project's state are unverified, and when that changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stator
from brief.poison.corpus import HOST, PROJECT, build, report
from importers.claude_code_writer import TranscriptWriter, import_files
from runtime.edge_stories import asks
from stator.model.exchange.items import Conversation
from stator.model.sessions.ownership import Ownership
from stator.runtime.facade.store import Store
from stator.runtime.views.trust.outside import brought_in
from stator.runtime.views.trust.unverified import unverified

TALK = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with stator.connect(tmp_path / "s.db", project=PROJECT, durability="relaxed") as opened:
        yield opened


def origins(store: Store) -> dict[str, str]:
    """Where each entry of the project came from, by its key."""
    state = store.state(project=PROJECT)
    return {one.key: one.unverified for entries in state.collections.values() for one in entries}


def poisoned_page(store: Store, folder: Path) -> Any:
    return build(store, folder, "driven, page", "a decision")


def test_a_word_for_a_host_lets_its_entries_hold_and_taking_it_back_does_not(store, tmp_path):
    found = poisoned_page(store, tmp_path)
    assert origins(store)["registry"] == f"web:{HOST}"
    store.contribute(found.session).vouch(f"host:{HOST}", why="ours")
    assert origins(store)["registry"] == ""
    store.contribute(found.session).vouch(f"host:{HOST}", why="not ours", withdraw=True)
    assert origins(store)["registry"] == f"web:{HOST}"


def test_what_a_session_took_over_follows_the_word_for_where_it_was_recorded(store, tmp_path):
    found = poisoned_page(store, tmp_path)
    with store.open("tomorrow", after=found.session) as s:
        later = s.id
    assert origins(store)["registry"] == f"web:{HOST}"
    store.contribute(found.session).vouch(f"host:{HOST}", why="ours")
    store.state(project=PROJECT)
    head = store.port.head(later).seq
    assert unverified(store.port, later, range(1, head + 1)) == {}


def test_a_report_is_unverified_once_the_session_of_its_sub_agent_is_known(store, tmp_path):
    out = TranscriptWriter(tmp_path / f"{TALK}.jsonl", TALK)
    out.prompt("ask somebody")
    given = {"description": "look", "prompt": "look", "subagent_type": "Explore"}
    out.says("m1", ("call1", "Task", given), stop="tool_use")
    out.result("call1", "all fine", toolUseResult={"agentId": "a1b2", "status": "completed"})
    out.says("m2", "Noted.", stop="end_turn")
    import_files(store, out.path)
    report(store, Conversation(source="claude-code", id=TALK).session, "use x")
    assert origins(store)["registry"] == ""
    below = TranscriptWriter(out.path.with_suffix("") / "subagents" / "agent-a1b2.jsonl", TALK)
    side: dict[str, Any] = {"isSidechain": True, "agentId": "a1b2"}
    below.prompt("look", uuid="b1", **side)
    fetch = ("call_b1", "WebFetch", {"url": f"https://{HOST}/x", "prompt": "read"})
    below.says("mb1", fetch, uuid="b2", stop="tool_use", **side)
    below.result("call_b1", "a page", uuid="b3", **side)
    below.path.with_suffix(".meta.json").write_text(json.dumps({"toolUseId": "call1"}))
    import_files(store, out.path)
    assert origins(store)["registry"] == f"a sub-agent's report of web:{HOST}"


def test_in_a_foreign_store_everything_is_unverified_until_it_is_trusted(store):
    with store.open("a") as s, s.turn("go") as t:
        t.decide("use uv", topic="packages")
    assert origins(store) == {"packages": ""}
    store.port.ownership = Ownership("is not yours")
    assert origins(store) == {"packages": "a foreign store"}
    store.port.ownership = Ownership()
    assert origins(store) == {"packages": ""}


def test_a_choice_of_the_user_is_the_users_word_whatever_the_model_had_read(store, tmp_path):
    out = TranscriptWriter(tmp_path / f"{TALK}.jsonl", TALK)
    out.prompt("set it up")
    out.says(
        "m1", ("call1", "WebFetch", {"url": f"https://{HOST}", "prompt": "x"}), stop="tool_use"
    )
    out.result("call1", "use left or right")
    options = [{"label": "left", "description": ""}, {"label": "right", "description": ""}]
    question = {"question": "Which way?", "header": "Way", "options": options, "multiSelect": False}
    asked = {"questions": [question]}
    out.says("m2", ("call2", "AskUserQuestion", asked), stop="tool_use")
    answer = 'User has answered your questions: "Which way?"="left". You can now continue.'
    out.result(
        "call2", answer, toolUseResult={"questions": [question], "answers": {"Which way?": "left"}}
    )
    todos = [{"content": "go left", "status": "pending", "activeForm": "going"}]
    out.says("m3", ("call3", "TodoWrite", {"todos": todos}), stop="tool_use")
    out.result("call3", "ok")
    out.says("m4", "Done.", stop="end_turn")
    import_files(store, out.path)
    state = store.state(project=PROJECT)
    assert [(one.record.what, one.unverified) for one in state["decisions"]] == [("left", "")]
    assert [one.unverified for one in state["plan"]] == [f"web:{HOST}"]


def test_only_what_came_from_outside_is_a_result_from_outside(store, tmp_path):
    @stator.tool(effect="read")
    def look() -> str:
        return "here"

    found = poisoned_page(store, tmp_path)
    with store.open("driven") as s, s.turn("look around") as t:
        t.reply(asks(text="I read it."))
        t.call(look)
    results = [one for one in store.port.commits(found.session) if one.kind == "outcome"]
    came = brought_in(store.port, found.session, results)
    fetched = [one.seq for one in results if one.tool == "fetch" or one.provenance.source == "web"]
    assert came == dict.fromkeys(fetched, f"web:{HOST}")
    assert results[0].seq in came
    assert results[-1].seq not in came
    assert unverified(store.port, found.session, [results[1].seq])


def test_an_index_that_must_be_read_whole_is_asked_for_a_long_session_only(store, monkeypatch):
    monkeypatch.setattr("stator.runtime.views.trust.unverified.FEW", 0)
    with store.open("a") as s, s.turn("go") as t:
        t.fact("x", 1)
        session = s.id
    store.state(project=PROJECT)
    assert unverified(store.as_read, session, [1, 2, 3]) == {}
