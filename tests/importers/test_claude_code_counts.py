"""Compares the importer's counts with those of an independent script."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import stator
from importers.claude_code_writer import import_files
from importers.counts_claude_code import claude_code
from stator.model.log.commit import Commit
from stator.model.log.query import SessionQuery
from stator.runtime.facade.view import SessionView

DATA = Path(__file__).parent / "data" / "claude-code"
REAL = os.environ.get("STATOR_TRANSCRIPTS", "")


def recorded_counts(store, paths: list[Path]) -> dict[str, int]:
    """Count what the store contains; commits that a fork shares with its parent count once."""
    import_files(store, *paths)
    commits: dict[str, Commit] = {}
    rows = store.port.sessions(SessionQuery(), limit=1_000).rows
    for row in rows:
        commits |= {commit.id: commit for commit in SessionView(store.port, row.id).log()}
    results = [
        commit
        for commit in commits.values()
        if commit.kind == "outcome" and commit.actor != "system"
    ]
    kinds = [commit.kind for commit in commits.values()]
    return {
        "sessions": len(rows),
        "prompts": kinds.count("turn"),
        "calls": kinds.count("call"),
        "results": len(results),
    }


def mains(folder: Path) -> list[Path]:
    """Every transcript in a folder, except sub-agents that are imported with their parent."""
    found = sorted(path for path in folder.rglob("*.jsonl") if path.name not in OTHERS)
    return sorted(found, key=lambda path: path.name.startswith("agent-"))


OTHERS = {"hooks.stdin.jsonl", "stream-json.stdout.jsonl"}


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "a.db", project="demo") as opened:
        yield opened


def test_the_counts_of_the_fixtures_match_an_independent_count(store):
    paths = mains(DATA)
    assert recorded_counts(store, paths) == claude_code(paths)


@pytest.mark.skipif(not REAL, reason="STATOR_TRANSCRIPTS names no folder of recorded sessions")
@pytest.mark.parametrize("folder", ["claude-code", "generated/claude-code-2.1.325"])
def test_the_counts_of_real_sessions_match_an_independent_count(store, folder):
    paths = mains(Path(REAL) / folder)
    assert paths
    assert recorded_counts(store, paths) == claude_code(paths)
