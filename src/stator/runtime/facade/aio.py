"""The asynchronous façade: the same names, one line a method, over a bounded pool of threads.

One operation is one thread hop. Appends that arrive together share a transaction in the store. A
cancelled caller waits for the outcome of a write it began: it is either in the log or it is not,
and the caller knows which.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar, cast

from stator.errors import ApprovalNeeded, StatorError
from stator.model.calls.life import Outcome
from stator.runtime.base.context import warn_on_loop
from stator.runtime.branches.retry import RetryEffects
from stator.runtime.driving.call import Calling
from stator.runtime.driving.loop import (
    Dispatch,
    DoubtMode,
    Effects,
    ModelCalling,
    Sources,
    offer,
    requested,
    results_of,
    unwrapped,
    with_sources,
)
from stator.runtime.driving.open_turn import OpenTurn
from stator.runtime.driving.recovery import Recovery
from stator.runtime.driving.settlement import OpenDoubt
from stator.runtime.driving.state_writer import StateWriter
from stator.runtime.driving.tools import Tool, current_turn
from stator.runtime.facade.aio_calls import AsyncStream, drive
from stator.runtime.facade.aio_outside import AsyncOutsideDoors
from stator.runtime.facade.aio_pool import Pool
from stator.runtime.facade.aio_retention import AsyncKeeper
from stator.runtime.facade.aio_runs import AsyncRunner
from stator.runtime.facade.aio_view import AsyncStoreTail, AsyncView
from stator.runtime.facade.annotations import Marker
from stator.runtime.facade.awaited import awaited, awaited_as, awaited_between, opened_as
from stator.runtime.facade.contributor import Contributor
from stator.runtime.facade.session import Session, Turn
from stator.runtime.facade.store import Store
from stator.runtime.facade.view import SessionView

T = TypeVar("T")
A = TypeVar("A")


class AsyncRecorder:
    """The typed commits that turns, sessions and contributors share, awaited."""

    _sync: StateWriter
    _pool: Pool

    decide = awaited(StateWriter.decide)
    file = awaited(StateWriter.file)
    fact = awaited(StateWriter.fact)
    prefer = awaited(StateWriter.prefer)
    dead_end = awaited(StateWriter.dead_end)
    plan = awaited(StateWriter.plan)
    artifact = awaited(StateWriter.artifact)


class AsyncMarker(AsyncRecorder):
    """`Marker`, awaited."""

    _sync: Marker

    tag = awaited(Marker.tag)
    score = awaited(Marker.score)
    flag = awaited(Marker.flag)
    restore = awaited(Marker.restore)
    erase = awaited(Marker.erase)


class AsyncTurn(AsyncRecorder):
    """`Turn`, awaited; its tools may be plain functions or coroutine functions."""

    def __init__(self, turn: Turn, pool: Pool) -> None:
        self._sync: Turn = turn
        self._open = turn._open
        self._pool = pool
        self.id, self.number = turn.id, turn.number
        self.continued, self.reused, self.attempt = turn.continued, turn.reused, turn.attempt
        self._token: contextvars.Token[Any] | None = None

    async def session(self) -> AsyncSession[Any]:
        return AsyncSession(self._sync.session, self._pool)

    async def value(self) -> Any:
        return await self._pool.run(lambda: self._sync.value)

    @property
    def ended(self) -> bool:
        return self._sync.ended

    @contextlib.asynccontextmanager
    async def batch(self) -> AsyncIterator[None]:
        batch = self._sync.batch()
        batch.__enter__()
        try:
            yield
        except BaseException as error:
            batch.__exit__(type(error), error, error.__traceback__)
            raise
        await self._pool.run(batch.__exit__, None, None, None)

    configure = awaited(Turn.configure)
    say = awaited(Turn.say)
    pend = awaited(Turn.pend)
    use = awaited(Turn.use)
    note = awaited(Turn.note)
    set = awaited(Turn.set)

    async def call(
        self, function: Callable[..., Any] | Tool[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        return (await self.try_call(function, *args, **kwargs)).result()

    async def try_call(
        self, function: Callable[..., Any] | Tool[..., Any], /, *args: Any, **kwargs: Any
    ) -> Outcome:
        return await self._drive(Calling(self._open, function, args, kwargs))

    async def _drive(self, calling: Calling) -> Outcome:
        return await drive(calling, self._pool)

    async def model(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        await self._pool.run(offer, self._open, kwargs)
        calling = ModelCalling(self._open, function, args, kwargs)
        return self._open.reply((await self._drive(calling)).result(), calling.seq)

    reply = awaited(Turn.reply)

    def stream(self, source: Any, /, *args: Any, **kwargs: Any) -> AsyncStream:
        return AsyncStream(self._sync.stream(source, *args, **kwargs), self._pool)

    messages = awaited(Turn.messages)

    async def results(
        self,
        reply: Any,
        dispatch: Dispatch,
        *,
        effects: Effects | None = None,
        sources: Sources | None = None,
        parallel: bool = False,
        in_doubt: DoubtMode = "tell",
    ) -> list[dict[str, Any]]:
        options = with_sources(effects, sources)
        seq, calls = await self._pool.run(requested, self._open, reply, dispatch, options)
        if parallel:
            ended = await asyncio.gather(*(self._attempt(call) for call in calls))
        else:
            ended = [await self._attempt(call) for call in calls]
        return await self._pool.run(results_of, self._open, seq, ended, in_doubt)

    async def _attempt(self, calling: Calling) -> Outcome | StatorError:
        try:
            return await self._drive(calling)
        except ApprovalNeeded as needed:
            return needed

    end = awaited(Turn.end)
    abort = awaited(Turn.abort)

    async def __aenter__(self) -> AsyncTurn:
        self._token = current_turn.set(_DirectCalls(self, self._open))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if self._token is not None:
            current_turn.reset(self._token)
            self._token = None
        await self._pool.run(self._sync.__exit__, kind, error, trace)


class _DirectCalls:
    """Records tools that are called like plain functions inside a turn, on the loop."""

    def __init__(self, turn: AsyncTurn, open_turn: OpenTurn) -> None:
        self._turn, self._open = turn, open_turn

    @property
    def ended(self) -> bool:
        return self._open.ended

    def direct(self, tool: Tool[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the tool; a coroutine function is to be awaited by its caller."""
        if tool.is_async:
            return self._turn.call(tool, *args, **kwargs)
        warn_on_loop()
        return Calling(self._open, tool, args, kwargs).drive().result()


