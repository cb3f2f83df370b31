"""Tests resources, notifications and prompts of the MCP server, in both revisions."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from stator.errors import Busy
from stator.runtime.base.watch import watcher_of
from stator.surfaces.mcp.notifications import Notifier
from stator.surfaces.mcp.scope import Scope
from surfaces.agents import ERAS, LEGACY, MODERN, next_uri, talking
from surfaces.recorded import record

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


@pytest.fixture
def store(opened):
    return opened


@pytest.fixture
def fixed(store):
    return record(store)


async def soon(_: float) -> None:
    """Sleep hardly any time."""
    await anyio.sleep(0.005)


@pytest.mark.parametrize("era", ERAS)
async def test_a_session_is_read_as_state_brief_log_and_head(store, fixed, era):
    async with talking(store, era) as agent:
        head = await agent.read(f"session://{fixed}/head")
        state = await agent.read(f"session://{fixed}/state")
        log = await agent.read(f"session://{fixed}/log")
        brief = await agent.read(f"session://{fixed}/brief")
        rest = await agent.read(f"session://{fixed}/log?after={head['seq'] - 2}")
    assert (head["schema"], head["seq"]) == ("stator.session_head/1", store.read(fixed).head.seq)
    assert state["head"]["hash"] == head["hash"]
    assert [row["what"] for row in state["state"]["decisions"]] == [
        "auth: use signed cookies — works without a store"
    ]
    assert [row["seq"] for row in log["commits"]] == list(range(1, head["seq"] + 1))
    assert [row["seq"] for row in rest["commits"]] == [head["seq"] - 1, head["seq"]]
    assert "Calls in doubt" in brief
    assert "data" in state["note"]


async def test_a_long_log_is_read_page_by_page_by_its_seq(store):
    async with talking(store) as agent:
        handle = await agent.begin()
        for _ in range(3):
            items = [{"kind": "dead_end", "what": str(n)} for n in range(50)]
            await agent.call("stator_record", session=handle, items=items)
        seqs: list[int] = []
        after: int | None = 0
        while after is not None:
            page = await agent.read(f"session://{handle}/log?after={after}")
            seqs += [row["seq"] for row in page["commits"]]
            after = page["after"]
    assert seqs == list(range(1, 153))


@pytest.mark.parametrize("era", ERAS)
async def test_templates_and_the_resources_of_sessions_are_listed(store, fixed, era):
    async with talking(store, era) as agent:
        templates = (await agent.client.list_resource_templates()).resource_templates
        listed = (await agent.client.list_resources()).resources
    assert [template.uri_template for template in templates] == [
        "session://{id}/state",
        "session://{id}/brief",
        "session://{id}/log{?after}",
        "session://{id}/head",
    ]
    assert [str(resource.uri) for resource in listed] == [
        f"session://{fixed}/{kind}" for kind in ("state", "brief", "log", "head")
    ]


@pytest.mark.parametrize(("era", "code"), [(MODERN, types.INVALID_PARAMS), (LEGACY, -32002)])
@pytest.mark.parametrize(
    "uri",
    [
        "session://s_" + "0" * 32 + "/head",
        "session://last/secrets",
        "session:///head",
        "file:///etc/passwd",
        "session://%2e%2e%2f/head",
        "session://" + "x" * 10_000 + "/head",
        "javascript:alert(1)",
        "session://[x/head",
    ],
)
async def test_a_missing_resource_gives_the_error_code_of_the_revision(store, uri, era, code):
    async with talking(store, era) as agent:
        with pytest.raises(MCPError) as caught:
            await agent.client.read_resource(uri)
    assert caught.value.error.code == code


async def test_the_after_parameter_of_a_log_must_be_a_seq(store, fixed):
    async with talking(store) as agent:
        with pytest.raises(MCPError) as caught:
            await agent.client.read_resource(f"session://{fixed}/log?after=-1")
    assert caught.value.error.code == types.INVALID_PARAMS


# -- notices --------------------------------------------------------------------------------------


async def test_a_listener_is_notified_when_another_program_appends(store, fixed):
    async with talking(store, sleep=soon) as agent:
        uri = f"session://{fixed}/head"
        async with agent.client.listen(resource_subscriptions=[uri]) as heard:
            for note in ("one", "two"):
                await anyio.to_thread.run_sync(store.contribute("fix-login").flag, note)
                assert await next_uri(heard) == uri
    assert store.read(fixed).state()["flags"]


async def test_a_subscriber_of_the_revision_with_initialize_is_notified_too(store, fixed):
    heard, send = [], anyio.Event()

    async def hear(message):
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.append(str(message.params.uri))
            send.set()

    async with talking(store, LEGACY, sleep=soon, message_handler=hear) as agent:
        uri = f"session://{fixed}/brief"
        await agent.client.subscribe_resource(uri)
        await anyio.to_thread.run_sync(store.contribute("fix-login").flag, "look")
        await send.wait()
        await agent.client.unsubscribe_resource(uri)
        await anyio.to_thread.run_sync(store.contribute("fix-login").flag, "again")
        await agent.call("stator_open", session=fixed)
    assert heard == [uri]


async def test_a_busy_store_does_not_end_the_server(store, fixed, monkeypatch):
    looks = 0

    def busy(known, **options):
        nonlocal looks
        looks += 1
        raise Busy("the store is locked")

    async with talking(store, LEGACY, sleep=soon) as agent:
        await agent.client.subscribe_resource(f"session://{fixed}/head")
        monkeypatch.setattr(store.port, "heads", busy)
        while looks < 3:
            await anyio.sleep(0.005)
        monkeypatch.undo()
        assert (await agent.call("stator_open", session=fixed))["session"] == fixed


async def test_a_client_that_left_is_removed_and_the_others_are_notified(store, fixed):
    class Gone:
        async def send_resource_updated(self, uri):
            raise anyio.ClosedResourceError

    class Heard:
        told: ClassVar[list[str]] = []

        async def send_resource_updated(self, uri):
            self.told.append(uri)

    notices = Notifier(Scope(store, "shop"))
    uri = f"session://{fixed}/head"
    for name, client in (("1", Gone()), ("2", Heard())):
        request = SimpleNamespace(headers={"mcp-session-id": name})
        ctx: Any = SimpleNamespace(request=request, session=client)
        await notices.subscribe(ctx, types.SubscribeRequestParams(uri=uri))
    for flag in ("look", "again"):
        await anyio.to_thread.run_sync(store.contribute("fix-login").flag, flag)
        await notices.check_heads()
    assert Heard.told == [uri, uri]


async def test_a_client_is_notified_at_once_of_what_it_recorded(store):
    async def never(_: float) -> None:
        await anyio.sleep_forever()

    async with talking(store, sleep=never) as agent:
        handle = await agent.begin()
        uri = f"session://{handle}/state"
        async with agent.client.listen(resource_subscriptions=[uri]) as heard:
            items = [{"kind": "dead_end", "what": "x"}]
            await agent.call("stator_record", session=handle, items=items)
            assert await next_uri(heard) == uri


async def test_the_store_is_watched_only_while_a_client_is_subscribed(store, fixed):
    watcher = watcher_of(store.port)
    async with talking(store) as agent:
        assert not watcher.is_running()
        async with agent.client.listen(resource_subscriptions=[f"session://{fixed}/head"]):
            assert watcher.is_running()
        while watcher.is_running():
            await anyio.sleep(0.001)


async def test_a_client_is_notified_of_what_another_process_wrote(store, fixed):
    async def never(_: float) -> None:
        await anyio.sleep_forever()

    uri = f"session://{fixed}/head"
    async with (
        talking(store, sleep=never) as agent,
        agent.client.listen(resource_subscriptions=[uri]) as heard,
    ):
        flag = f"import stator; stator.connect({store.port.path!r}).contribute('fix-login').flag('look')"
        await anyio.run_process([sys.executable, "-c", flag], cwd=Path(store.port.path).parent)
        assert await next_uri(heard) == uri


async def test_a_subscription_to_a_session_out_of_scope_is_refused_or_silent(store):
    nobody = "session://s_" + "0" * 32 + "/head"
    async with talking(store, LEGACY) as agent:
        with pytest.raises(MCPError):
            await agent.client.subscribe_resource(nobody)
    async with talking(store) as agent, agent.client.listen(resource_subscriptions=[nobody]):
        assert await agent.begin()


# -- prompts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_prompts_resume_a_session_and_hand_it_over(store, fixed, era):
    async with talking(store, era) as agent:
        listed = (await agent.client.list_prompts()).prompts
        assert [prompt.name for prompt in listed] == ["resume", "handoff"]
        resumed = await agent.client.get_prompt("resume")
        given = {"session": "fix-login", "max_tokens": "900", "target": "codex"}
        handed = await agent.client.get_prompt("handoff", given)
    for found in (resumed, handed):
        (said,) = found.messages
        assert said.role == "user"
        assert fixed in said.content.text
        assert "never instructions" in said.content.text


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("approve", {}),
        ("resume", {"session": "nobody"}),
        ("resume", {"max_tokens": "7"}),
        ("resume", {"max_tokens": "many"}),
        ("resume", {"other": "x"}),
        ("handoff", {"target": "everyone"}),
    ],
)
async def test_a_prompt_with_wrong_arguments_is_refused(store, fixed, name, given):
    async with talking(store) as agent:
        with pytest.raises(MCPError) as caught:
            await agent.client.get_prompt(name, given)
    assert caught.value.error.code == types.INVALID_PARAMS


async def test_resume_fails_in_a_project_without_sessions(store):
    async with talking(store) as agent:
        with pytest.raises(MCPError):
            await agent.client.get_prompt("resume")
