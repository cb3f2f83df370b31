"""Tests that an agent cannot end the record of its own work over MCP, and that later work is shown as such."""

from __future__ import annotations

import pytest
from mcp_types import Implementation

from stator.model.exchange.items import Called, Conversation, Prompted, Returned
from stator.runtime.ingest.recorder import Recorder
from surfaces.agents import talking

pytestmark = pytest.mark.anyio
LATER = 2**52
"""A time after every other."""


@pytest.fixture
def store(opened):
    return opened


@pytest.fixture
def recorder(store):
    """A conversation in the middle of a call, as its hooks report it."""
    found = Recorder(store.port, store.context, Conversation(source="cursor", id="c1"), via="hook")
    found.take(Prompted(id="p1", at=10, content="pay the bill"))
    found.take(Called(id="t1", at=20, tool="pay", input={"amount": 5}))
    found.flush()
    return found


@pytest.fixture
def driven(store):
    """A session that a program left paused."""
    with store.open("driven") as s, s.turn("work") as t:
        t.say("done")


@pytest.mark.parametrize("action", ["close", "pause", "resume"])
async def test_an_agent_cannot_change_the_status_of_a_session_that_hooks_record(
    store, recorder, action
):
    head = store.read(recorder.session).head
    async with talking(store) as agent:
        error = await agent.refused("stator_open", action=action, session=recorder.session)
    assert error["code"] == "E_STATE"
    assert "recorded from 'cursor'" in error["what"]
    assert f"stator {action}" in error["hint"]
    assert store.read(recorder.session).head == head


@pytest.mark.parametrize("action", ["close", "pause", "resume"])
async def test_an_agent_cannot_change_the_status_of_a_session_that_a_program_drives(
    store, driven, action
):
    head = store.read("driven").head
    async with talking(store) as agent:
        error = await agent.refused("stator_open", action=action, session="driven")
    assert "a program or a person began it" in error["what"]
    assert store.read("driven").head == head


async def test_an_agent_closes_what_it_opened_and_no_other_agents_session(store):
    async with talking(store) as agent:
        mine = await agent.begin()
    async with talking(store, me=Implementation(name="other", version="1")) as other:
        error = await other.refused("stator_open", action="close", session=mine)
        assert "another agent opened it" in error["what"]
    async with talking(store) as agent:
        closed = await agent.call("stator_open", action="close", session=mine)
        assert closed["status"] == "closed"


async def test_what_the_proxy_sees_lands_in_a_session_that_its_agent_closed_over_mcp(store):
    async with talking(store) as agent:
        mine = await agent.begin()
        await agent.call("stator_open", action="close", session=mine)
    row = store.port.session(mine)
    proxy = Recorder(
        store.port, store.context, Conversation(source="mcp", id=mine), via="proxy", row=row
    )
    proxy.take(Called(id="1", at=LATER, tool="mcp__bank__pay", input={"amount": 5}))
    proxy.flush(barrier=False)
    proxy.take(Returned(id="1", at=LATER + 1, status="ok", output="paid"))
    proxy.flush(barrier=False)
    late = [c for c in store.read(mine).log() if c.cause == "after close"]
    assert [commit.kind for commit in late] == ["call", "outcome", "use"]
    assert store.read(mine).status == "closed"


# -- shown ----------------------------------------------------------------------------------------


async def test_the_log_marks_what_came_after_close(store, recorder, ask):
    store.contribute(recorder.session).close()
    recorder.take(Returned(id="t1", at=30, status="error", output="no funds"))
    recorder.flush()
    shown = ask("log", "--store", str(store.port.path), "--session", recorder.session).out
    assert "no funds · after close" in shown
    assert shown.count("after close") == 1
    shown = ask("show", "--store", str(store.port.path), recorder.session).out
    assert "after close" in shown
    assert "1 commit by its agent's witnesses" in shown


async def test_a_model_that_continues_the_session_is_not_shown_the_mark_as_an_error(
    store, recorder
):
    store.contribute(recorder.session).close()
    recorder.take(Returned(id="t1", at=30, status="error"))
    recorder.flush()
    assert "after close" not in store.read(recorder.session).brief().text