class AsyncDoubt:
    """`OpenDoubt`, awaited."""

    def __init__(self, doubt: OpenDoubt, pool: Pool) -> None:
        self._sync = doubt
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sync, name)

    settle = awaited(OpenDoubt.settle)


def _driven(session: Session[Any], pool: Pool) -> AsyncSession[Any]:
    """The twin of what `open` gives: with `busy="read"` that may be a view, which cannot drive."""
    view: SessionView = session
    if isinstance(view, Session):
        return AsyncSession(view, pool)
    return cast("AsyncSession[Any]", AsyncView(view, pool))


class AsyncSession(AsyncView, AsyncMarker, Generic[A]):
    """`Session`, awaited."""

    _sync: Session[A]

    def __init__(self, session: Session[A], pool: Pool) -> None:
        AsyncView.__init__(self, session, pool)

    configure = awaited(Session.configure)
    turn = opened_as(Session.turn, AsyncTurn)

    async def once(
        self, key: str, function: Callable[..., Any] | Tool[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        async with AsyncTurn(await self._pool.run(self._sync._once, key), self._pool) as turn:
            if not turn.reused:
                await turn.end(value=await turn.call(function, *args, **kwargs))
            return await turn.value()

    async def recovery(self) -> Recovery:
        return await self._pool.run(lambda: self._sync.recovery)

    async def in_doubt(self) -> list[AsyncDoubt]:
        found = await self._pool.run(lambda: self._sync.in_doubt)
        return [AsyncDoubt(doubt, self._pool) for doubt in found]

    def wrap(
        self,
        dispatch: Dispatch,
        *,
        effects: Effects | None = None,
        sources: Sources | None = None,
        in_doubt: DoubtMode = "tell",
    ) -> Callable[[str, Mapping[str, Any]], Awaitable[Any]]:
        self._sync._driver.see_wrapped(dispatch)
        options = with_sources(effects, sources)

        async def recorded(name: str, arguments: Mapping[str, Any]) -> Any:
            calling = self._sync._wrapped(name, arguments, dispatch, options)
            outcome = await drive(calling, self._pool)
            return unwrapped(outcome, in_doubt)

        return recorded

    compact = awaited(Session.compact)
    undo_compaction = awaited(Session.undo_compaction)
    track = awaited(Session.track)
    child = opened_as(Session.child, _driven)
    fork = awaited(Session.fork)
    rewind = awaited(Session.rewind)

    @contextlib.asynccontextmanager
    async def retry(
        self, turn: str, *, effects: RetryEffects = "ask", prompt: Any = None, name: str = ""
    ) -> AsyncIterator[AsyncTurn]:
        again, asked, key = await self._pool.run(
            self._sync._begin_retry, turn, effects=effects, prompt=prompt, name=name
        )
        twin = AsyncSession(again, self._pool)
        async with twin as session, session.turn(asked, key=key) as retried:
            yield retried

    adopt = awaited(Session.adopt)
    rerun = awaited(Session.rerun)
    pause = awaited(Session.pause)
    close = awaited(Session.close)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        await self._pool.run(self._sync.__exit__, kind, error, trace)


class AsyncContributor(AsyncMarker):
    """`Contributor`, awaited."""

    def __init__(self, contributor: Contributor, pool: Pool) -> None:
        self._sync: Contributor = contributor
        self._pool = pool

    pause = awaited(Contributor.pause)
    resume = awaited(Contributor.resume)
    close = awaited(Contributor.close)
    archive = awaited(Contributor.archive)
    rewind = awaited(Contributor.rewind)
    adopt = awaited(Contributor.adopt)
    vouch = awaited(Contributor.vouch)
    approve = awaited(Contributor.approve)
    deny = awaited(Contributor.deny)
    settle = awaited(Contributor.settle)
    budget = awaited(Contributor.budget)


class AsyncStore(AsyncRunner, AsyncKeeper, AsyncOutsideDoors):
    """`Store`, awaited."""

    _sync: Store

    def __init__(self, store: Store, pool: Pool | None = None) -> None:
        self._sync = store
        self._pool = pool or Pool()

    info = awaited(Store.info)

    @property
    def foreign(self) -> str:
        """Why the store is not this user's own; empty if it is. A foreign store can be read, and nothing in it acts."""
        return self._sync.foreign

    async def close(self) -> None:
        if not self._pool.closed:
            await self._pool.run(self._sync.close)
            self._pool.close()

    sync = awaited(Store.sync)

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    open = opened_as(Store.open, _driven)
    read = awaited_as(Store.read, AsyncView)
    contribute = awaited_as(Store.contribute, AsyncContributor)
    fork = awaited_as(Store.fork, AsyncView)
    ingest = awaited(Store.ingest)
    extract = awaited(Store.extract)
    export = awaited(Store.export)
    import_bundle = awaited(Store.import_bundle)
    copy_to = awaited_between(Store.copy_to)
    push_to = awaited_between(Store.push_to)
    pull_from = awaited_between(Store.pull_from)
    sessions = awaited(Store.sessions)
    verify = awaited(Store.verify)
    calls = awaited(Store.calls)

    async def views(self, *, project: str | None = None) -> AsyncIterator[AsyncView]:
        views = self._sync.views(project=project)
        while (view := await self._pool.run(next, views, None)) is not None:
            yield AsyncView(view, self._pool)

    def tail(
        self,
        cursor: str | None = None,
        *,
        project: str | None = None,
        follow: bool = True,
        until: Callable[[], bool] | None = None,
        load: bool = True,
    ) -> AsyncStoreTail:
        tail = self._sync.tail(cursor, project=project, follow=follow, until=until, load=load)
        return AsyncStoreTail(tail.tailing, self._pool)

    files = awaited(Store.files)
    decisions = awaited(Store.decisions)
    artifact = awaited(Store.artifact)
    search = awaited(Store.search)
    state = awaited(Store.state)
    brief = awaited(Store.brief)
    prefer = awaited(Store.prefer)
    confirm = awaited(Store.confirm)
    forget = awaited(Store.forget)
    why = awaited(Store.why)
    recap = awaited(Store.recap)
    blame = awaited(Store.blame)
