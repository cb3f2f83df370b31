"""Notifies subscribed clients when the head of a session changes, also when another process changed it.

The watcher of the store reports that a head has moved, and it looks only while a client is subscribed. A notification
says that something is new, not what: a client that misses one loses nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated

from stator.connect import catch_up
from stator.errors import StatorError
from stator.model.log.query import GONE
from stator.runtime.base.watch import watcher_of
from stator.runtime.facade.aio_view import news
from stator.surfaces.mcp import resources
from stator.surfaces.mcp.intake import advance_active
from stator.surfaces.mcp.scope import Scope

CHECK_S = 0.5
"""How often what hooks queued is looked for while a client is subscribed."""
TAKE_IN_S = 2.0
"""How often what agents wrote since is taken in, and how long to wait after the store failed."""
SEND_S = 5.0
"""How long a client that does not read may delay the others."""
WATCHED_MAX = 1024
"""Maximum number of resources watched at once; the oldest subscription is dropped first."""
CLIENTS_MAX = 256
"""Maximum number of connections notified of one resource: a connection that was lost silently is never removed."""

Ctx = ServerRequestContext[Any, Any]


@dataclass
class _WatchedResource:
    """A resource with subscribers."""

    session: str
    seq: int
    """The head at the last notification."""
    listeners: int = 0
    """Streams of the protocol revision without `initialize`."""
    clients: dict[str, ServerSession] = field(default_factory=dict)
    """Connections of the revisions with `initialize`, by transport id."""


class Notifier:
    """Holds the subscriptions and the head of each session at the last notification."""

    def __init__(
        self, scope: Scope, sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    ) -> None:
        self._scope = scope
        self._sleep = sleep
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self._watched: dict[str, _WatchedResource] = {}
        self._watch = watcher_of(scope.store.port).watch()

    @asynccontextmanager
    async def running(self, _: Any = None) -> AsyncIterator[None]:
        """Notify clients while the context is open."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._take_in)
            tasks.start_soon(self._notify)
            try:
                yield
            finally:
                self._streams.close()
                self._watch.close()
                tasks.cancel_scope.cancel()

    async def _take_in(self) -> None:
        """Take in what agents wrote, again and again: that moves heads."""
        seen: dict[str, tuple[int, int]] = {}
        for number in count(1):
            await self._sleep(CHECK_S)
            with suppress(StatorError):  # the store is busy: the next time will do
                if number % round(TAKE_IN_S / CHECK_S) == 0:
                    await anyio.to_thread.run_sync(advance_active, self._scope.store, seen)
                elif self._watched:
                    await anyio.to_thread.run_sync(catch_up, self._scope.store)

    async def _notify(self) -> None:
        while not self._watch.ended:
            try:
                await news(self._watch)
                await self.check_heads()
            except StatorError:  # the store is busy, or worse: what a client asks next says so
                self._watch.close()
                self._watch = watcher_of(self._scope.store.port).watch()
                for watched in self._watched.values():
                    self._watch.follow(watched.session, watched.seq)
                await self._sleep(TAKE_IN_S)

    async def check_heads(self) -> None:
        """Notify the subscribers of every session whose head has changed."""
        if not self._watched:
            return
        known = {watch.session: watch.seq for watch in self._watched.values()}
        moved = await anyio.to_thread.run_sync(self._scope.store.port.heads, known)
        for uri, watch in list(self._watched.items()):
            now = moved.get(watch.session, watch.seq)
            if now in (watch.seq, GONE):
                continue
            watch.seq = now
            if watch.listeners:
                await self._bus.publish(ResourceUpdated(uri=uri))
            for connection, client in list(watch.clients.items()):
                try:
                    with anyio.move_on_after(SEND_S):
                        await client.send_resource_updated(uri)
                except (
                    Exception
                ):  # that client has left, for any reason; the others must still be notified
                    watch.clients.pop(connection, None)
            self._forget(uri)

    # -- the revision without `initialize` --------------------------------------------------------

    async def listen(
        self, ctx: Ctx, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream; it gets no notifications of resources that are out of scope."""
        wanted = params.notifications.resource_subscriptions or []
        heard: list[tuple[str, _WatchedResource]] = []
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

    async def _add(self, uri: str) -> _WatchedResource:
        session, head = await anyio.to_thread.run_sync(self._find, uri)
        while uri not in self._watched and len(self._watched) >= WATCHED_MAX:
            self._remove(next(iter(self._watched)))
        self._watch.follow(session, head)
        return self._watched.setdefault(uri, _WatchedResource(session, head))

    def _find(self, uri: str) -> tuple[str, int]:
        row = self._scope.find(resources.parse(uri).session)
        return row.id, self._scope.store.port.head(row.id).seq

    def _forget(self, uri: str) -> None:
        watch = self._watched.get(uri)
        if watch is not None and watch.listeners <= 0 and not watch.clients:
            self._remove(uri)

    def _remove(self, uri: str) -> None:
        session = self._watched.pop(uri).session
        if all(watch.session != session for watch in self._watched.values()):
            self._watch.leave(session)


def _connection(ctx: Ctx) -> str:
    """Return the id of a connection; over stdio the server has only one."""
    headers = getattr(ctx.request, "headers", None)
    return "" if headers is None else str(headers.get("mcp-session-id", ""))
