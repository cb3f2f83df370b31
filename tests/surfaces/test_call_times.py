"""When calls happened, in `stator calls --json`: for an imported session not the time of the import."""

from __future__ import annotations

import json

import stator
from importers.claude_code_writer import TranscriptWriter, import_files


def test_an_imported_call_has_the_time_at_which_it_was_asked_for(tmp_path, monkeypatch, ask):
    chat = TranscriptWriter(tmp_path / "t" / "a.jsonl")
    chat.prompt("look")
    chat.says("m1", ("toolu_1", "Bash", {"command": "ls"}))
    chat.result("toolu_1", "a.py")
    path = str(tmp_path / "calls.db")
    monkeypatch.setenv("STATOR_STORE", path)
    with stator.connect(path, project="shop") as store:
        import_files(store, chat.path)
    (call,) = map(json.loads, ask("calls", "--everywhere", "--json").lines)
    ((happened, at),) = [
        tuple(json.loads(line).values())
        for line in ask("sql", "SELECT happened, at FROM calls", "--json").lines
    ]
    assert (call["happened"], call["at"]) == (happened, at)
    assert happened < at
