"""Tests how an agent finds, begins and manages sessions over MCP."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_types import Implementation

import stator
from surfaces.agents import message, started, talking
from surfaces.recorded import record

pytestmark = pytest.mark.anyio
OTHER = Implementation(name="other", version="1")
PURPOSE = "Fix the login bug"


@pytest.fixture
def store(opened):
    return opened


@pytest.fixture
def fixed(store):
    """A session that a program drove."""
    return record(store)


async def test_open_with_nothing_lists_open_sessions_and_opens_none(store, fixed):
    async with talking(store) as agent:
        mine = await agent.begin()
        closed = await agent.begin("something else")
        await agent.call("stator_open", action="close", session=closed)
        heads = {session: store.port.head(session) for session in (mine, fixed)}
        found = await agent.call("stator_open")
    assert {session: store.port.head(session) for session in heads} == heads
    assert "brief" not in found
    assert [(row["session"], row["agent"], row.get("yours")) for row in found["sessions"]] == [
        (mine, "tester", True),
        (fixed, "demo-agent", None),
    ]
    assert {row["goal"].lower() for row in found["sessions"]} == {"fix the login bug"}
    assert all("ago" in row["used"] for row in found["sessions"])
    assert "No session was opened" in found["note"]


@pytest.mark.parametrize("again", ["fix the login bug", " FIX  the\tlogin\nBUG ", PURPOSE])
async def test_the_same_purpose_finds_the_same_open_session(store, again):
    async with talking(store) as agent:
        first = await agent.call("stator_open", purpose=PURPOSE)
        head = store.port.head(first["session"])
        second = await agent.call("stator_open", purpose=again)
    assert (second["session"], second["created"]) == (first["session"], False)
    assert store.port.head(first["session"]) == head


async def test_another_purpose_begins_another_session_even_where_the_names_would_be_the_same(store):
    long = "sort " * 30
    async with talking(store) as agent:
        one = await agent.call("stator_open", purpose=f"{long} by year")
        two = await agent.call("stator_open", purpose=f"{long} by size")
    assert one["session"] != two["session"]
    assert two["name"] == f"{one['name']}-2"


async def test_a_purpose_that_was_closed_begins_a_new_session(store):
    async with talking(store) as agent:
        first = await agent.call("stator_open", purpose=PURPOSE)
        await agent.call("stator_open", action="close", session=first["session"])
        second = await agent.call("stator_open", purpose=PURPOSE)
    assert second["created"]
    assert second["name"] == "fix-the-login-bug-2"


async def test_the_same_purpose_of_another_agent_is_another_session(store):
    async with talking(store) as agent:
        mine = await agent.begin(PURPOSE)
    async with talking(store, me=OTHER) as other:
        theirs = await other.call("stator_open", purpose=PURPOSE)
    assert theirs["created"]
    assert theirs["session"] != mine


async def test_a_session_with_a_name_is_found_by_its_purpose_too(store):
    async with talking(store) as agent:
        named = await agent.call("stator_open", session="release", purpose="ship it")
        found = await agent.call("stator_open", purpose="Ship it")
    assert found["session"] == named["session"]


async def test_a_purpose_with_a_secret_finds_its_session(store):
    purpose = "use the key ghp_" + "a1B2" * 9
    async with talking(store) as agent:
        first = await agent.call("stator_open", purpose=purpose)
        second = await agent.call("stator_open", purpose=purpose.upper().replace("GHP_", "ghp_"))
    assert first["created"]
    assert "a1B2" not in json.dumps(first)
    assert second["session"] == first["session"]


async def test_a_blank_purpose_is_refused(store):
    async with talking(store) as agent:
        assert (await agent.refused("stator_open", purpose=" \n"))["path"] == "$.purpose"


def test_two_processes_that_begin_the_same_purpose_at_once_get_the_same_session(tmp_path):
    path = tmp_path / "agent.db"
    servers: list[Any] = [started(path) for _ in range(3)]
    for server in servers:  # each is ready before the first is asked
        server.stdin.write(message("tools/list"))
        server.stdin.flush()
        server.stdout.readline()
    for number in range(4):
        given = {"name": "stator_open", "arguments": {"purpose": f"task {number}", "brief": False}}
        for server in servers:
            server.stdin.write(message("tools/call", **given))
            server.stdin.flush()
        answers = [json.loads(server.stdout.readline())["result"] for server in servers]
        found = [answer["structuredContent"] for answer in answers]
        assert len({one["session"] for one in found}) == 1
        assert sum(one["created"] for one in found) == 1
    for server in servers:
        server.communicate()
    with stator.connect(path) as store:
        assert len(store.sessions().rows) == 4


async def test_a_session_of_another_agent_is_never_called_yours(store, fixed):
    async with talking(store) as agent:
        mine = await agent.begin()
    async with talking(store, me=OTHER) as other:
        for session, whose in ((mine, "a session of tester"), ("fix-login", "of demo-agent")):
            found = await other.client.call_tool("stator_open", {"session": session})
            said = found.structured_content
            assert said["yours"] is False
            assert whose in found.content[0].text
            assert whose in said["note"]
            assert "your session" not in found.content[0].text


async def test_the_brief_is_left_out_if_it_is_not_wanted(store):
    async with talking(store) as agent:
        found = await agent.call("stator_open", purpose=PURPOSE, brief=False)
    assert "brief" not in found
    assert found["in_doubt"] == []


async def test_a_fork_that_is_asked_for_again_is_the_same_fork(store, fixed):
    given = {"action": "fork", "session": fixed, "at": "t1", "name": "plan-b"}
    async with talking(store) as agent:
        first = await agent.call("stator_open", **given)
        again = await agent.call("stator_open", **given)
        error = await agent.refused("stator_open", **{**given, "at": "t2"})
    assert again["session"] == first["session"]
    assert error["code"] == "E_CONFLICT"


async def test_a_child_for_the_same_purpose_is_the_same_child(store):
    async with talking(store) as agent:
        above = await agent.begin()
        given = {"action": "child", "session": above, "purpose": "look around"}
        first = await agent.call("stator_open", **given)
        again = await agent.call("stator_open", **{**given, "purpose": "Look  around"})
    assert again["session"] == first["session"]


async def test_a_fork_needs_a_name(store, fixed):
    async with talking(store) as agent:
        error = await agent.refused("stator_open", action="fork", session=fixed)
    assert error["path"] == "$.name"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sesion": "x"}, "did you mean session?"),
        ({"goal": "x"}, "stator_open takes session, purpose"),
        ({"purpose": 7}, "purpose: string"),
        ({"action": "delete"}, "open, list, fork"),
        ({"max_tokens": "many"}, "max_tokens: integer"),
    ],
)
async def test_a_wrong_argument_is_refused_with_the_right_ones(store, given, said):
    async with talking(store) as agent:
        assert said in (await agent.refused("stator_open", **given))["hint"]
