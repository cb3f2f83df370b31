"""Tests with the real agents that what hooks tell them arrives, and that its arrival is recorded.

Run on demand (`make real`).
"""

from __future__ import annotations

import json

import pytest

from real.model import Say, Script, Tool
from real.programs import Program
from real.switching import switch_on
from stator.model.extraction.handovers import HEADINGS
from stator.touched_files import Toucher, own_process

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
SHOWING = ["claude-code", "codex", "gemini"]
ANSWER = "\n".join(f"## {heading}\n- roses" for heading in HEADINGS)


def delivered(agent: Program) -> set[str]:
    """The kinds of texts that arrived, in all sessions."""
    rows = [json.loads(line) for line in agent.stator("ls", "--all", "--json").splitlines()]
    states = [json.loads(agent.stator("state", "--session", row["id"], "--json")) for row in rows]
    found = [one for state in states for one in state.get("deliveries", {}).values()]
    assert all(one["whole"] for one in found), found
    return {one["kind"] for one in found}


def not_received(agent: Program) -> list[str]:
    agent.stator("ingest", "--transcripts")
    report = json.loads(agent.stator("doctor", "--json"))
    return [one["what"] for one in report["findings"] if one["check"] == "not received"]


@pytest.mark.parametrize("name", SHOWING)
def test_what_a_session_is_told_at_its_start_arrives(begin, name):
    agent, _ = begin(name)
    switch_on(agent)
    agent.ask("write hello")
    assert not_received(agent) == []
    assert "start" in delivered(agent)


@pytest.mark.parametrize("name", ["claude-code", "gemini", "opencode"])
def test_an_agent_is_told_that_another_changed_its_file(begin, name):
    agent, script = begin(name)
    switch_on(agent)
    path = agent.work / "hello.txt"
    path.write_text("mine\n")
    # Claude Code itself refuses to write a file that changed since it was read, but for what a command writes
    calls = {
        "claude-code": [
            Tool("Read", {"file_path": str(path)}),
            Tool("Bash", {"command": "echo hello > hello.txt", "description": "x"}),
        ],
        "gemini": [
            Tool("read_file", {"file_path": str(path)}),
            agent.tools().write("hello.txt", "x"),
        ],
        "opencode": [Tool("read", {"filePath": str(path)}), agent.tools().write("hello.txt", "x")],
    }
    other = Toucher(
        str(agent.work / ".stator" / "store.db-spool"), "codex:x", "codex", own_process()
    )
    answers: list[str] = []

    def change(chapter: str) -> None:
        answers.append(chapter)
        if len(answers) == 2:  # the file is read, and the answer that writes it comes next
            path.write_text("theirs\n")
            other.seen(str(path), tool="Edit", wrote=True)

    script.chapters = {"one": [*calls[name], Say("done")]}
    script.watch = change
    agent.ask("[[one]] write hello")
    told = [one for one in script.requests if "Another agent changed" in json.dumps(one)]
    assert told, path.read_text()
    assert not_received(agent) == []
    assert "file" in delivered(agent)


@pytest.mark.parametrize("name", SHOWING)
def test_an_agent_that_is_asked_for_a_handover_leaves_one(begin, name):
    script = Script(chapters={"one": [Say(ANSWER)]})
    agent, _ = begin(name, script)
    agent.extra["STATOR_HANDOVER"] = "on"
    switch_on(agent)
    agent.ask("[[one]] go")
    assert not_received(agent) == []
    assert "handover" in delivered(agent)
    assert ANSWER in agent.stator("artifact", "handover")
