"""Two settings files that both start our hook: each event is reported twice and recorded once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stator
from importers.hook_lines import HookedStore
from stator.model.log.query import SessionQuery

DATA = Path(__file__).parent / "data"
FILES = {
    "claude-code": DATA / "claude-code" / "hooks.stdin.jsonl",
    "codex": DATA / "codex" / "hooks.jsonl",
    "gemini": DATA / "gemini" / "hooks.jsonl",
    "cursor": DATA / "cursor" / "hooks.stdin.jsonl",
    "opencode": DATA / "opencode" / "hooks.stdin.jsonl",
}


def recorded(root: Path, agent: str, lines: list[dict[str, Any]]) -> list[list[Any]]:
    """What a new store has recorded of the lines."""
    root.mkdir()
    hooked = HookedStore(root)
    hooked.write(*lines, agent=agent)
    with stator.connect(hooked.path) as store:
        return [
            [commit.kind, commit.turn, commit.status, commit.origin and commit.origin[0]]
            for row in store.port.sessions(SessionQuery(), limit=100).rows
            for commit in store.port.commits(row.id)
        ]


@pytest.mark.parametrize("agent", FILES)
def test_a_conversation_that_is_reported_twice_is_recorded_once(tmp_path, agent):
    lines = [json.loads(line) for line in FILES[agent].read_text().splitlines()]
    for line in lines:
        line["transcript_path"] = ""
    twice = [line for line in lines for _ in range(2)]
    once = recorded(tmp_path / "once", agent, lines)
    assert recorded(tmp_path / "twice", agent, twice) == once
    assert once


def test_a_session_that_is_resumed_again_after_its_end_starts_again(tmp_path):
    start = {"hook_event_name": "sessionStart", "conversation_id": "c1", "source": "resume"}
    end = {"hook_event_name": "sessionEnd", "conversation_id": "c1", "reason": "exit"}
    kinds = [row[0] for row in recorded(tmp_path / "a", "cursor", [start, end, start, end])]
    assert kinds.count("pause") == 2
