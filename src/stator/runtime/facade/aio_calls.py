"""Runs calls and streams on an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import AsyncIterator
from concurrent.futures import Future
from typing import Any

from stator.model.calls.life import (
    Answer,
    Note,
    Outcome,
    Pause,
    Reconcile,
    RunTool,
    Stop,
    TimedOut,
    ToolRaised,
    ToolReturned,
)
from stator.runtime.driving.call import STARTS, Calling, found
from stator.runtime.driving.effects import adrive
from stator.runtime.driving.loop import Stream
from stator.runtime.driving.policy import POLL_S
from stator.runtime.driving.tools import current_call, enter_call
from stator.runtime.facade.aio_pool import Pool, settled


async def drive(calling: Calling, pool: Pool) -> Outcome:
    """Run a call to its outcome, on the loop."""
    return await adrive(calling.life(), LoopHands(calling, pool))


class LoopHands:
    """Carries out a call's effects on the loop: store operations in one pool of threads, plain tools
    in another, so that slow tools do not delay recording."""

    def __init__(self, calling: Calling, pool: Pool) -> None:
        self._calling = calling
        self._pool = pool
        self._cancelled: asyncio.CancelledError | None = None

    async def append(self, note: Note) -> Answer:
        """Record. A cancellation that comes during it leaves no intent without its outcome."""
        calling = self._calling
        commits, cancelled = await self._pool.whole(
            lambda: calling.turn.write(calling.drafts(note))
        )
        calling.landed(commits)
        self._cancelled = self._cancelled or cancelled
        if self._cancelled is None:
            return calling.turn.driver.stop() if note.kind in STARTS else None
        if note.fields["status"] == "started":
            return Stop(self._cancelled, "cancelled")
        if note.kind != "call" or note.fields["status"] != "requested":
            raise self._cancelled
        return None

    async def run(self, effect: RunTool) -> tuple[ToolReturned | ToolRaised, BaseException | None]:
        calling = self._calling
        calling.look()
        clock = calling.turn.driver.context.monotonic
        began = clock()
        try:
            value = await self._value()
        except Exception as error:
            return ToolRaised(error, clock(), began), self._cancelled
        except BaseException as error:
            return ToolRaised(error, clock(), began), error
        return ToolReturned(value, clock(), began), self._cancelled

    async def _value(self) -> Any:
        calling, tool = self._calling, self._calling.tool
        if tool.is_async and tool.timeout_s is None:
            return calling.finish(await self._awaited())
        work: asyncio.Future[Any]
        if tool.is_async:
            work = asyncio.ensure_future(self._awaited())
        else:
            context = contextvars.copy_context()
            if tool.timeout_s is None:
                begun = self._pool.tools.submit(context.run, calling.invoke)
            else:
                begun = calling.begin(context)
            work = asyncio.wrap_future(begun)
        self._cancelled = await _bounded(work, tool.timeout_s, cancel=tool.is_async)
        if not work.done():
            assert tool.timeout_s is not None
            calling.await_late(lambda: work.add_done_callback(self._late))
            raise TimedOut(tool.timeout_s)
        value = work.result()
        if inspect.isawaitable(value):
            value = await value
        return calling.finish(value) if tool.is_async else value

    async def _awaited(self) -> Any:
        calling = self._calling
        token = enter_call(calling.turn.driver.id, calling.asked.call)
        try:
            return await calling.tool.function(*calling.args, **calling.kwargs)
        finally:
            current_call.reset(token)

    def _late(self, work: asyncio.Future[Any]) -> None:
        """A result that comes after its time; a coroutine that was given up has none."""
        if work.cancelled():
            return
        done: Future[Any] = Future()
        error = work.exception()
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(work.result())
        if not self._pool.closed:
            self._pool.later(self._calling.settle_late, done)

    async def pause(self, effect: Pause) -> None:
        await asyncio.sleep(self._calling.seconds(effect))

    async def answer(self) -> Answer:
        waits = self._calling.turn.driver.terms.waits
        while (said := await self._pool.run(self._calling.said)) is None and waits:
            await asyncio.sleep(POLL_S)
        return said

    async def reconcile(self, effect: Reconcile) -> Answer:
        calling = self._calling
        ask = calling.tool.reconcile
        assert ask is not None
        if inspect.iscoroutinefunction(ask):
            return found(await ask(calling.intent(effect)), calling.tool)
        return await self._pool.run(calling.reconcile, effect)


async def _bounded(
    work: asyncio.Future[Any], seconds: float | None, *, cancel: bool
) -> asyncio.CancelledError | None:
    """Wait for a tool, at most so long. A cancellation is handed on to a coroutine; a plain function
    cannot be stopped, so that its end is waited for. Returns the cancellation, for later."""
    try:
        await asyncio.wait({work}, timeout=seconds)
    except asyncio.CancelledError as cancelled:
        if cancel:
            work.cancel()
        await settled(work)
        return cancelled
    if not work.done() and cancel:
        work.cancel()
    return None


class AsyncStream:
    """`Stream`, as an asynchronous iterator."""

    def __init__(self, stream: Stream, pool: Pool) -> None:
        self._stream = stream
        self._pool = pool

    @property
    def reply(self) -> Any:
        """The whole response, after the stream has ended."""
        return self._stream.reply

    async def __aiter__(self) -> AsyncIterator[Any]:
        replayed, cancelled = await self._pool.whole(self._stream.begin)
        if cancelled is not None:
            if not replayed:  # its intent is on disk: record that nothing came of it
                await self._pool.run(self._stream.broken, cancelled)
            raise cancelled
        if replayed:
            return
        try:
            chunks = self._stream.chunks()
            if inspect.isawaitable(chunks):
                chunks = await chunks
            async for chunk in _each(chunks):
                self._stream.take(chunk)
                yield chunk
        except BaseException as error:
            await self._pool.run(self._stream.broken, error)
            raise
        await self._pool.run(self._stream.done)


async def _each(chunks: Any) -> AsyncIterator[Any]:
    if hasattr(chunks, "__aiter__"):
        async for chunk in chunks:
            yield chunk
    else:
        for chunk in chunks:
            yield chunk
