"""Detached runs, awaited: the same names as `runtime.facade.run`, over the store's pool of threads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stator.model.sessions.detached_run import RunInfo, Status
from stator.runtime.facade.aio_view import AsyncView
from stator.runtime.facade.awaited import awaited, awaited_as
from stator.runtime.facade.run import LOOK_S, Run
from stator.runtime.facade.runs import Runner

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

    standing = awaited(Run.standing)

    async def view(self) -> AsyncView:
        """Its session."""
        return AsyncView(await self._pool.run(lambda: self._sync.view), self._pool)

    output = awaited(Run.output)

    async def wait(self, timeout_s: float | None = None) -> Status:
        waited = 0.0
        while (status := await self.status()) == "running" and (
            timeout_s is None or waited < timeout_s
        ):
            await asyncio.sleep(LOOK_S)
            waited += LOOK_S
        return status

    stop = awaited(Run.stop)
    again = awaited(Run.again)


class AsyncRunner:
    """`Runner`, awaited."""

    _sync: Runner
    _pool: Pool

    run = awaited_as(Runner.run, AsyncRun)
    attach = awaited_as(Runner.attach, AsyncRun)
    runs = awaited_as(Runner.runs, lambda found, pool: [AsyncRun(run, pool) for run in found])
