"""Findings are part of the law of recorded sessions: a file that grows has those of one import."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import stator
from importers.claude_code_writer import TranscriptWriter, import_files, view
from importers.import_helpers import (
    RECORDINGS,
    conversations_in,
    detected_format,
    import_file,
    needs_recordings,
)
from importers.recorded_law import history, whole_import
from stator.model.extraction.evidence import EXTRACT, origin_parts
from stator.model.log.query import SessionQuery
from stator.runtime.base.pages import commits, matching

QUESTION = {
    "question": "Which store?",
    "header": "Store",
    "options": [{"label": "SQLite", "description": "one file"}, {"label": "PostgreSQL"}],
}
ANSWERED = 'User has answered your questions: "Which store?"="SQLite". You can now continue with'
REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected. "
    "To tell you how to proceed, the user said:\nuse uv, never pip"
)
CALLS: list[tuple[str, dict[str, Any], str, bool]] = [
    ("AskUserQuestion", {"questions": [QUESTION]}, ANSWERED, False),
    ("ExitPlanMode", {"plan": "# Plan\n1. build"}, "User has approved your plan. Start.", False),
    ("Bash", {"command": "git add a.py"}, "", False),
    ("Bash", {"command": "git commit -m x"}, "[main 1234abc] x\n 1 file changed", False),
    ("Bash", {"command": "git push"}, "To x.example:r.git\n   0000000..1234abc  main -> main", False),
    ("mcp__github__get_issue", {"number": 7}, "closed", False),
    ("WebFetch", {"url": "https://docs.example/a", "prompt": "read"}, "text", False),
    ("Bash", {"command": "pip install x"}, REFUSED, True),
    ("Bash", {"command": "uv add x"}, "ok", False),
]  # fmt: skip
RULES = ["answer", "plan", "revision", "pushed", "surroundings", "surroundings", "refusal"]


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    """A conversation in which each rule finds something."""
    path = tmp_path / "source" / "11111111-2222-4333-8444-555555555555.jsonl"
    writer = TranscriptWriter(path)
    writer.prompt("build it")
    for number, (tool, given, output, is_error) in enumerate(CALLS):
        writer.says(f"m{number}", (f"call{number}", tool, given), stop="tool_use")
        writer.result(f"call{number}", output, error=is_error)
    writer.says("last", "Done.", stop="end_turn")
    writer.prompt("thanks")
    writer.says("bye", "Bye.", stop="end_turn")
    return path


def rules(log: Any) -> list[str]:
    found = (origin_parts(commit.origin) for commit in log)
    return [parts[0] for parts in found if parts is not None]


def test_an_import_finds_what_each_rule_is_about(transcript, tmp_path):
    with stator.connect(tmp_path / "s.db", project="x") as store:
        import_files(store, transcript)
        assert rules(view(store).log()) == RULES
        assert not store.extract(project="", again=True).found


def test_a_file_that_grows_has_the_findings_of_the_whole_one(transcript, tmp_path):
    whole = whole_import("claude-code", transcript, tmp_path / "whole" / "p")
    for seed in range(12):
        history("claude-code", transcript, tmp_path / str(seed) / "p", seed, whole)


def test_an_import_again_finds_everything_once(transcript, tmp_path):
    with stator.connect(tmp_path / "s.db", project="x") as store:
        for _ in range(3):
            import_files(store, transcript)
        assert rules(view(store).log()) == RULES


@needs_recordings
def test_the_findings_in_recorded_files_are_those_that_were_read_and_counted(tmp_path):
    counts: Counter[str] = Counter()
    with stator.connect(tmp_path / "s.db", project="x", durability="relaxed") as store:
        for path in sorted(RECORDINGS.rglob("*.json*")):
            name = detected_format(path)
            if name and path.is_file() and conversations_in(path, name):
                import_file(store, path, name, at_rest=True)
        ids: set[str] = set()
        for row in matching(store.port, SessionQuery()):
            for commit in commits(store.port, row.id):
                if commit.origin and commit.origin[0] == EXTRACT and commit.id not in ids:
                    ids.add(commit.id)
                    counts.update(rules([commit]))
        assert not store.extract(project="", again=True).found
    assert counts == Counter(
        revision=39, pushed=7, surroundings=counts["surroundings"], answer=3, refusal=2, plan=1
    )
    assert counts["surroundings"] >= 7
