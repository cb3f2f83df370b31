"""Tests that what hooks gave is compared with what arrived: ran, not received."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stator
from importers.test_delivered import CLAUDE, FILES, GIVEN, ClaudeLines
from stator.connect import take_spools
from stator.hooks.hook_note import hook_note
from stator.model.brief.envelope import wrapped
from stator.model.brief.received import GIVEN_MAX, GivenNote, not_received, with_given
from stator.model.exchange.items import Conversation
from stator.model.exchange.own_notes import KINDS, note_id
from stator.surfaces.cli.parts.undelivered import undelivered_findings
from stator.surfaces.hook import append_line
from stator.surfaces.hook_reply import given as given_in_reply

NOTES = st.builds(
    GivenNote, st.sampled_from(KINDS), st.sampled_from(["a", "b", "c"]), st.integers(0, 9)
)
AGENTS = st.sampled_from(["claude-code", "codex", "gemini", "opencode", "cursor", "another"])


@given(AGENTS, st.lists(NOTES), st.sets(st.sampled_from(["a", "b", "c"])), st.integers(0, 9))
def test_what_arrived_or_could_not_be_seen_is_never_missed(agent, notes, received, answered):
    missed = not_received(agent, notes, received, answered)
    assert not received & {note.id for note in missed}
    assert all(note.at < answered for note in missed)
    assert agent not in ("cursor", "another") or not missed
    assert agent != "opencode" or all(note.kind == "file" for note in missed)


@given(st.lists(NOTES, max_size=90))
def test_only_the_newest_texts_are_remembered(notes):
    known: list[GivenNote] = []
    for note in notes:
        known = with_given(known, [note])
    assert known == notes[-GIVEN_MAX:]


def gave(spool, agent, name, path, *texts):
    """Write the line of a hook that gave texts."""
    context = "\n".join(wrapped(kind, text) for kind, text in texts)
    reply = json.dumps({"hookSpecificOutput": {"additionalContext": context}}).encode()
    said = {"session_id": name, "cwd": "/w", "transcript_path": str(path)}
    append_line(str(spool), agent, "/w", given_in_reply(reply, said), durable=False)


@pytest.fixture
def project(hooked, monkeypatch):
    """A folder with a store. Its hooks ran before anything in the transcripts of these tests."""
    monkeypatch.setattr("stator.surfaces.hook.time.time_ns", lambda: 1_700_000_000 * 10**9)
    return hooked.root


def findings(hooked):
    with stator.connect(hooked.path) as store:
        take_spools(store.port)
        return [found.what for found in undelivered_findings(store)]


def test_a_text_that_a_hook_gave_and_no_transcript_shows_is_reported(project, hooked):
    path = FILES["claude-code"](project)
    lost = ("start", "this one was dropped")
    gave(hooked.spool, "claude-code", CLAUDE, path, lost)
    (found,) = findings(hooked)
    assert found.startswith("ran, not received: the hook gave session ")
    assert "of claude-code 1 text (start)" in found


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_texts_that_arrived_are_not_reported(project, hooked, agent):
    path = FILES[agent](project)
    name = path.stem[-36:]
    gave(hooked.spool, agent, name, path, *GIVEN)
    assert findings(hooked) == []
    with stator.connect(hooked.path) as store:
        session = Conversation(source=agent, id=name).session
        known = hook_note(store.port, session).given
    assert [note.id for note in known] == [note_id(text) for _, text in GIVEN]


def test_nothing_is_reported_before_the_model_has_answered(project, hooked):
    file = ClaudeLines()
    file.add("user", message={"role": "user", "content": "go"}, promptId="p1")
    path = file.write(project / f"{CLAUDE}.jsonl")
    gave(hooked.spool, "claude-code", CLAUDE, path, ("start", "it may still come"))
    assert findings(hooked) == []


def test_a_sub_agent_is_not_judged_by_the_transcript_of_another():
    reply = json.dumps({"reason": wrapped("file", "x")}).encode()
    assert given_in_reply(reply, {"session_id": "s", "agent_id": "a"}) == {}


def test_a_line_that_says_what_was_given_does_not_hide_the_agents_process(project, hooked):
    path = FILES["claude-code"](project)
    said = {"session_id": CLAUDE, "transcript_path": str(path)}
    hooked.write({"hook_event_name": "SessionStart", **said}, agent="claude-code")
    gave(hooked.spool, "claude-code", CLAUDE, path, ("start", "x"))
    findings(hooked)
    with stator.connect(hooked.path) as store:
        session = Conversation(source="claude-code", id=CLAUDE).session
        assert hook_note(store.port, session).process != (0, 0, 0)
