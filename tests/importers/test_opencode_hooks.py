"""What the plugin for opencode reports: the same items as opencode's own record of the conversation.

The lines and the export are recorded from opencode 1.18.33 with a scripted model.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import stator
from stator.hooks import opencode
from stator.importers.opencode.session import FORMAT
from stator.model.exchange.items import Called, Item, Planned, Prompted, Returned, Spawned
from stator.model.log.query import SessionQuery
from stator.surfaces.agent_settings.agents import PLUGIN_COMMAND, PLUGIN_MARK, PLUGINS

DATA = Path(__file__).parent / "data" / "opencode"
LINES: list[dict[str, Any]] = [
    json.loads(line) for line in (DATA / "hooks.stdin.jsonl").read_text().splitlines()
]
PLUGIN = PLUGINS / "opencode" / "stator.js"
MAIN = LINES[0]["session_id"]
CHILD = next(line["session_id"] for line in LINES if line.get("parent_id"))


def reported(session: str) -> list[Item]:
    state: dict[str, Any] = {}
    return [
        item
        for number, line in enumerate(LINES)
        if line["session_id"] == session
        for item in opencode.items(line, number, str(number), state)
    ]


def told() -> list[Item]:
    """What opencode's export of the main conversation tells."""
    (found,) = FORMAT.conversations(DATA / "hooked-export.json")
    return list(FORMAT.read(found, None, None))


def by_id(items: list[Item], kind: type[Item]) -> dict[str, Item]:
    return {item.id: item for item in items if isinstance(item, kind)}


@pytest.mark.parametrize("kind", [Prompted, Returned, Spawned, Planned])
def test_an_item_is_the_same_from_the_plugin_and_from_the_export(kind):
    assert by_id(reported(MAIN), kind) == by_id(told(), kind)
    assert by_id(told(), kind)


def test_a_call_has_the_same_id_tool_and_input_from_both():
    def shown(items: list[Item]) -> list[Any]:
        return [(c.id, c.tool, c.input, c.effect) for c in items if isinstance(c, Called)]

    assert set(map(str, shown(reported(MAIN)))) == set(map(str, shown(told())))


def test_statuses_of_calls_are_known():
    statuses = {item.tool: item.status for item in reported(MAIN) if isinstance(item, Returned)}
    assert statuses == {
        "write": "ok", "bash": "error", "edit": "error", "todowrite": "ok", "task": "ok",
    }  # fmt: skip


def test_a_call_is_reported_before_it_has_an_effect():
    for line in LINES:
        if line["hook_event_name"].startswith("PostToolUse"):
            before = [one for one in LINES if one.get("tool_use_id") == line["tool_use_id"]]
            assert before[0]["hook_event_name"] == "PreToolUse"


def test_a_sub_agent_is_a_conversation_of_its_own():
    line = next(line for line in LINES if line["session_id"] == CHILD)
    talk = opencode.conversation(line)
    assert talk is not None
    assert talk.id == CHILD
    assert len(by_id(reported(CHILD), Called)) == 5


def test_starts_and_ends_belong_to_the_main_conversation():
    names = ("SessionStart", "SessionEnd")
    starts = [line for line in LINES if line["hook_event_name"] in names]
    assert [line["session_id"] for line in starts] == [MAIN] * 4
    assert [line.get("source") for line in starts[::2]] == ["startup", "resume"]


@pytest.mark.parametrize("line", [{}, {"session_id": 5}, {"session_id": ""}])
def test_a_line_without_a_conversation_belongs_to_none(line):
    assert opencode.conversation(line) is None


@pytest.mark.parametrize("name", sorted({line["hook_event_name"] for line in LINES} | {"Odd"}))
@pytest.mark.parametrize("odd", [None, 5, [], {"state": 7}, [{}], "x"])
def test_odd_shapes_cost_nothing(name, odd):
    line = {"hook_event_name": name, "session_id": "s", "tool_use_id": "c"}
    line |= dict.fromkeys(("part", "parts", "message", "tool_input", "source"), odd)
    list(opencode.items(line, 1, "u", {}))


def test_a_compaction_has_the_id_that_the_database_gives_it():
    before = {"hook_event_name": "PreCompact", "session_id": "s", "compaction_time": 1794820410564}
    state: dict[str, Any] = {}
    assert list(opencode.items(before, 1, "a", state)) == []
    (item,) = opencode.items({**before, "hook_event_name": "PostCompact"}, 2, "b", state)
    assert item.id == "compaction/1794820410564000"


def test_hooks_alone_record_both_conversations(hooked):
    for line in LINES:
        hooked.write({**line, "transcript_path": ""}, agent="opencode")
    with stator.connect(hooked.path) as store:
        turns = sorted(row.turns for row in store.port.sessions(SessionQuery(), limit=10).rows)
    assert turns == [1, 2]


# -- the plugin's file ------------------------------------------------------------------------------


def test_the_plugin_begins_with_its_mark_and_names_its_program_once():
    text = PLUGIN.read_text()
    assert text.startswith(PLUGIN_MARK)
    assert text.count(PLUGIN_COMMAND) == 1


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize("program", ["/nonexistent/stator-hook", "/bin/false"])
def test_the_plugin_does_not_fail_without_the_program(tmp_path, program):
    text = PLUGIN.read_text().replace(PLUGIN_COMMAND, f'const COMMAND = ["{program}"]')
    (tmp_path / "plugin.mjs").write_text(text)
    (tmp_path / "run.mjs").write_text(
        'import { Stator } from "./plugin.mjs"\n'
        'const hooks = await Stator({ directory: "/" })\n'
        'const info = { id: "s" }\n'
        'await hooks.event({ event: { type: "session.created", properties: { info } } })\n'
        'await hooks["chat.message"]({ sessionID: "s" }, { message: {}, parts: [] })\n'
        'await hooks["tool.execute.before"]({ tool: "t", sessionID: "s", callID: "c" }, {})\n'
        "await hooks.event({ event: {} })\n"
        "await hooks.dispose()\n"
        'console.log("fine")\n'
    )
    done = subprocess.run(
        ["node", str(tmp_path / "run.mjs")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("fine", 0), done.stderr
