"""Notes that agents keep about a project are recorded for it, as the model's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stator
from stator.importers.memory_files import BYTES_MAX, memories_of
from stator.runtime.ingest.memories import conflicts, record_memories

ROOT = "/home/dev/shop"
NOTE = "---\nname: test-command\ntype: feedback\n---\nRun tests with `make test`.\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / ".claude" / "projects" / "-home-dev-shop" / "memory"
    folder.mkdir(parents=True)
    (folder / "testing.md").write_text(NOTE)
    return tmp_path


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with stator.connect(tmp_path / "s.db", project="shop") as opened:
        yield opened


def notes(home: Path) -> Path:
    return home / ".claude" / "projects" / "-home-dev-shop" / "memory"


def taken(store: Any, home: Path, **options: Any) -> list[tuple[str, str]]:
    found = record_memories(store.port, store.context, memories_of(home, {}, ROOT), **options)
    return [(one.what, one.evidence) for one in found]


def artifacts(store: Any) -> dict[str, Any]:
    (row,) = [row for row in store.port.sessions(stator_query()).rows]
    return {entry.key: entry for entry in store.port.entries(row.id, "artifacts")}


def stator_query() -> Any:
    from stator.model.log.query import SessionQuery

    return SessionQuery(mode="project")


def test_a_note_is_an_artifact_of_the_project_in_the_words_of_the_model(store, home):
    assert taken(store, home) == [("added", "memory/claude-code/testing.md")]
    (entry,) = artifacts(store).values()
    (row,) = store.port.sessions(stator_query()).rows
    commit = store.port.commits(row.id, after=entry.seq - 1, upto=entry.seq)[0]
    assert commit.value("input") == NOTE
    assert (commit.provenance.source, commit.provenance.trust) == ("model", "unverified")


def test_a_note_that_did_not_change_adds_nothing(store, home):
    taken(store, home)
    assert taken(store, home) == []


def test_a_note_that_changed_is_a_new_version(store, home):
    taken(store, home)
    (notes(home) / "testing.md").write_text("other")
    assert taken(store, home) == [("corrected", "memory/claude-code/testing.md")]
    assert artifacts(store)["memory/claude-code/testing.md"].record.version == 2


def test_a_note_that_is_gone_leaves_the_state_and_says_so(store, home):
    taken(store, home)
    (notes(home) / "testing.md").unlink()
    assert taken(store, home) == [("removed", "memory/claude-code/testing.md")]
    assert artifacts(store) == {}
    assert taken(store, home) == []


def test_notes_stay_if_the_folder_of_the_agent_cannot_be_found(store, home, tmp_path):
    taken(store, home)
    assert taken(store, tmp_path / "elsewhere") == []


def test_a_dry_run_writes_nothing(store, home):
    assert taken(store, home, dry_run=True) == [("added", "memory/claude-code/testing.md")]
    assert store.port.sessions(stator_query()).rows == []


def test_of_codex_only_notes_that_name_the_folder_are_taken(store, home):
    folder = home / ".codex" / "memories" / "rollout_summaries"
    folder.mkdir(parents=True)
    (folder / "a.md").write_text(f"cwd: {ROOT}\nit went well")
    (folder / "b.md").write_text(f"cwd: {ROOT}-2\n")
    names = [name for _, name in taken(store, home)]
    assert names == ["memory/claude-code/testing.md", "memory/codex/rollout_summaries/a.md"]


def test_links_pipes_and_large_files_are_no_notes(store, home, tmp_path):
    import os

    (tmp_path / "secret").write_text("s")
    (notes(home) / "link.md").symlink_to(tmp_path / "secret")
    os.mkfifo(notes(home) / "pipe.md")
    (notes(home) / "large.md").write_bytes(b"x" * (BYTES_MAX + 1))
    assert len(taken(store, home)) == 1


def test_a_note_that_contradicts_what_the_project_knows_is_reported(store, home):
    with store.open("work") as session, session.turn("x") as turn:
        turn.prefer("test-command", "tox")
    (clash,) = conflicts(store.port, store.context, memories_of(home, {}, ROOT))
    assert (clash.collection, clash.key, clash.value) == ("preferences", "test-command", "tox")


def test_a_note_that_agrees_is_no_conflict(store, home):
    with store.open("work") as session, session.turn("x") as turn:
        turn.prefer("test-command", "make test")
    assert conflicts(store.port, store.context, memories_of(home, {}, ROOT)) == []
