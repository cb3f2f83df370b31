"""What commands and the MCP server show of recorded agents: calls without a result, and what is unplaced."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest
from msgspec.structs import replace

from stator.connect import connect
from stator.connect import context as plain_context
from stator.model.exchange.items import Began, Called, Conversation, Prompted
from stator.model.log.commit import Draft
from stator.model.sessions.lifecycle import NOT_TOLD
from stator.model.views.unplaced import EXPLAINED
from stator.runtime.facade.store import Store
from stator.runtime.ingest.recorder import Recorder
from stator.surfaces.cli.parts.open_store import OpenedStore
from surfaces.agents import MODERN, talking

DAY = 24 * 3600 * 1_000_000
TALK = Conversation(source="claude-code", id="9d4f", name="deploy it")
CALLS = (
    Called(id="w", tool="Bash", input={"command": "deploy"}, effect="write"),
    Called(id="r", tool="Read", input={"path": "a.py"}, effect="read"),
)


def now():
    return time.time_ns() // 1000


class Agents:
    """What this machine knows of the agents whose sessions are recorded."""

    def __init__(self):
        self.at_rest = True
        self.unplaced = []

    def known(self, context):
        return replace(
            context,
            at_rest=lambda port, row: self.at_rest,
            unplaced=lambda port, row: list(self.unplaced),
        )


@pytest.fixture
def agents(monkeypatch):
    found = Agents()
    root = sys.modules["stator.connect"]
    monkeypatch.setattr(root, "context", lambda **given: found.known(plain_context(**given)))
    return found


@pytest.fixture
def recording(tmp_path, monkeypatch, agents):
    """Make the session of an agent that ended while it wrote and while it read, that long ago; its id."""
    path = tmp_path / "agents.db"
    monkeypatch.setenv("STATOR_STORE", str(path))

    def record(*, ago=0, via="hook", calls=True):
        at = now() - ago
        with connect(path, project="shop") as store:
            recorder = Recorder(store.port, store.context, TALK, via=via)
            start = [Began(id="start", at=at)] if via == "hook" else []
            for item in (
                *start,
                Prompted(id="p1", at=at, content="deploy it"),
                *(CALLS if calls else ()),
            ):
                recorder.take(item)
            recorder.flush()
        return recorder.session

    return record


def unplaced(session, kind="call", **fields):
    """Something a hook reported that the transcript has not reached."""
    return Draft(id=f"k_{os.urandom(16).hex()}", session=session, kind=kind, **fields)


def call_of(session):
    return unplaced(
        session, call="c_" + "1" * 32, tool="Edit", effect="write", status="started",
        input={"path": "b.py"}, happened=now(),
    )  # fmt: skip


def listed(answer):
    return [json.loads(line) for line in answer.lines]


# -- calls without a result -----------------------------------------------------------------------


def test_calls_shows_a_lost_write_as_in_doubt_and_a_lost_read_as_cancelled(recording, ask):
    recording()
    found = {row["tool"]: row["status"] for row in listed(ask("calls", "--json"))}
    assert found == {"Bash": "in doubt", "Read": "cancelled"}


def test_every_command_agrees_about_a_lost_write(recording, ask):
    recording()
    for command in ("calls", "state", "show", "settle", "resume", "brief", "doctor"):
        assert "in doubt" in ask(command).out.lower(), command
    assert "settle Bash" in ask("top", "--once").out
    assert [row["tool"] for row in listed(ask("calls", "--open", "--json"))] == ["Bash"]


def test_sql_agrees_with_the_commands_and_keeps_what_the_log_has(recording, ask):
    recording()
    query = "SELECT tool, status, recorded, cause FROM calls ORDER BY tool"
    rows = listed(ask("sql", query, "--json"))
    assert [(row["tool"], row["status"], row["recorded"]) for row in rows] == [
        ("Bash", "in doubt", "started"),
        ("Read", "cancelled", "started"),
    ]
    assert rows[0]["cause"] == listed(ask("calls", "--tool", "Bash", "--json"))[0]["cause"]


def test_sql_says_of_a_turn_that_it_was_interrupted(recording, agents, ask):
    recording()
    (turn,) = listed(ask("sql", "SELECT status, failed FROM turns", "--json"))
    assert (turn["status"], turn["failed"]) == ("interrupted", 2)
    agents.at_rest = False
    (turn,) = listed(ask("sql", "SELECT status, failed FROM turns", "--json"))
    assert (turn["status"], turn["failed"]) == ("", 0)


def test_no_command_raises_an_alarm_while_the_agent_works(recording, agents, ask):
    recording()
    agents.at_rest = False
    for command in ("calls", "state", "show", "resume", "brief", "doctor"):
        assert "in doubt" not in ask(command).out.lower(), command
    assert ask("doctor").code == 0
    assert "settle" not in ask("top", "--once").out


def test_ls_shows_an_agent_at_rest_as_paused(recording, agents, ask):
    recording()
    agents.at_rest = False
    assert [row["shown"] for row in listed(ask("ls", "--json"))] == ["active"]
    agents.at_rest = True
    assert [row["shown"] for row in listed(ask("ls", "--json"))] == ["paused"]
    assert [row["shown"] for row in listed(ask("ls", "--status", "paused", "--json"))] == ["paused"]


def test_show_says_that_a_turn_with_a_lost_call_was_interrupted(recording, agents, ask):
    recording()
    assert "interrupted" in ask("show").out
    agents.at_rest = False
    assert "interrupted" not in ask("show").out


def test_the_log_says_without_a_commit_that_a_turn_was_interrupted(recording, agents, ask):
    recording()
    assert "    interrupted: a call" in ask("log").out
    assert "interrupted" not in ask("log", "--json").out
    agents.at_rest = False
    assert "interrupted" not in ask("log").out


def test_show_says_what_became_of_a_call(recording, ask):
    session = recording(ago=15 * DAY, via="import")
    found = {row["tool"]: row["seq"] for row in listed(ask("calls", "--json"))}
    shown = json.loads(ask("show", f"@{found['Bash']}", "--json").out)
    assert (shown["status"], shown["became"]["status"]) == ("started", "in doubt")
    assert "in doubt — no result was recorded" in ask("show", f"{session}:@{found['Bash']}").out
    assert "cancelled" in ask("show", f"@{found['Read']}").out


def test_an_imported_doubt_of_long_ago_is_shown_and_is_no_alarm(recording, ask):
    recording(ago=15 * DAY, via="import")
    assert "in doubt" in ask("calls").out
    assert "in doubt" in ask("state").out
    for command in ("show", "brief", "resume", "doctor"):
        assert "in doubt" not in ask(command).out.lower(), command
    assert ask("doctor").code == 0
    assert ask("top", "--once").out == ""
    assert ask("settle").out == ""


def test_settle_accepts_a_call_that_the_log_has_as_started(recording, ask):
    recording()
    (row,) = listed(ask("calls", "--status", "in doubt", "--json"))
    assert ask("settle", row["call"], "--done").code == 0
    assert [row["status"] for row in listed(ask("calls", "--tool", "Bash", "--json"))] == ["ok"]
    assert ask("doctor").code == 0


def test_doctor_lists_what_no_transcript_contains(recording, agents, ask, tmp_path):
    session = recording()
    agents.at_rest = False
    with connect(tmp_path / "agents.db") as store:
        origin = "claude-code", "late"
        late = unplaced(session, "entry", output="from a hook", cause=NOT_TOLD, origin=origin)
        store.port.append(session, [late])
    answer = ask("doctor", "--json")
    (found,) = [one for one in json.loads(answer.out)["findings"] if one["check"] == NOT_TOLD]
    assert (found["severity"], found["session"], answer.code) == ("note", session, 0)


# -- unplaced -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["log", "show", "calls", "state"])
def test_a_command_marks_what_is_unplaced_and_explains_it_once(recording, agents, ask, command):
    agents.unplaced = [call_of(recording())]
    out = ask(command).out
    assert out.count(EXPLAINED) == 1
    assert "Edit(path=b.py)" in out


def test_the_log_shows_what_is_unplaced_at_its_newest_end(recording, agents, ask):
    agents.unplaced = [call_of(recording())]
    newest_first = ask("log").out
    assert newest_first.index("Edit(") < newest_first.index("    Read ")
    oldest_first = ask("log", "--reverse").out
    assert oldest_first.index("    Read ") < oldest_first.index("Edit(")
    assert "Edit(" not in ask("log", "t1").out
    assert "Edit(" not in ask("log", "--kind", "turn").out


def test_a_followed_log_shows_each_unplaced_item_once_and_then_its_commit(
    recording, agents, ask, monkeypatch, tmp_path
):
    session = recording()
    first, second = (
        unplaced(session, "entry", output="one"),
        unplaced(session, "entry", output="two"),
    )

    def place(draft):
        with connect(tmp_path / "agents.db") as store:
            store.port.append(session, [draft])

    def looked():
        agents.unplaced = [first]
        yield
        agents.unplaced = [first, second]
        yield
        place(first)
        agents.unplaced = [second]
        yield
        raise KeyboardInterrupt

    looks = looked()
    monkeypatch.setattr(OpenedStore, "wait", lambda self, seconds, watch=None: next(looks))
    rows = listed(ask("log", "-f", "-n", "1", "--json"))[1:]
    assert [row.get("id") or [one["id"] for one in row["unplaced"]] for row in rows] == [
        [first.id], [second.id], first.id,
    ]  # fmt: skip


def test_unplaced_items_have_the_same_fields_in_every_json_document(recording, agents, ask):
    one = call_of(recording())
    agents.unplaced = [one]
    expected = [
        {
            "id": one.id,
            "kind": "call",
            "tool": "Edit",
            "call": one.call,
            "status": "in doubt",
            "summary": "Edit(path=b.py)",
            "happened": one.happened,
        }
    ]
    for command in ("show", "state"):
        assert json.loads(ask(command, "--json").out)["unplaced"] == expected, command
    for command in ("log", "calls", "top"):
        *_, last = listed(ask(command, "--json"))
        assert last["unplaced"] == expected, command


def test_lists_without_anything_unplaced_have_no_line_about_it(recording, ask):
    recording()
    assert all("unplaced" not in row for row in listed(ask("log", "--json")))
    assert all("unplaced" not in row for row in listed(ask("calls", "--json")))
    assert json.loads(ask("state", "--json").out)["unplaced"] == []


def test_top_shows_the_call_that_an_agent_has_begun_and_is_unplaced(recording, agents, ask):
    session = recording(calls=False)
    agents.at_rest, agents.unplaced = False, [call_of(session)]
    out = ask("top", "--once").out
    assert "Edit (unplaced)" in out
    assert EXPLAINED in out


def test_an_unplaced_id_is_shown_by_itself(recording, agents, ask):
    one = call_of(recording())
    agents.unplaced = [one]
    answer = ask("show", one.id)
    assert answer.code == 0
    assert EXPLAINED in answer.out
    found = json.loads(ask("show", one.id, "--json").out)
    assert (found["schema"], found["id"], found["input"]) == (
        "stator.unplaced/1", one.id, {"path": "b.py"},
    )  # fmt: skip


def test_a_fork_at_something_unplaced_is_refused(recording, agents, ask):
    one = call_of(recording())
    agents.unplaced = [one]
    answer = ask("fork", one.id)
    assert answer.code != 0
    assert EXPLAINED in answer.err


@pytest.mark.parametrize("command", [("verify",), ("sql", "select * from commits"), ("du",)])
def test_checks_and_queries_never_see_what_is_unplaced(recording, agents, ask, command):
    session = recording()
    without = ask(*command).out
    agents.unplaced = [call_of(session)]
    assert ask(*command).out == without


def test_a_brief_marks_what_is_unplaced(recording, agents, ask):
    agents.unplaced = [call_of(recording())]
    assert EXPLAINED in ask("brief").out


# -- the MCP server -------------------------------------------------------------------------------


@pytest.fixture
def served(opened):
    recorder = Recorder(opened.port, opened.context, TALK, via="import")
    at = opened.context.clock()
    for item in (Prompted(id="p1", at=at, content="deploy it"), *CALLS):
        recorder.take(item)
    recorder.flush()
    known = Agents()
    known.unplaced = [call_of(recorder.session)]
    return Store(opened.port, known.known(opened.context)), recorder.session


@pytest.mark.anyio
async def test_mcp_shows_lost_calls_and_what_is_unplaced(served):
    store, session = served
    async with talking(store, MODERN) as agent:
        state = await agent.read(f"session://{session}/state")
        log = await agent.read(f"session://{session}/log")
        calls = await agent.call("stator_log", session=session, what="calls")
        doubts = await agent.call("stator_settle", session=session)
    assert [row["status"] for row in state["state"]["calls"]] == ["in doubt"]
    assert {row["tool"]: row["status"] for row in calls["rows"]} == {
        "Bash": "in doubt",
        "Read": "cancelled",
    }
    assert [row["tool"] for row in doubts["in_doubt"]] == ["Bash"]
    for document in (state, log, calls):
        assert [row["summary"] for row in document["unplaced"]] == ["Edit(path=b.py)"]
