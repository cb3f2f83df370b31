"""Programs that keep a store open see hook lines queued after they opened it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import stator
from stator.connect import catch_up

HOOK = Path(sys.executable).parent / "stator-hook"


def tell(folder: Path, moment: str, **said: object) -> None:
    line = {"session_id": "abc", "cwd": str(folder), "hook_event_name": moment, **said}
    subprocess.run(
        [str(HOOK), "claude-code"], input=json.dumps(line).encode(), cwd=folder, check=True
    )


def prompt(folder: Path, number: int) -> None:
    tell(folder, "UserPromptSubmit", prompt_id=f"p{number}", prompt=f"do {number}")


def project(tmp_path: Path) -> Path:
    folder = tmp_path / "there"
    (folder / ".stator").mkdir(parents=True)
    stator.connect(folder / ".stator" / "store.db").close()
    return folder


def test_a_writer_imports_hook_lines_queued_since_it_opened(tmp_path):
    folder = project(tmp_path)
    with stator.connect(folder / ".stator" / "store.db") as store:
        prompt(folder, 1)
        assert store.sessions().rows == []
        catch_up(store)
        (row,) = store.sessions().rows
        assert row.turns == 1


def test_a_reader_sees_hook_lines_queued_since_it_opened(tmp_path):
    folder = project(tmp_path)
    with stator.connect(folder / ".stator" / "store.db", read_only=True) as store:
        prompt(folder, 1)
        catch_up(store)
        (row,) = store.sessions().rows
        assert row.turns == 1


def test_an_empty_queue_is_not_read(tmp_path):
    with stator.connect("memory:") as store:
        catch_up(store)
        assert store.sessions().rows == []
