"""Keeping, awaited: the same names as `runtime.facade.retention`, over the store's pool of threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stator.runtime.facade.retention import Keeper

if TYPE_CHECKING:
    from stator.model.sessions.retention import Plan
    from stator.runtime.facade.aio_pool import Pool
    from stator.runtime.retention.erase import Erasing, ErasureResult
    from stator.runtime.retention.policies import Done, Policies


class AsyncKeeper:
    """`Keeper`, awaited."""

    _sync: Keeper
    _pool: Pool

    async def retention(self, *policies: str, project: str | None = None) -> Policies:
        return await self._pool.run(self._sync.retention, *policies, project=project)

    async def hold(self, name: str, *, why: str = "") -> None:
        await self._pool.run(self._sync.hold, name, why=why)

    async def release(self, name: str) -> bool:
        return await self._pool.run(self._sync.release, name)

    async def restore(self, name: str) -> bool:
        return await self._pool.run(self._sync.restore, name)

    async def gc(self, *, project: str | None = None, max_size: str = "") -> Plan:
        return await self._pool.run(self._sync.gc, project=project, max_size=max_size)

    async def collect(self, plan: Plan, *, yes: bool = False) -> list[Done]:
        return await self._pool.run(self._sync.collect, plan, yes=yes)

    async def erasing(
        self,
        name: str,
        at: str = "",
        *,
        fields: Sequence[str] = (),
        record: tuple[str, str] | None = None,
        call: str = "",
        path: str = "",
    ) -> Erasing:
        return await self._pool.run(
            self._sync.erasing, name, at, fields=fields, record=record, call=call, path=path
        )

    async def erase(self, plan: Erasing, *, why: str = "") -> ErasureResult:
        return await self._pool.run(self._sync.erase, plan, why=why)
