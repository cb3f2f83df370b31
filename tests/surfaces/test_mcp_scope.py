"""Tests that a server for one project shows no session of another, even to a client with its handle."""

from __future__ import annotations

import dataclasses

import pytest
from mcp.shared.exceptions import MCPError

from stator.runtime.facade.store import Store
from surfaces.agents import talking
from surfaces.recorded import START, record

pytestmark = pytest.mark.anyio
NOBODY = "s_" + "0" * 32


@pytest.fixture
def store(opened):
    return opened


@pytest.fixture
def theirs(store):
    """A session of another project, in the same store."""
    other = dataclasses.replace(store.context, project="bank")
    return record(Store(store.port, other), "their-secret-plan")


@pytest.fixture
def ours(store, theirs):
    return record(store, "ours")


EVERY_WAY_IN = [
    ("open", {}),
    ("record", {"items": [{"kind": "dead_end", "what": "x"}]}),
    ("log", {}),
    ("log", {"what": "state"}),
    ("diff", {}),
    ("recall", {"key": "decision:auth"}),
    ("settle", {}),
    ("settle", {"call": "c_00000001", "verdict": "done"}),
    ("search", {"words": "login"}),
    *(
        ("sessions", {"action": action, **given})
        for action, given in {
            "fork": {"name": "x"},
            "pause": {},
            "resume": {},
            "close": {},
            "child": {"name": "x"},
        }.items()
    ),
]


@pytest.mark.parametrize(("tool", "given"), EVERY_WAY_IN)
async def test_a_handle_of_another_project_gives_the_same_error_as_an_unknown_one(
    store, theirs, tool, given
):
    head = store.port.head(theirs)
    async with talking(store) as agent:
        told = {}
        for handle in (theirs, NOBODY):
            error = await agent.refused(tool, session=handle, **given)
            told[handle] = {k: str(v).replace(handle, "HANDLE") for k, v in error.items()}
    assert told[theirs] == told[NOBODY]
    assert told[theirs]["code"] == "E_NOT_FOUND"
    assert store.port.head(theirs) == head


@pytest.mark.parametrize("name", ["their-secret-plan", "suffix"])
async def test_a_session_of_another_project_is_not_found_by_name_or_id_suffix(store, theirs, name):
    async with talking(store) as agent:
        wanted = theirs[-8:] if name == "suffix" else name
        assert (await agent.refused("log", session=wanted))["code"] == "E_NOT_FOUND"


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("diff", {"start": "t1", "end": "{}:t2"}),
        ("diff", {"start": "{}:t1..{}:t2"}),
        ("diff", {"start": "{}:t1"}),
        ("sessions", {"action": "fork", "at": "{}:t1"}),
    ],
)
async def test_a_position_cannot_name_a_session_of_another_project(
    store, theirs, ours, tool, given
):
    async with talking(store) as agent:
        for handle in (theirs, "their-secret-plan", theirs[-8:], NOBODY):
            aimed = {name: text.replace("{}", handle) for name, text in given.items()}
            assert (await agent.refused(tool, session=ours, **aimed))["code"] == "E_NOT_FOUND"


async def test_a_call_of_another_session_cannot_be_settled(store, theirs, ours):
    call = store.port.entries(theirs, "calls")[0].key
    async with talking(store) as agent:
        error = await agent.refused("settle", session=ours, call=call, verdict="done")
    assert error["code"] == "E_NOT_FOUND"


async def test_a_session_of_another_project_is_never_listed(store, theirs, ours):
    async with talking(store) as agent:
        listed = (await agent.call("sessions"))["sessions"]
        resources = (await agent.client.list_resources()).resources
        newest = await agent.call("open")
    assert [row["name"] for row in listed] == ["ours"]
    assert not any(theirs in str(resource.uri) for resource in resources)
    assert newest["session"] == ours


async def test_resources_and_prompts_of_another_project_are_not_found(store, theirs):
    async with talking(store) as agent:
        said = []
        for handle in (theirs, NOBODY):
            with pytest.raises(MCPError) as caught:
                await agent.client.read_resource(f"session://{handle}/state")
            with pytest.raises(MCPError) as prompted:
                await agent.client.get_prompt("resume", {"session": handle})
            told = (caught.value.error, prompted.value.error)
            said.append([(e.code, e.message.replace(handle, "HANDLE")) for e in told])
    assert said[0] == said[1]


async def test_a_server_for_every_project_shows_sessions_of_all(store, theirs):
    async with talking(store, project=None) as agent:
        assert (await agent.call("open", session=theirs))["name"] == "their-secret-plan"
        assert (await agent.call("open", session="their-secret-plan"))["session"] == theirs


async def test_a_session_in_the_trash_is_not_found(store, theirs):
    async with talking(store) as agent:
        ours = (await agent.call("open", session="ours", purpose="x"))["session"]
    store.retention("trash=1d")
    later = dataclasses.replace(store.context, clock=lambda: START + 9 * 86_400_000_000)
    keeper = Store(store.port, later)
    assert keeper.collect(keeper.gc(), yes=True)
    async with talking(store) as agent:
        for handle in (ours, "ours", ours[-8:]):
            assert (await agent.refused("log", session=handle))["code"] == "E_NOT_FOUND"
        assert (await agent.call("sessions"))["sessions"] == []
        taken = await agent.refused("open", session="ours", purpose="again")
    assert (taken["code"], taken["hint"]) == ("E_CONFLICT", "choose another name")


async def test_an_unknown_handle_never_names_a_new_session(store, theirs):
    async with talking(store) as agent:
        for handle in (theirs, NOBODY):
            error = await agent.refused("open", session=handle, purpose="go on")
            assert error["code"] == "E_NOT_FOUND"
            assert "name" not in error["hint"]


async def test_a_handle_means_its_session_even_if_another_has_it_as_name(store, ours):
    async with talking(store) as agent:
        await agent.call("sessions", action="fork", session=ours, name=ours)
        assert (await agent.call("open", session=ours))["name"] == "ours"


async def test_a_child_belongs_to_the_project_of_its_parent(store, theirs):
    async with talking(store, project=None) as agent:
        child = await agent.call("sessions", action="child", session=theirs, name="help")
    assert store.port.session(child["session"]).record.project == "bank"


async def test_the_session_of_the_project_itself_is_not_listed(store, ours):
    store.hold("ours")
    async with talking(store) as agent:
        listed = (await agent.call("sessions"))["sessions"]
    assert [row["name"] for row in listed] == ["ours"]
