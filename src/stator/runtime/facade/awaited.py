"""Makes asynchronous twins of synchronous methods: same name, same arguments, awaited.

A twin runs its original on the pool of threads of the object it belongs to, which has the original object as
`_sync` and the pool as `_pool`. Signatures are taken over, not repeated: type checkers and `inspect` see the
arguments of the original, so that the two can never differ.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from stator.runtime.facade.aio_pool import Pool

P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W")


class Entered(Protocol):
    """An object that `async with` can enter."""

    async def __aenter__(self) -> Self:
        """Enter it."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        """Leave it."""
        ...


E = TypeVar("E", bound=Entered)
S = TypeVar("S")


class AsyncTwin(Generic[S]):
    """The twin of an object: holds the original, and the pool that its methods run on."""

    def __init__(self, sync: S, pool: Pool) -> None:
        self._sync = sync
        self._pool = pool


def awaited(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """The twin of a method whose result needs no twin of its own."""

    @functools.wraps(method)
    async def twin(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await _run(self, method, *args, **kwargs)

    return twin


def awaited_between(
    method: Callable[Concatenate[Any, Any, P], R],
) -> Callable[Concatenate[Any, Any, P], Coroutine[Any, Any, R]]:
    """The twin of a method whose first argument is such an object too, and is given as a twin."""

    @functools.wraps(method)
    async def twin(self: Any, other: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await _run(self, method, vars(other)["_sync"], *args, **kwargs)

    return twin


def awaited_as(
    method: Callable[Concatenate[Any, P], R], wrap: Callable[[R, Pool], W]
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, W]]:
    """The twin of a method whose result has a twin: `wrap(result, pool)` makes it."""

    @functools.wraps(method)
    async def twin(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> W:
        return wrap(await _run(self, method, *args, **kwargs), self._pool)

    return twin


def opened_as(
    method: Callable[Concatenate[Any, P], R], wrap: Callable[[R, Pool], E]
) -> Callable[Concatenate[Any, P], Opening[E]]:
    """The twin of a method that opens something: its result is awaited, or entered with `async with`."""

    @functools.wraps(method)
    def twin(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Opening[E]:
        async def begin() -> E:
            return wrap(await _run(self, method, *args, **kwargs), self._pool)

        return Opening(begin)

    return twin


async def _run(self: Any, method: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    # By name, not by the function itself: a subclass of the original may have its own version of the method.
    original: Callable[..., R] = getattr(self._sync, method.__name__)
    pool: Pool = self._pool
    return await pool.run(original, *args, **kwargs)


class Opening(Generic[E]):
    """Something to await or to enter: `async with s.turn(…) as t`, or `t = await s.turn(…)`."""

    def __init__(self, opening: Callable[[], Coroutine[Any, Any, E]]) -> None:
        self._opening = opening
        self._opened: E | None = None

    def __await__(self) -> Generator[Any, Any, E]:
        begun: Awaitable[E] = self._opening()
        return begun.__await__()

    async def __aenter__(self) -> E:
        self._opened = await self._opening()
        return await self._opened.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        assert self._opened is not None  # Python enters before it leaves
        await self._opened.__aexit__(kind, error, trace)
