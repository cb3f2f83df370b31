"""`SessionView` and `StoreTail`, awaited: reading a session and following a store from an event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Self

from stator.model.log.commit import Commit
from stator.model.log.query import Counts, Head, SessionRow
from stator.model.records.types import SessionRecord
from stator.runtime.base.watch import Watch
from stator.runtime.facade.aio_pool import Pool
from stator.runtime.facade.awaited import awaited
from stator.runtime.facade.view import SessionView
from stator.runtime.tails.store_tail import StoreTailing


async def news(watch: Watch, seconds: float | None = None) -> bool:
    """Wait for news, at most that long, as `Watch.wait` does. However many wait, they need no threads."""
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(woken.set)

    watch.on_news(wake)
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(woken.wait(), seconds)
    finally:
        watch.on_news(None)
    return watch.wait(0)


class AsyncStoreTail(AsyncIterator[Commit]):
    """`StoreTail`, awaited."""

    def __init__(self, tailing: StoreTailing, pool: Pool) -> None:
        self._tailing = tailing
        self._pool = pool
        self._page: Iterator[Commit] = iter(())

    @property
    def cursor(self) -> str:
        """Where to continue: after every commit that this has given out, the last one included. Known once the
        first one was waited for; before that, the store is asked."""
        return self._tailing.cursor

    async def __anext__(self) -> Commit:
        tailing = self._tailing
        while True:
            for commit in self._page:
                tailing.delivered(commit)
                return commit
            if tailing.ended or self._pool.closed:  # closed while a page was given out
                await self.aclose()
                raise StopAsyncIteration
            self._page = iter(await self._pool.run(tailing.look))
            if tailing.waits and not tailing.ended:
                await news(tailing.watch, tailing.wait_s)
                tailing.see_closed()

    async def aclose(self) -> None:
        """Stop following. The cursor can still be asked for."""
        self._tailing.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class AsyncView:
    """`SessionView`, awaited."""

    def __init__(self, view: SessionView, pool: Pool) -> None:
        self._sync = view
        self._pool = pool

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        return None

    @property
    def id(self) -> str:
        return self._sync.id

    async def row(self) -> SessionRow:
        return await self._pool.run(lambda: self._sync.row)

    async def record(self) -> SessionRecord:
        return await self._pool.run(lambda: self._sync.record)

    async def name(self) -> str:
        return await self._pool.run(lambda: self._sync.name)

    async def head(self) -> Head:
        return await self._pool.run(lambda: self._sync.head)

    async def status(self) -> str:
        return await self._pool.run(lambda: self._sync.status)

    async def counts(self) -> Counts:
        return await self._pool.run(lambda: self._sync.counts)

    async def app(self) -> Any:
        return await self._pool.run(lambda: self._sync.app)

    async def log(
        self,
        span: str | None = None,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        load: bool = True,
    ) -> AsyncIterator[Commit]:
        commits = self._sync.log(span, newest_first=newest_first, limit=limit, load=load)
        while (commit := await self._pool.run(next, commits, None)) is not None:
            yield commit

    async def tail(
        self,
        after: int | None = None,
        *,
        follow: bool = True,
        until: Callable[[], bool] | None = None,
        load: bool = True,
    ) -> AsyncIterator[Commit]:
        tailing = self._sync._tailing(after, follow=follow, until=until, load=load)
        try:
            while not tailing.ended:
                for commit in await self._pool.run(tailing.look):
                    yield commit
                if tailing.wait_s and not tailing.ended:
                    tailing.woken(await news(tailing.watch, tailing.longest_s))
        finally:
            tailing.close()

    commit = awaited(SessionView.commit)
    turns = awaited(SessionView.turns)
    unplaced = awaited(SessionView.unplaced)
    at = awaited(SessionView.at)
    state = awaited(SessionView.state)
    hot = awaited(SessionView.hot)
    entries = awaited(SessionView.entries)
    facts = awaited(SessionView.facts)
    diff = awaited(SessionView.diff)
    evicted = awaited(SessionView.evicted)
    recall = awaited(SessionView.recall)
    patch = awaited(SessionView.patch)
    contents = awaited(SessionView.contents)
    files = awaited(SessionView.files)
    decisions = awaited(SessionView.decisions)
    calls = awaited(SessionView.calls)
    compare = awaited(SessionView.compare)
    tree = awaited(SessionView.tree)
    last_words = awaited(SessionView.last_words)
    summary = awaited(SessionView.summary)
    reflog = awaited(SessionView.reflog)
    rewound = awaited(SessionView.rewound)
    beginning = awaited(SessionView.beginning)
    why = awaited(SessionView.why)
    brief = awaited(SessionView.brief)
    artifacts = awaited(SessionView.artifacts)
    artifact_versions = awaited(SessionView.artifact_versions)
    read_artifact = awaited(SessionView.read_artifact)
    artifact_diff = awaited(SessionView.artifact_diff)
