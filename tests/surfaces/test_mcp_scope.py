"""Tests that a server for one project shows no session of another, even to a client with its handle."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from mcp.shared.exceptions import MCPError

from stator.runtime.facade.store import Store
from surfaces.agents import Refused, talking
from surfaces.recorded import START, record

pytestmark = pytest.mark.anyio
NOBODY = "s_" + "0" * 32


@pytest.fixture
def store(opened):
    return opened


@pytest.fixture
def theirs(store):
    """A session of another project, in the same store."""
    other = msgspec.structs.replace(store.context, project="bank")
    return record(Store(store.port, other), "their-secret-plan")


@pytest.fixture
def ours(store, theirs):
    return record(store, "ours")


EVERY_WAY_IN = [
    ("stator_open", {}),
    ("stator_record", {"items": [{"kind": "dead_end", "what": "x"}]}),
    ("stator_log", {}),
    ("stator_log", {"what": "state"}),
    ("stator_diff", {}),
    ("stator_recall", {"key": "decision:auth"}),
    ("stator_settle", {}),
    ("stator_settle", {"call": "c_00000001", "verdict": "done"}),
    ("stator_search", {"words": "login"}),
    ("stator_why", {"thing": "auth.py"}),
    *(
        ("stator_open", {"action": action, **given})
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
        assert (await agent.refused("stator_log", session=wanted))["code"] == "E_NOT_FOUND"


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("stator_diff", {"start": "t1", "end": "{}:t2"}),
        ("stator_diff", {"start": "{}:t1..{}:t2"}),
        ("stator_diff", {"start": "{}:t1"}),
        ("stator_open", {"action": "fork", "at": "{}:t1", "name": "b"}),
    ],
)
async def test_a_position_cannot_name_a_session_of_another_project(
    store, theirs, ours, tool, given
):
    async with talking(store) as agent:
        for handle in (theirs, "their-secret-plan", theirs[-8:], NOBODY):
            aimed = {name: text.replace("{}", handle) for name, text in given.items()}
            assert (await agent.refused(tool, session=ours, **aimed))["code"] == "E_NOT_FOUND"


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("stator_recall", "key"),
        ("stator_log", "key"),
        ("stator_settle", "call"),
        ("stator_why", "thing"),
    ],
)
async def test_a_key_cannot_name_a_session_of_another_project(store, theirs, ours, tool, name):
    async with talking(store) as agent:
        told = set()
        for handle in (theirs, "their-secret-plan", f"s_{theirs[-8:]}", NOBODY):
            key = f"{handle}:call:c_00000001" if name == "call" else f"{handle}:@5"
            error = await agent.refused(tool, **{name: key})
            told.add((error["code"], error["what"].replace(handle, "HANDLE")))
    assert len(told) == 1
    assert told.pop()[0] == "E_NOT_FOUND"


async def test_why_shows_nothing_of_another_project(store, theirs):
    things = (
        "auth.py",
        "auth",
        "their-secret-plan:auth",
        f"{theirs[-8:]}:auth",
        f"s_{theirs[-8:]}:t",
    )
    async with talking(store) as agent:
        for thing in things:
            with contextlib.suppress(Refused):
                found = await agent.call("stator_why", thing=thing)
                assert (found["rows"], found["near"]) == ([], [])


async def test_what_looks_like_a_handle_means_that_session_whatever_others_are_named(store, ours):
    async with talking(store) as agent:
        begun = await agent.call("stator_open", session=f"s_{ours[-8:]}", purpose="pretend")
        assert begun["session"] == ours
        fork = {"action": "fork", "session": ours, "name": f"s_{ours[-8:]}"}
        await agent.call("stator_open", **fork)
        assert (await agent.call("stator_open", session=f"s_{ours[-8:]}"))["session"] == ours


async def test_a_call_of_another_session_cannot_be_settled(store, theirs, ours):
    call = store.port.entries(theirs, "calls")[0].key
    async with talking(store) as agent:
        error = await agent.refused("stator_settle", session=ours, call=call, verdict="done")
    assert error["code"] == "E_NOT_FOUND"


async def test_a_session_of_another_project_is_never_listed(store, theirs, ours):
    async with talking(store) as agent:
        listed = (await agent.call("stator_open", action="list"))["sessions"]
        resources = (await agent.client.list_resources()).resources
        candidates = (await agent.call("stator_open"))["sessions"]
    assert [row["name"] for row in listed] == ["ours"]
    assert not any(theirs in str(resource.uri) for resource in resources)
    assert [row["session"] for row in candidates] == [ours]


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
        assert (await agent.call("stator_open", session=theirs))["name"] == "their-secret-plan"
        assert (await agent.call("stator_open", session="their-secret-plan"))["session"] == theirs


async def test_a_session_in_the_trash_is_not_found(store, theirs):
    async with talking(store) as agent:
        ours = (await agent.call("stator_open", session="ours", purpose="x"))["session"]
    store.retention("trash=1d")
    later = msgspec.structs.replace(store.context, clock=lambda: START + 9 * 86_400_000_000)
    keeper = Store(store.port, later)
    assert keeper.collect(keeper.gc(), yes=True)
    async with talking(store) as agent:
        for handle in (ours, "ours", ours[-8:]):
            assert (await agent.refused("stator_log", session=handle))["code"] == "E_NOT_FOUND"
        assert (await agent.call("stator_open", action="list"))["sessions"] == []
        taken = await agent.refused("stator_open", session="ours", purpose="again")
    assert (taken["code"], taken["hint"]) == ("E_CONFLICT", "choose another name")


async def test_an_unknown_handle_never_names_a_new_session(store, theirs):
    async with talking(store) as agent:
        for handle in (theirs, NOBODY):
            error = await agent.refused("stator_open", session=handle, purpose="go on")
            assert error["code"] == "E_NOT_FOUND"
            assert "name" not in error["hint"]


async def test_a_handle_means_its_session_even_if_another_has_it_as_name(store, ours):
    async with talking(store) as agent:
        await agent.call("stator_open", action="fork", session=ours, name=ours)
        assert (await agent.call("stator_open", session=ours))["name"] == "ours"


async def test_a_child_belongs_to_the_project_of_its_parent(store, theirs):
    async with talking(store, project=None) as agent:
        child = await agent.call("stator_open", action="child", session=theirs, name="help")
    assert store.port.session(child["session"]).record.project == "bank"


async def test_the_session_of_the_project_itself_is_not_listed(store, ours):
    store.hold("ours")
    async with talking(store) as agent:
        listed = (await agent.call("stator_open", action="list"))["sessions"]
    assert [row["name"] for row in listed] == ["ours"]
