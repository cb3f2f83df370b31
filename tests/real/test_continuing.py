"""Continues a task over three sessions: Claude Code, then Codex, both killed in the middle of a call, then a script.

Run on demand (`make real`). $STATOR_SHOWN names a folder for what the models were given, as the guide quotes it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from real.model import Line, Say, Script, Seen, Tool
from real.programs import Program
from real.switching import switch_on
from stator.model.brief.envelope import TAG, notes_in
from waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
HANDLE = "the handle"
YESTERDAY = "continue organising my files like yesterday"
LAYOUT = "one folder a client"
NAMING = "the date first, then the client"
SYNCING = "moving files while the sync client runs"
SCRIPT = f"""
import stator
store = stator.connect()
with store.open("wednesday", agent="script", after="last") as s:
    with s.turn({YESTERDAY!r}) as t:
        for message in t.messages("plain", brief=True):
            print(message["content"])
"""
RECORDED = [
    {"kind": "decision", "what": LAYOUT, "topic": "layout", "over": ["one folder a year"], "why": "by client is asked"},
    {"kind": "preference", "name": "naming", "value": NAMING, "why": "the user asked for it"},
    {"kind": "dead_end", "what": SYNCING, "why": "two copies of each"},
    {"kind": "plan", "step": "contracts", "status": "pending"},
    {"kind": "plan", "step": "photos of 2024", "status": "pending"},
    {"kind": "file", "path": "inbox/scan1.pdf", "op": "skipped", "why": "no client named in it"},
]  # fmt: skip


def notes(request: dict[str, Any]) -> list[str]:
    """The texts of Stator in a model's request, each once, in order."""
    found: dict[str, None] = {}
    for text in _texts(request):
        for note in notes_in(text):
            found[text[note.start : note.end]] = None
    return list(found)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if TAG in value else []
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in parts for text in _texts(part)]


class Attentive(Script):
    """A model that passes the handle which it was given at the start."""

    def next(self, seen: list[Seen], has_tools: bool) -> Line:
        line = super().next(seen, has_tools)
        if not isinstance(line, Tool) or line.input.get("session") != HANDLE:
            return line
        (handle, *_) = re.findall(r"\bs_[0-9a-f]{32}\b", "\n".join(notes(self.requests[-1])))
        return Tool(line.name, {**line.input, "session": handle})


def killed_in(agent: Program, prompt: str, mark: Path, *more: str) -> None:
    process = agent.start(prompt, *more)
    eventually(mark.exists)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def kept(name: str, text: str) -> None:
    """Keep what a model was given, for the guide."""
    if folder := os.environ.get("STATOR_SHOWN"):
        (Path(folder) / name).write_text(text + "\n", encoding="utf-8")


def test_a_task_is_continued_by_another_agent_and_by_a_script_and_nobody_explains_it_again(
    begin, tmp_path
):
    work = tmp_path / "work"
    (work / "inbox").mkdir(parents=True)
    for name in ("scan1.pdf", "acme-contract.pdf", "IMG_2024-05-01.jpg"):
        (work / "inbox" / name).write_text(name)

    claude, first = begin("claude-code", Attentive())
    switch_on(claude)
    move = "mkdir -p acme && mv inbox/acme-contract.pdf acme/2024-03-01-acme-contract.pdf && touch moved && sleep 600"
    first.lines = [
        Tool("mcp__stator__stator_record", {"session": HANDLE, "items": RECORDED}),
        Tool("Bash", {"command": move, "description": "move"}),
        Say("?"),
    ]
    killed_in(
        claude, "Sort the files in inbox/ into folders", work / "moved",
        "--allowedTools", "Bash,mcp__stator__stator_record", "--mcp-config", ".mcp.json",
    )  # fmt: skip

    codex, second = begin(
        "codex", Script([Tool("exec_command", {"cmd": "touch again && sleep 600"}), Say("?")])
    )
    switch_on(codex)
    killed_in(codex, YESTERDAY, work / "again")
    told = "\n".join(notes(second.requests[0]))
    for request in second.requests:
        ids = [note.id for text in _texts(request) for note in notes_in(text)]
        assert len(ids) == len(set(ids)) == 2
    kept("codex.txt", told)
    for known in (LAYOUT, NAMING, SYNCING, "photos of 2024", "scan1.pdf", "in doubt"):
        assert known in told, told

    shown = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=work, env=codex.environment,
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    kept("script.txt", shown)
    found = codex.stator("search", "Recorded by Stator", "--json")
    assert TAG not in found
    for known in (LAYOUT, NAMING, SYNCING, "photos of 2024", "scan1.pdf"):
        assert known in shown, shown
