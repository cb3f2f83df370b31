"""Tests Stator with the real Claude Code, Codex, Gemini CLI and opencode and a scripted model.

Run on demand (`make real`): the programs come from npm, or from the folder $STATOR_AGENTS names.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from real.model import Say, Script, Tool
from real.programs import PROGRAMS, Program
from real.switching import switch_on
from waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
HOOKED = ["claude-code", "codex", "gemini", "opencode"]


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def session(agent: Program) -> dict[str, Any]:
    (only,) = rows(agent.stator("ls", "--json"))
    return only


def statuses(agent: Program) -> list[str]:
    return sorted(row["status"] for row in rows(agent.stator("calls", "--json")))


@pytest.mark.parametrize("name", HOOKED)
def test_the_work_of_an_agent_is_recorded_as_one_session(begin, name):
    agent, _ = begin(name)
    switch_on(agent)
    agent.ask("write hello")
    assert session(agent)["turns"] == 1
    assert statuses(agent) == ["error", "ok"]
    assert "hello.txt" in agent.stator("files", "--json")


@pytest.mark.parametrize("name", HOOKED)
def test_importing_a_recorded_session_adds_no_call_and_no_turn(begin, name):
    agent, _ = begin(name)
    switch_on(agent)
    agent.ask("write hello")
    before = session(agent)["turns"], statuses(agent)
    agent.stator("import", name)
    assert (session(agent)["turns"], statuses(agent)) == before


@pytest.mark.parametrize("name", PROGRAMS)
def test_earlier_sessions_of_an_agent_are_imported(begin, name):
    agent, _ = begin(name)
    agent.ask("write hello")
    agent.stator("import", name)
    assert session(agent)["turns"] == 1
    assert statuses(agent) in (
        ["error", "ok"],
        ["ok", "ok"],
    )  # opencode says ok of a command that failed
    assert "hello.txt" in agent.stator("files", "--json")


@pytest.mark.parametrize("name", HOOKED)
def test_the_next_session_gets_a_brief_of_the_last_one(begin, name):
    agent, script = begin(name)
    switch_on(agent)
    agent.ask("write hello")
    first = session(agent)["id"]
    agent.ask("and now?")
    shown = json.dumps(script.requests[-1])
    assert "hello.txt" in shown
    assert first[-8:] in shown or "write hello" in shown


@pytest.mark.parametrize("name", ["claude-code"])
def test_a_call_the_agent_died_in_is_in_doubt(begin, name, tmp_path):
    started = tmp_path / "work" / "started"
    script = Script(
        [Tool("Bash", {"command": "touch started; sleep 600", "description": "x"}), Say("?")]
    )
    agent, _ = begin(name, script)
    switch_on(agent)
    process = agent.start("wait")
    eventually(started.exists)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    script.lines = [Say("done")]
    agent.ask("what happened?")
    calls = rows(agent.stator("calls", "--everywhere", "--json"))
    assert [call["status"] for call in calls if call["tool"] == "Bash"] == ["in doubt"]


def test_claude_code_reads_and_writes_its_state_over_mcp(begin):
    agent, script = begin("claude-code")
    switch_on(agent)
    agent.ask("write hello")
    handle = session(agent)["id"]
    fact = {"kind": "fact", "name": "test command", "value": "pytest -q", "why": "the readme"}
    record = {"session": handle, "items": [fact]}
    script.lines = [Tool("mcp__stator__stator_record", record), Say("noted")]
    agent.ask(
        "note it", "--allowedTools", "mcp__stator__stator_record", "--mcp-config", ".mcp.json"
    )
    assert "pytest -q" in agent.stator("state", "--session", handle, "--json")


def test_claude_code_continues_from_a_transcript_we_wrote(begin):
    agent, script = begin("claude-code")
    switch_on(agent)
    agent.ask("write hello")
    handle = session(agent)["id"]
    report = agent.stator("export", "--as", "claude-code", handle, "--json")
    written = json.loads(report)
    script.lines = [Say("it goes on")]
    said = agent.ask("go on", "--resume", written["session"])
    assert "it goes on" in said
    assert "write hello" in json.dumps(script.requests[-1])


def test_the_plugin_records_a_session(begin):
    agent, _ = begin("claude-code")
    folder = agent.stator("init", "--plugin").strip()
    agent.ask("write hello", "--plugin-dir", folder)
    assert statuses(agent) == ["error", "ok"]
