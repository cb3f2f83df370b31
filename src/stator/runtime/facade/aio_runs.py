"""Detached runs, awaited: the same names as `runtime.runs.run`, over the store's pool of threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stator.model.sessions.detached_run import GRACE_S, RunInfo, Status
from stator.runtime.facade.runs import Runner
from stator.runtime.runs.folder import Output
from stator.runtime.runs.run import LOOK_S, Run, Standing

if TYPE_CHECKING:
    from stator.runtime.facade.aio_pool import Pool


class AsyncRun:
    """`Run`, awaited."""

    def __init__(self, run: Run, pool: Pool) -> None:
        self._sync = run
        self._pool = pool
        self.id = run.id

    async def info(self) -> RunInfo:
        return await self._pool.run(lambda: self._sync.info)

    async def status(self) -> Status:
        return await self._pool.run(lambda: self._sync.status)

    async def standing(self) -> Standing:
        return await self._pool.run(self._sync.standing)

    async def view(self) -> Any:
        """Its session."""
        from stator.runtime.facade.aio import AsyncView  # which is made of this

        return AsyncView(await self._pool.run(lambda: self._sync.view), self._pool)

    async def output(self, cursor: int = 0) -> Output:
        return await self._pool.run(self._sync.output, cursor)

    async def wait(self, timeout_s: float | None = None) -> Status:
        waited = 0.0
        while (status := await self.status()) == "running" and (
            timeout_s is None or waited < timeout_s
        ):
            await asyncio.sleep(LOOK_S)
            waited += LOOK_S
        return status

    async def stop(self, *, grace_s: float = GRACE_S) -> Status:
        return await self._pool.run(self._sync.stop, grace_s=grace_s)

    async def again(self) -> None:
        await self._pool.run(self._sync.again)


class AsyncRunner:
    """`Runner`, awaited."""

    _sync: Runner
    _pool: Pool

    async def run(
        self, function: Callable[..., Any], /, *args: Any, session: str = "", restart: str = "no"
    ) -> AsyncRun:
        run = await self._pool.run(
            self._sync.run, function, *args, session=session, restart=restart
        )
        return AsyncRun(run, self._pool)

    async def attach(self, run: str) -> AsyncRun:
        return AsyncRun(await self._pool.run(self._sync.attach, run), self._pool)

    async def runs(self, *, session: str = "") -> list[AsyncRun]:
        found = await self._pool.run(self._sync.runs, session=session)
        return [AsyncRun(run, self._pool) for run in found]
