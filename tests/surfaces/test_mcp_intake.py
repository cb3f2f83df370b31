"""Tests that what an agent records over MCP belongs to the turn and the call in which it does."""

from __future__ import annotations

import msgspec
import pytest

import stator
from importers.hook_lines import HookedStore, hook_input, prompt, session
from importers.toy_format import ToyFormat, ToyTranscript
from stator.errors import WrongState
from stator.hooks import transcript_file
from stator.importers import registry
from stator.model.exchange.items import commit_id
from stator.surfaces.mcp.intake import advance_active, reach_prompt
from stator.surfaces.mcp.request_context import RequestContext
from stator.surfaces.mcp.scope import Scope
from stator.surfaces.mcp.tools.record import record

DECISION = {"kind": "decision", "what": "use sqlite", "topic": "store"}


@pytest.fixture(autouse=True)
def formats(monkeypatch):
    monkeypatch.setattr(transcript_file, "_format_of", lambda agent: ToyFormat())
    monkeypatch.setattr(registry, "load", lambda name: ToyFormat())


@pytest.fixture
def hooked(tmp_path):
    return HookedStore(tmp_path)


@pytest.fixture
def transcript(tmp_path, hooked):
    made = ToyTranscript(tmp_path / "talk.jsonl")
    made.turn(1)
    hooked.write(*made.lines(hook_input("sessionStart"), prompt(1)))
    hooked.kinds()
    return made


@pytest.fixture
def store(hooked, transcript, monkeypatch):
    monkeypatch.chdir(hooked.root)
    with stator.connect(hooked.path) as opened:
        yield opened


def request(store, use=""):
    return RequestContext(Scope(store, None), "agent", use)


def recorded(store, use=""):
    record(request(store, use), {"session": session(store).id, "items": [DECISION]})
    return [c for c in session(store).log() if c.kind == "decision"][-1]


def test_a_contribution_belongs_to_the_turn_that_the_transcript_has_begun(store, transcript):
    transcript.turn(2)
    assert recorded(store).turn == 2


def test_a_contribution_derives_from_the_call_that_the_client_names(store, transcript):
    transcript.turn(2)
    decision = recorded(store, use="t2")
    (call,) = [c for c in session(store).log() if c.kind == "call" and c.turn == 2]
    assert decision.inputs == [call.seq]


def test_a_call_that_is_not_in_the_log_yet_is_named_by_its_id(store, transcript):
    transcript.add("Prompted", id="turn/g2", content="more")
    decision = recorded(store, use="t9")
    assert decision.inputs == [commit_id(session(store).id, "call", ("cursor", "t9"), 1)]


def test_a_contribution_without_a_call_derives_from_its_turn(store, transcript):
    transcript.turn(2)
    (turn,) = [c for c in session(store).log() if c.kind == "turn" and c.turn == 1]
    decision = recorded(store)
    assert decision.inputs[0] > turn.seq


def test_a_request_begins_no_turn_in_a_session_that_its_transcript_orders(store, transcript):
    transcript.turn(2)
    given = {"session": session(store).id, "request": "something else", "items": [DECISION]}
    answer = record(request(store), given)
    assert answer.data["turn"] == 2
    assert "its transcript" in answer.note
    assert [c.turn for c in session(store).log() if c.kind == "decision"] == [2]
    assert len([c for c in session(store).log() if c.kind == "turn"]) == 2


def test_a_call_is_refused_where_the_transcript_has_it(store, transcript):
    call = {"kind": "call", "tool": "bash", "status": "ok"}
    head = session(store).head
    with pytest.raises(WrongState, match="recorded by its transcript"):
        record(request(store), {"session": session(store).id, "items": [DECISION, call]})
    assert session(store).head == head


def test_a_prompt_that_only_a_hook_has_seen_is_awaited(hooked, store, transcript):
    hooked.write(*transcript.lines(prompt(2)))
    looks = []

    def sleep(seconds):
        looks.append(seconds)
        if len(looks) == 2:
            transcript.add("Prompted", id="turn/g2", content="do it")

    store.context = msgspec.structs.replace(store.context, sleep=sleep)
    reach_prompt(store, session(store).row)
    assert len(looks) == 2
    assert session(store).head.turn == 2


def test_what_active_agents_wrote_is_taken_in_when_a_transcript_has_grown(store, transcript):
    seen: dict[str, tuple[int, int]] = {}
    advance_active(store, seen)
    transcript.turn(2)
    advance_active(store, seen)
    assert session(store).head.turn == 2
