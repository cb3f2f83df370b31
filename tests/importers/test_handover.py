"""Tests that an agent is asked for a handover where its user wants it, and that its answer is kept as a document."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stator
from importers.import_helpers import conversations_in, import_file
from importers.recorded_law import logs
from importers.test_delivered import CLAUDE, ClaudeLines
from stator.model.brief.envelope import notes_in, wrapped
from stator.model.brief.handover import IN_SUMMARY, REQUEST
from stator.model.extraction.handovers import HEADINGS, handover_in
from stator.surfaces.handover_request import EVERY

ANSWER = "\n".join(f"## {heading}\n- {heading.lower()} of the garden" for heading in HEADINGS)
STOP = {"claude-code": "Stop", "codex": "Stop", "gemini": "AfterAgent"}


def stop(hooked, agent="claude-code", environ="on", **more):
    """Run the hook of an agent that stops; return the kind of text that it gave."""
    event = {"hook_event_name": STOP.get(agent, "Stop"), "session_id": "s1", **more}
    done = hooked.hook(event, agent=agent, STATOR_HANDOVER=environ)
    assert (done.returncode, done.stderr) == (0, b"")
    if not done.stdout:
        return ""
    said = json.loads(done.stdout)
    text = said.get("reason") or said["hookSpecificOutput"]["additionalContext"]
    (note,) = notes_in(text)
    assert note.text == REQUEST
    return note.kind


@pytest.mark.parametrize("agent", STOP)
def test_an_agent_that_stops_is_asked_once(hooked, agent):
    assert [stop(hooked, agent), stop(hooked, agent)] == ["handover", ""]


@pytest.mark.parametrize("agent", ["cursor", "opencode"])
def test_an_agent_that_cannot_be_asked_is_not(hooked, agent):
    assert stop(hooked, agent) == ""


def test_nobody_is_asked_who_did_not_turn_it_on(hooked):
    assert stop(hooked, environ="") == ""


def test_an_agent_that_continues_because_it_was_asked_is_not_asked_again(hooked):
    assert stop(hooked, stop_hook_active=True) == ""


def test_a_sub_agent_is_not_asked(hooked):
    assert stop(hooked, agent_id="a1") == ""


def test_an_agent_is_asked_again_after_a_compaction(hooked):
    stop(hooked)
    compacting = {"hook_event_name": "PreCompact", "session_id": "s1"}
    hooked.hook(compacting, agent="claude-code", STATOR_HANDOVER="on")
    assert stop(hooked) == "handover"


def test_an_agent_is_asked_again_after_many_turns(hooked):
    asked = [stop(hooked) for _ in range(EVERY + 1)]
    assert asked == ["handover", *[""] * (EVERY - 1), "handover"]


# -- the answer ------------------------------------------------------------------------------------


def transcript(folder, *answers):
    """A session whose agent was asked for a handover, and then said something."""
    file = ClaudeLines()
    file.add("user", message={"role": "user", "content": "go"}, promptId="p1")
    file.says(1, {"type": "text", "text": "done"})
    for number, answer in enumerate(answers):
        asked = wrapped("handover", REQUEST)
        shown = f"<system-reminder>\nStop hook additional context: {asked}\n</system-reminder>"
        file.add(
            "attachment", rendered=[{"content": shown}],
            attachment={"type": "hook_additional_context", "content": [asked], "hookName": "Stop"},
        )  # fmt: skip
        file.says(number + 2, {"type": "text", "text": answer})
        file.add("user", message={"role": "user", "content": "on"}, promptId=f"p{number + 2}")
    return file.write(folder / f"{CLAUDE}.jsonl")


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "store.db") as opened:
        yield opened


def read(store, path):
    import_file(store, path, "claude-code", at_rest=True)
    (talk,) = conversations_in(path, "claude-code")
    return store.read(talk.conversation.session)


def test_the_answer_is_a_document_in_the_models_words(store, tmp_path):
    seen = read(store, transcript(tmp_path, f"Here it is.\n\n{ANSWER}"))
    assert seen.read_artifact("handover") == ANSWER
    (made,) = [commit for commit in seen.log() if commit.kind == "artifact"]
    assert (made.provenance.source, made.provenance.trust) == ("model", "unverified")
    (answer,) = [
        c for c in seen.log() if c.kind == "entry" and "Here it is" in str(c.value("output"))
    ]
    assert answer.id in made.inputs or answer.seq in made.inputs


def test_each_handover_is_a_new_version(store, tmp_path):
    seen = read(store, transcript(tmp_path, ANSWER, ANSWER.replace("garden", "orchard")))
    (document,) = seen.artifacts()
    assert (document.name, document.version) == ("handover", 2)
    assert "orchard" in seen.read_artifact("handover")


@pytest.mark.parametrize("answer", ["no", ANSWER.replace("## State", "## Status"), "## Goal\nx"])
def test_an_answer_without_the_six_headings_is_no_handover(store, tmp_path, answer):
    seen = read(store, transcript(tmp_path, answer))
    assert [entry.key for entry in seen.entries("artifacts")] == []


def test_six_headings_that_nobody_asked_for_are_no_handover(store, tmp_path):
    file = ClaudeLines()
    file.add("user", message={"role": "user", "content": "go"}, promptId="p1")
    file.says(1, {"type": "text", "text": ANSWER})
    file.add("user", message={"role": "user", "content": "on"}, promptId="p2")
    seen = read(store, file.write(tmp_path / f"{CLAUDE}.jsonl"))
    assert [entry.key for entry in seen.entries("artifacts")] == []


def test_the_handover_of_a_growing_transcript_is_that_of_the_whole_one(store, tmp_path):
    path = transcript(tmp_path, ANSWER, "no", ANSWER)
    read(store, path)
    whole = logs(store)
    lines = path.read_text().splitlines(keepends=True)
    with stator.connect(tmp_path / "grown.db") as grown:
        for number in range(1, len(lines) + 1):
            path.write_text("".join(lines[:number]))
            import_file(grown, path, "claude-code", at_rest=False)
        read(grown, path)
        assert logs(grown) == whole


def compacted(folder, summary):
    """A session that was compacted."""
    file = ClaudeLines()
    file.add("user", message={"role": "user", "content": "go"}, promptId="p1")
    file.says(1, {"type": "text", "text": "done"})
    file.add(
        "system", subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 9}
    )
    file.add("user", message={"role": "user", "content": summary}, isCompactSummary=True)
    file.add("user", message={"role": "user", "content": "on"}, promptId="p2")
    return file.write(folder / f"{CLAUDE}.jsonl")


def test_a_summary_with_the_six_headings_is_a_handover(store, tmp_path):
    seen = read(store, compacted(tmp_path, f"The summary.\n{ANSWER}"))
    assert seen.read_artifact("handover") == ANSWER
    assert [commit.kind for commit in seen.log()][-3:] == ["compaction", "artifact", "turn"]


def test_a_summary_is_no_handover_without_them(store, tmp_path):
    assert read(store, compacted(tmp_path, "The summary.")).artifacts() == []


def test_claude_code_is_asked_to_put_it_into_a_summary(hooked):
    event = {"hook_event_name": "PreCompact", "session_id": "s1"}
    done = hooked.hook(event, agent="claude-code", STATOR_HANDOVER="on")
    (note,) = notes_in(done.stdout.decode())
    assert (note.kind, note.text) == ("handover", IN_SUMMARY)
    assert hooked.hook(event, agent="claude-code").stdout == b""
    assert hooked.hook(event, agent="codex", STATOR_HANDOVER="on").stdout == b""


@given(st.lists(st.sampled_from([*HEADINGS, "Other", "text"]), max_size=12))
def test_the_six_headings_are_found_in_their_order_only(names):
    text = "\n".join(f"**{name}:**\n- x" for name in names)
    wanted = list(HEADINGS)
    for name in names:
        if wanted and name == wanted[0]:
            wanted.pop(0)
    assert bool(handover_in(text)) == (not wanted)


@given(st.text())
def test_any_text_is_looked_at(text):
    assert handover_in(text) in (text.strip(), "") or handover_in(text) in text
