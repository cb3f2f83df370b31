"""The server: tools, resources and prompts as the SDK wants them, in both revisions of the protocol."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from stator import __version__
from stator.connect import catch_up
from stator.errors import NotFound, StatorError
from stator.surfaces.mcp import prompts, resources
from stator.surfaces.mcp.notifications import Notices
from stator.surfaces.mcp.request_context import Desk, client_name
from stator.surfaces.mcp.scope import Scope
from stator.surfaces.mcp.tools import registry
from stator.surfaces.mcp.tools.answers import failure, texts
from stator.surfaces.mcp.tools.arguments import cursor, more
from stator.surfaces.mcp.tools.definitions import (
    BY_NAME,
    DEFINITIONS,
    INSTRUCTIONS,
    Definition,
)

T = TypeVar("T")
Ctx = ServerRequestContext[Any, Any]
NO_RESOURCE = -32002
"""What the revisions with `initialize` call a resource that is not there; later ones retired it."""


def build(scope: Scope, sleep: Callable[[float], Awaitable[None]] = anyio.sleep) -> Server[Any]:
    """A server for the sessions of a scope."""
    notices = Notices(scope, sleep)
    answering = Answering(scope, notices)

    def lifespan(_: Server[Any]) -> AbstractAsyncContextManager[None]:
        return notices.watching()

    return Server(
        "stator",
        version=__version__,
        title="Stator",
        description="Session state for AI agents",
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        get_tool_input_schema=lambda name: BY_NAME[name].takes if name in BY_NAME else None,
        on_list_tools=answering.list_tools,
        on_call_tool=answering.call_tool,
        on_list_resources=answering.list_resources,
        on_list_resource_templates=answering.list_templates,
        on_read_resource=answering.read_resource,
        on_subscribe_resource=answering.subscribe,
        on_unsubscribe_resource=notices.unsubscribe,
        on_subscriptions_listen=notices.listen,
        on_list_prompts=answering.list_prompts,
        on_get_prompt=answering.get_prompt,
    )


class Answering:
    """The handlers. The store is synchronous: each of its operations runs in a thread, and one that
    has begun ends, also where its client has gone."""

    def __init__(self, scope: Scope, notices: Notices) -> None:
        self._scope = scope
        self._notices = notices

    def _desk(self, ctx: Ctx) -> Desk:
        params = ctx.session.client_params
        return Desk(self._scope, client_name(params.client_info.name if params else None))

    # -- tools ------------------------------------------------------------------------------------

    async def list_tools(
        self, ctx: Ctx, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(definition) for definition in DEFINITIONS])

    async def call_tool(
        self, ctx: Ctx, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if params.name not in BY_NAME:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name!r:.60}")
        work = partial(registry.call, self._desk(ctx), params.name, params.arguments or {})
        try:
            answer = await self._run(work)
        except Exception as error:
            return _failed(_known(error))
        if answer.moved:
            await self._notices.look()
        structured = answer.structured()
        content: list[types.ContentBlock] = [
            types.TextContent(type="text", text=text) for text in texts(structured, answer.line)
        ]
        return types.CallToolResult(content=content, structured_content=structured)

    # -- resources --------------------------------------------------------------------------------

    async def list_resources(
        self, ctx: Ctx, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        given = {"cursor": params.cursor if params else None}
        work = partial(_listed, self._desk(ctx), given)
        found, rest = await self._ask(ctx, work)
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=item["uri"],
                    name=item["name"],
                    description=item["description"],
                    mime_type=item["mime"],
                )
                for item in found
            ],
            next_cursor=more(rest),
        )

    async def list_templates(
        self, ctx: Ctx, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=kind.template,
                    name=kind.name,
                    description=kind.title,
                    mime_type=kind.mime,
                )
                for kind in resources.KINDS.values()
            ]
        )

    async def read_resource(
        self, ctx: Ctx, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        text, mime = await self._ask(ctx, partial(resources.read, self._desk(ctx), uri))
        found = types.TextResourceContents(uri=uri, mime_type=mime, text=text)
        return types.ReadResourceResult(contents=[found])

    async def subscribe(self, ctx: Ctx, params: types.SubscribeRequestParams) -> types.EmptyResult:
        try:
            return await self._notices.subscribe(ctx, params)
        except StatorError as error:
            raise _refused(ctx, error) from None

    # -- prompts ----------------------------------------------------------------------------------

    async def list_prompts(
        self, ctx: Ctx, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=prompt.name,
                    title=prompt.title,
                    description=prompt.description,
                    arguments=[
                        types.PromptArgument(name=name, description=text, required=False)
                        for name, text in prompt.arguments.items()
                    ],
                )
                for prompt in prompts.PROMPTS.values()
            ]
        )

    async def get_prompt(
        self, ctx: Ctx, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        prompt = prompts.PROMPTS.get(params.name)
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name!r:.60}")
        work = partial(prompts.get, self._desk(ctx), prompt.name, params.arguments or {})
        text = await self._ask(ctx, work)
        said = types.TextContent(type="text", text=text)
        return types.GetPromptResult(
            description=prompt.description,
            messages=[types.PromptMessage(role="user", content=said)],
        )

    async def _run(self, work: Callable[[], T]) -> T:
        """In a thread, on what is known by now: what hooks left since the server started is part of it."""

        def current() -> T:
            catch_up(self._scope.store)
            return work()

        return await anyio.to_thread.run_sync(current)

    async def _ask(self, ctx: Ctx, work: Callable[[], T]) -> T:
        try:
            return await self._run(work)
        except Exception as error:
            raise _refused(ctx, _known(error)) from None


def _listed(desk: Desk, given: dict[str, Any]) -> tuple[list[dict[str, Any]], Any]:
    return resources.listed(desk, cursor(given, 2))


def _tool(definition: Definition) -> types.Tool:
    return types.Tool(
        name=definition.name,
        title=definition.title,
        description=definition.description,
        input_schema=definition.takes,
        output_schema=definition.output_schema(),
        annotations=types.ToolAnnotations(
            title=definition.title,
            read_only_hint=definition.reads,
            destructive_hint=False,
            idempotent_hint=definition.repeats,
            open_world_hint=False,
        ),
    )


def _known(error: Exception) -> StatorError:
    """An error of ours; one that is not is our mistake, said without its words, which may hold anything."""
    if isinstance(error, StatorError):
        return error
    print(f"stator mcp: unexpected {type(error).__name__}", file=sys.stderr)
    return StatorError(f"unexpected {type(error).__name__}", hint="this is a mistake of Stator's")


def _failed(error: StatorError) -> types.CallToolResult:
    structured = failure(error)
    found = structured["error"]
    hint = f" ({found['hint']})" if "hint" in found else ""
    said = types.TextContent(type="text", text=f"{found['code']}: {found['what']}{hint}")
    return types.CallToolResult(content=[said], structured_content=structured, is_error=True)


def _refused(ctx: Ctx, error: StatorError) -> MCPError:
    """An error where the protocol has no result to put it in."""
    found = failure(error)["error"]
    retired = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    missing = isinstance(error, NotFound) and ctx.method.startswith("resources/") and not retired
    code = NO_RESOURCE if missing else types.INVALID_PARAMS
    return MCPError(code, found["what"], data=found)
