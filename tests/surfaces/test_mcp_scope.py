"""Having a handle is not enough: what a server for one project answers about sessions of another."""

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
async def test_a_handle_of_another_project_is_answered_like_one_of_nobody(
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
async def test_neither_its_name_nor_the_end_of_its_id_is_known(store, theirs, name):
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
async def test_a_position_does_not_lead_out_of_the_project(store, theirs, ours, tool, given):
    async with talking(store) as agent:
        for handle in (theirs, "their-secret-plan", theirs[-8:], NOBODY):
            aimed = {name: text.replace("{}", handle) for name, text in given.items()}
            assert (await agent.refused(tool, session=ours, **aimed))["code"] == "E_NOT_FOUND"


async def test_a_call_of_another_session_is_not_settled_through_ones_own(store, theirs, ours):
    call = store.port.entries(theirs, "calls")[0].key
    async with talking(store) as agent:
        error = await agent.refused("settle", session=ours, call=call, verdict="done")
    assert error["code"] == "E_NOT_FOUND"


async def test_it_is_in_no_list(store, theirs, ours):
    async with talking(store) as agent:
        listed = (await agent.call("sessions"))["sessions"]
        resources = (await agent.client.list_resources()).resources
        newest = await agent.call("open")
    assert [row["name"] for row in listed] == ["ours"]
    assert not any(theirs in str(resource.uri) for resource in resources)
    assert newest["session"] == ours


async def test_its_resources_and_prompts_are_answered_like_those_of_nobody(store, theirs):
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


async def test_a_server_for_every_project_sees_it(store, theirs):
    async with talking(store, project=None) as agent:
        assert (await agent.call("open", session=theirs))["name"] == "their-secret-plan"
        assert (await agent.call("open", session="their-secret-plan"))["session"] == theirs


async def test_a_session_in_the_trash_is_answered_like_one_of_nobody(store, theirs):
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


async def test_an_unknown_handle_is_not_taken_for_the_name_of_a_new_session(store, theirs):
    async with talking(store) as agent:
        for handle in (theirs, NOBODY):
            error = await agent.refused("open", session=handle, purpose="go on")
            assert error["code"] == "E_NOT_FOUND"
            assert "name" not in error["hint"]


async def test_a_handle_means_its_session_also_where_another_is_named_like_it(store, ours):
    async with talking(store) as agent:
        await agent.call("sessions", action="fork", session=ours, name=ours)
        assert (await agent.call("open", session=ours))["name"] == "ours"


async def test_a_child_is_of_its_parents_project(store, theirs):
    async with talking(store, project=None) as agent:
        child = await agent.call("sessions", action="child", session=theirs, name="help")
    assert store.port.session(child["session"]).record.project == "bank"


async def test_a_projects_own_session_is_not_one_to_open(store, ours):
    store.hold("ours")
    async with talking(store) as agent:
        listed = (await agent.call("sessions"))["sessions"]
    assert [row["name"] for row in listed] == ["ours"]
