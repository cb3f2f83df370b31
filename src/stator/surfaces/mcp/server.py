"""Connects tools, resources and prompts to the MCP SDK, for all protocol revisions it serves."""

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
from stator.model.exchange.items import CLAUDE_CALL
from stator.surfaces.mcp import prompts, resources
from stator.surfaces.mcp.notifications import Notifier
from stator.surfaces.mcp.request_context import RequestContext, client_name
from stator.surfaces.mcp.scope import Scope
from stator.surfaces.mcp.tools import registry
from stator.surfaces.mcp.tools.answers import failure, text_blocks
from stator.surfaces.mcp.tools.arguments import cursor_text, read_cursor
from stator.surfaces.mcp.tools.definitions import (
    BY_NAME,
    DEFINITIONS,
    INSTRUCTIONS,
    RENAMED,
    Definition,
)

T = TypeVar("T")
Ctx = ServerRequestContext[Any, Any]
NO_RESOURCE = -32002
"""Error code of a missing resource in the revisions with `initialize`; later ones retired it."""


def build(scope: Scope, sleep: Callable[[float], Awaitable[None]] = anyio.sleep) -> Server[Any]:
    """Build a server for the sessions of a scope."""
    notifier = Notifier(scope, sleep)
    handlers = Handlers(scope, notifier)

    def lifespan(_: Server[Any]) -> AbstractAsyncContextManager[None]:
        return notifier.running()

    return Server(
        "stator",
        version=__version__,
        title="Stator",
        description="Session state for AI agents",
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        get_tool_input_schema=lambda name: BY_NAME[name].input_schema if name in BY_NAME else None,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_subscribe_resource=handlers.subscribe,
        on_unsubscribe_resource=notifier.unsubscribe,
        on_subscriptions_listen=notifier.listen,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )


class Handlers:
    """Handles the requests of the SDK. The store is synchronous, so each operation runs in a thread; one that
    has begun completes even if its client has left."""

    def __init__(self, scope: Scope, notifier: Notifier) -> None:
        self._scope = scope
        self._notifier = notifier

    def _request(self, ctx: Ctx, use: object = "") -> RequestContext:
        params = ctx.session.client_params
        name = client_name(params.client_info.name if params else None)
        return RequestContext(self._scope, name, use if isinstance(use, str) else "")

    # -- tools ------------------------------------------------------------------------------------

    async def list_tools(
        self, ctx: Ctx, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(definition) for definition in DEFINITIONS])

    async def call_tool(
        self, ctx: Ctx, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if params.name not in BY_NAME and params.name not in RENAMED:
            known = ", ".join(BY_NAME)
            raise MCPError(
                types.INVALID_PARAMS, f"Unknown tool: {params.name!r:.60}; tools: {known}"
            )
        use = dict(params.meta or {}).get(CLAUDE_CALL)
        request = self._request(ctx, use)
        work = partial(registry.call, request, params.name, params.arguments or {})
        try:
            answer = await self._run(work)
        except Exception as error:
            return _error_result(_as_stator_error(error))
        if answer.appended:
            await self._notifier.check_heads()
        structured = answer.structured()
        content: list[types.ContentBlock] = [
            types.TextContent(type="text", text=text)
            for text in text_blocks(structured, answer.line)
        ]
        return types.CallToolResult(content=content, structured_content=structured)

    # -- resources --------------------------------------------------------------------------------

    async def list_resources(
        self, ctx: Ctx, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        given = {"cursor": params.cursor if params else None}
        work = partial(_listed, self._request(ctx), given)
        found, rest = await self._run_or_refuse(ctx, work)
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
            next_cursor=cursor_text(rest),
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
        text, mime = await self._run_or_refuse(
            ctx, partial(resources.read, self._request(ctx), uri)
        )
        found = types.TextResourceContents(uri=uri, mime_type=mime, text=text)
        return types.ReadResourceResult(contents=[found])

    async def subscribe(self, ctx: Ctx, params: types.SubscribeRequestParams) -> types.EmptyResult:
        try:
            return await self._notifier.subscribe(ctx, params)
        except StatorError as error:
            raise _protocol_error(ctx, error) from None

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
        work = partial(prompts.get, self._request(ctx), prompt.name, params.arguments or {})
        text = await self._run_or_refuse(ctx, work)
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(
            description=prompt.description,
            messages=[types.PromptMessage(role="user", content=content)],
        )

    async def _run(self, work: Callable[[], T]) -> T:
        """Run an operation in a thread, after importing what hooks have queued."""

        def current() -> T:
            catch_up(self._scope.store)
            return work()

        return await anyio.to_thread.run_sync(current)

    async def _run_or_refuse(self, ctx: Ctx, work: Callable[[], T]) -> T:
        try:
            return await self._run(work)
        except Exception as error:
            raise _protocol_error(ctx, _as_stator_error(error)) from None


def _listed(request: RequestContext, given: dict[str, Any]) -> tuple[list[dict[str, Any]], Any]:
    return resources.listed(request, read_cursor(given, 2))


def _tool(definition: Definition) -> types.Tool:
    return types.Tool(
        name=definition.name,
        title=definition.title,
        description=definition.description,
        input_schema=definition.input_schema,
        output_schema=definition.output_schema(),
        annotations=types.ToolAnnotations(
            title=definition.title,
            read_only_hint=definition.read_only,
            destructive_hint=False,
            idempotent_hint=definition.idempotent,
            open_world_hint=False,
        ),
    )


def _as_stator_error(error: Exception) -> StatorError:
    """Return a `StatorError`. Any other error is a bug of ours; its text is dropped, since it may contain anything."""
    if isinstance(error, StatorError):
        return error
    print(f"stator mcp: unexpected {type(error).__name__}", file=sys.stderr)
    return StatorError(f"unexpected {type(error).__name__}", hint="this is a bug in Stator")


def _error_result(error: StatorError) -> types.CallToolResult:
    structured = failure(error)
    found = structured["error"]
    hint = f" ({found['hint']})" if "hint" in found else ""
    content = types.TextContent(type="text", text=f"{found['code']}: {found['what']}{hint}")
    return types.CallToolResult(content=[content], structured_content=structured, is_error=True)


def _protocol_error(ctx: Ctx, error: StatorError) -> MCPError:
    """Build a protocol error, for requests whose results cannot carry one."""
    found = failure(error)["error"]
    retired = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    missing = isinstance(error, NotFound) and ctx.method.startswith("resources/") and not retired
    code = NO_RESOURCE if missing else types.INVALID_PARAMS
    return MCPError(code, found["what"], data=found)
