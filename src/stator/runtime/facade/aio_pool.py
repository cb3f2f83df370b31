"""The pool of threads under the asynchronous façade. A write that began has an outcome, and its caller
learns it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from stator.errors import WrongProcess

T = TypeVar("T")
THREADS = 32
"""Operations of one store that may be under way at once."""
TOOL_THREADS = 64
"""Plain functions that may run at once as tools."""


class Pool:
    """Runs synchronous operations off the loop, and never leaves a write's outcome unknown."""

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="stator")
        self.tools = ThreadPoolExecutor(TOOL_THREADS, thread_name_prefix="stator tool")
        self.closed = False

    async def run(self, operation: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        future = self._begin(operation, *args, **kwargs)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError as cancelled:
            await settled(future)
            error = future.exception()
            cancelled.add_note(
                f"the operation had begun and {'failed: ' + str(error) if error else 'succeeded'}"
            )
            raise

    async def whole(
        self, operation: Callable[..., T], *args: Any
    ) -> tuple[T, asyncio.CancelledError | None]:
        """Run an operation to its end; return its result, and a cancellation that arrived."""
        future = self._begin(operation, *args)
        try:
            return await asyncio.shield(future), None
        except asyncio.CancelledError as cancelled:
            await settled(future)
            return future.result(), cancelled

    def _begin(self, operation: Callable[..., T], *args: Any, **kwargs: Any) -> asyncio.Future[T]:
        if self.closed:
            raise WrongProcess("this store is closed", hint="connect again")
        # In a copy of this context: what is recorded must find the call it is recorded in.
        context = contextvars.copy_context()
        return asyncio.get_running_loop().run_in_executor(
            self._threads, functools.partial(context.run, operation, *args, **kwargs)
        )

    def later(self, operation: Callable[..., object], *args: Any) -> None:
        """Run an operation without waiting for it."""
        self._threads.submit(operation, *args)

    def close(self) -> None:
        self.closed = True
        self._threads.shutdown(wait=True)
        self.tools.shutdown(wait=False)


async def settled(future: asyncio.Future[Any]) -> None:
    """Wait until an operation has ended, however often the caller is cancelled."""
    while not future.done():
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await asyncio.shield(future)
