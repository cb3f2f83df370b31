"""Tests that a proxy in the session of an agent with a transcript is a witness, whose calls wait for their place."""

from __future__ import annotations

import pytest

import stator
from importers.hook_lines import DEAD, HookedStore, before_tool, hook_input, prompt, session
from importers.toy_format import ToyFormat, ToyTranscript
from stator.connect import advance, take_spools
from stator.hooks import transcript_file
from stator.importers import registry
from stator.model.exchange.items import Called, Flagged, Returned
from stator.surfaces.proxy.session import choose
from stator.surfaces.proxy.witness import WitnessRecorder

TOOL = "mcp__files__write"


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
    made.add("Prompted", id="turn/g1", content="do it")
    hooked.write(*made.lines(hook_input("sessionStart"), prompt()))
    hooked.kinds()
    return made


@pytest.fixture
def store(hooked, transcript):
    with stator.connect(hooked.path) as opened:
        yield opened


def proxy(store) -> WitnessRecorder:
    recorder = choose(store, session(store).id, "files", "r1").open_recorder("client")
    assert isinstance(recorder, WitnessRecorder)
    return recorder


def see(recorder, *items):
    for item in items:
        recorder.take(item)
    recorder.flush()


def test_a_call_that_a_proxy_sees_is_unplaced(store):
    see(proxy(store), Called(id="t1", tool=TOOL, input={"path": "a"}))
    view = session(store)
    assert [c.kind for c in view.log()] == ["open", "run", "turn"]
    assert [draft.kind for draft in store.context.unplaced(store.port, view.row)] == ["call"]


def test_the_transcript_places_a_call_that_has_the_agents_id(store, transcript):
    see(
        proxy(store), Called(id="t1", tool=TOOL, input={"path": "a"}), Returned(id="t1", output="x")
    )
    transcript.add("Called", id="t1", tool=TOOL, input={"path": "a"})
    transcript.add("Returned", id="t1", output="x")
    take_spools(store.port)
    advance(store.port, session(store).id)
    assert [c.kind for c in session(store).log()][-3:] == ["call", "outcome", "use"]
    assert store.context.unplaced(store.port, session(store).row) == []


def test_a_proxy_takes_the_id_that_a_hook_has_reported(hooked, store, transcript):
    hooked.write(*transcript.lines(before_tool("t1", tool=TOOL, path="a")))
    take_spools(store.port)
    (seen,) = proxy(store).open_calls()
    assert (seen.foreign, seen.tool, seen.input) == ("t1", TOOL, {"path": "a"})


def test_a_call_under_the_proxys_own_id_is_not_recorded_beside_the_transcripts(
    hooked, store, transcript
):
    see(
        proxy(store),
        Called(id="proxy/r1/1", tool=TOOL, input={"path": "a"}),
        Returned(id="proxy/r1/1", output="x"),
    )
    transcript.add("Called", id="t1", tool=TOOL, input={"path": "a"})
    transcript.add("Returned", id="t1", output="x")
    hooked.write(*transcript.lines(hook_input("sessionEnd")), process=DEAD)
    take_spools(store.port)
    assert [c.kind for c in session(store).log()].count("call") == 1


def test_a_call_that_only_the_proxy_saw_lands_when_the_agent_is_dead(hooked, store, transcript):
    see(proxy(store), Called(id="proxy/r1/1", tool=TOOL, input={"path": "b"}))
    hooked.write(*transcript.lines(hook_input("sessionEnd")), process=DEAD)
    take_spools(store.port)
    (call,) = [c for c in session(store).log() if c.kind == "call"]
    assert call.cause == "not in the transcript"


def test_what_only_a_proxy_knows_is_recorded_at_once(store):
    see(proxy(store), Flagged(id="f1", name="changed", on=TOOL, why="its definition is another"))
    assert [c.kind for c in session(store).log()][-1] == "flag"


def test_secrets_in_a_call_do_not_reach_the_disk(hooked, store):
    secret = "ghp_" + "a1B2" * 9
    see(proxy(store), Called(id="t1", tool=TOOL, input={"token": secret}))
    assert all(secret.encode() not in line for line in hooked.lines())
