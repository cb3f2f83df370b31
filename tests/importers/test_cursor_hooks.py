"""Tests Cursor's hooks, with fixtures made from descriptions and not from recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stator
from importers.hook_lines import hook_input
from stator.hooks import cursor
from stator.model.exchange.items import Noise

LINES = [
    json.loads(line)
    for line in (Path(__file__).parent / "data/cursor/hooks.stdin.jsonl").read_text().splitlines()
]


@pytest.fixture
def view(hooked):
    hooked.write(*LINES)
    with stator.connect(hooked.path) as store:
        (found,) = store.views()
        yield found


def test_a_conversation_is_one_session_in_order(view):
    assert [commit.kind for commit in view.log() if commit.kind != "scratch"] == [
        "open", "run", "turn", "call", "outcome", "call", "outcome", "file", "file", "call",
        "compaction", "entry", "turn_end", "pause",
    ]  # fmt: skip


def test_calls_have_the_outcome_their_hooks_report(view):
    outcomes = {
        c.tool: c.status for c in view.log() if c.kind == "outcome" and c.cause != "exit code 1"
    }
    assert outcomes == {"Read": "ok"}
    (failed,) = [c for c in view.log() if c.cause == "exit code 1"]
    assert failed.status == "error"


def test_a_command_reported_by_two_hooks_is_recorded_once(view):
    assert [c.tool for c in view.log() if c.kind == "call"] == ["Read", "Shell", "Shell"]


def test_a_shell_hook_without_tool_hooks_records_a_call(hooked):
    hooked.write(
        LINES[1], hook_input("afterShellExecution", LINES[0]["conversation_id"], command="ls")
    )
    with stator.connect(hooked.path) as store:
        assert [row.status for row in store.calls().rows] == ["ok"]


def test_files_are_relative_to_the_workspace_folder(view):
    (record,) = view.state()["files"].values()
    assert (record.root, record.path, record.op) == (".", "cart.py", "modified")


@pytest.mark.parametrize("wrong", [{}, {"conversation_id": 7}, {"conversation_id": None}])
def test_input_without_a_conversation_id_yields_no_conversation(wrong):
    assert cursor.conversation(wrong) is None


@pytest.mark.parametrize("name", [None, 7, "", "somethingNew"])
def test_an_unknown_hook_is_ignored(name):
    found = list(cursor.items({"hook_event_name": name}, 1, "u", {}))
    assert [type(item) for item in found] == [Noise]


@pytest.mark.parametrize("line", LINES, ids=[line["hook_event_name"] for line in LINES])
def test_fields_of_wrong_types_do_not_raise(line):
    shapes: tuple[Any, ...] = (None, 7, [], {"a": 1})
    for name in line:
        if name != "hook_event_name":
            for wrong in shapes:
                cursor.conversation(line | {name: wrong})
                list(cursor.items(line | {name: wrong}, 1, "u", {}))
