"""Notices: clients that asked for it are told when a session's head moves, whoever moved it.

Another process may have: heads are looked at now and then, and only while somebody wants to know. A
notice says that something is new, not what; nothing is lost by missing one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated

from stator.connect import catch_up
from stator.errors import StatorError
from stator.surfaces.mcp import resources
from stator.surfaces.mcp.scope import Scope

LOOK_S = 0.5
"""How often heads are looked at while somebody listens."""
SEND_S = 5.0
"""How long a client that does not read may hold the others up."""
WATCHED_MAX = 1024
"""Resources that are watched at once; those asked for first are forgotten first."""
CLIENTS_MAX = 256
"""Connections that are told of one resource: of one that went without a word nobody hears."""

Ctx = ServerRequestContext[Any, Any]


@dataclass
class _Watch:
    """A resource somebody wants to hear of."""

    session: str
    hash: str
    listeners: int = 0
    """Streams of the revision without `initialize`."""
    clients: dict[str, ServerSession] = field(default_factory=dict)
    """Connections of the one with it, by the id of their transport."""


class Notices:
    """Who listens to what, and where each head was when they were last told."""

    def __init__(
        self, scope: Scope, sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    ) -> None:
        self._scope = scope
        self._sleep = sleep
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self._watched: dict[str, _Watch] = {}

    @asynccontextmanager
    async def watching(self, _: Any = None) -> AsyncIterator[None]:
        """Looks at heads for as long as this lasts."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch)
            try:
                yield
            finally:
                self._streams.close()
                tasks.cancel_scope.cancel()

    async def _watch(self) -> None:
        while True:
            await self._sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Tell whoever listens to a session whose head has moved."""
        if not self._watched:
            return
        sessions = {watch.session for watch in self._watched.values()}
        heads = await anyio.to_thread.run_sync(self._heads, sessions)
        for uri, watch in list(self._watched.items()):
            now = heads.get(watch.session, watch.hash)
            if now == watch.hash:
                continue
            watch.hash = now
            if watch.listeners:
                await self._bus.publish(ResourceUpdated(uri=uri))
            for connection, client in list(watch.clients.items()):
                try:
                    with anyio.move_on_after(SEND_S):
                        await client.send_resource_updated(uri)
                except Exception:  # whatever it is, that client is gone, and the others are not
                    watch.clients.pop(connection, None)
            self._forget(uri)

    def _heads(self, sessions: set[str]) -> dict[str, str]:
        found = {}
        catch_up(self._scope.store)
        for session in sessions:
            try:
                found[session] = self._scope.store.port.head(session).hash
            except StatorError:  # purged, or the store is busy: the next look will tell
                continue
        return found

    # -- the revision without `initialize` --------------------------------------------------------

    async def listen(
        self, ctx: Ctx, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """One stream; of a resource that is not to be seen from here it never hears."""
        wanted = params.notifications.resource_subscriptions or []
        heard: list[tuple[str, _Watch]] = []
        for uri in wanted[:WATCHED_MAX]:
            try:
                watch = await self._add(uri)
            except StatorError:
                continue
            watch.listeners += 1
            heard.append((uri, watch))
        try:
            return await self._streams(ctx, params)
        finally:
            for uri, watch in heard:
                watch.listeners -= 1
                self._forget(uri)

    # -- the one with it --------------------------------------------------------------------------

    async def subscribe(self, ctx: Ctx, params: types.SubscribeRequestParams) -> types.EmptyResult:
        watch = await self._add(str(params.uri))
        while len(watch.clients) >= CLIENTS_MAX:
            del watch.clients[next(iter(watch.clients))]
        watch.clients[_connection(ctx)] = ctx.session
        return types.EmptyResult()

    async def unsubscribe(
        self, ctx: Ctx, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        uri = str(params.uri)
        if uri in self._watched:
            self._watched[uri].clients.pop(_connection(ctx), None)
            self._forget(uri)
        return types.EmptyResult()

    async def _add(self, uri: str) -> _Watch:
        session, head = await anyio.to_thread.run_sync(self._find, uri)
        while uri not in self._watched and len(self._watched) >= WATCHED_MAX:
            del self._watched[next(iter(self._watched))]
        return self._watched.setdefault(uri, _Watch(session, head))

    def _find(self, uri: str) -> tuple[str, str]:
        row = self._scope.find(resources.parse(uri).session)
        return row.id, self._scope.store.port.head(row.id).hash

    def _forget(self, uri: str) -> None:
        watch = self._watched.get(uri)
        if watch is not None and watch.listeners <= 0 and not watch.clients:
            del self._watched[uri]


def _connection(ctx: Ctx) -> str:
    """What tells the connections of a server apart: over stdio there is only one."""
    headers = getattr(ctx.request, "headers", None)
    return "" if headers is None else str(headers.get("mcp-session-id", ""))
