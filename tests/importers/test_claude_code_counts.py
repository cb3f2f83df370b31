"""The importer's totals against those of a script that reads the raw files by itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import stator
from importers.claude_lines import bring
from importers.counts import claude_code
from stator.model.log.commit import Commit
from stator.model.log.query import SessionQuery
from stator.runtime.facade.view import SessionView

DATA = Path(__file__).parent / "data" / "claude-code"
REAL = os.environ.get("STATOR_TRANSCRIPTS", "")


def imported(store, paths: list[Path]) -> dict[str, int]:
    """What the store holds of those files; a fork has its parent's commits, which count once."""
    bring(store, *paths)
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
    """Every transcript in a folder; sub-agents' whose parent is there come with it."""
    found = sorted(path for path in folder.rglob("*.jsonl") if path.name not in OTHERS)
    return sorted(found, key=lambda path: path.name.startswith("agent-"))


OTHERS = {"hooks.stdin.jsonl", "stream-json.stdout.jsonl"}


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "a.db", project="demo") as opened:
        yield opened


def test_the_fixtures_are_counted_alike(store):
    paths = mains(DATA)
    assert imported(store, paths) == claude_code(paths)


@pytest.mark.skipif(not REAL, reason="STATOR_TRANSCRIPTS names no folder of recorded sessions")
@pytest.mark.parametrize("folder", ["claude-code", "generated/claude-code-2.1.325"])
def test_real_sessions_are_counted_alike(store, folder):
    paths = mains(Path(REAL) / folder)
    assert paths
    assert imported(store, paths) == claude_code(paths)
