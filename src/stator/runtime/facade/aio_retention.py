"""Retention, awaited: the same names as `runtime.facade.retention`, over the store's pool of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.runtime.facade.awaited import awaited
from stator.runtime.facade.retention import Keeper

if TYPE_CHECKING:
    from stator.runtime.facade.aio_pool import Pool


class AsyncKeeper:
    """`Keeper`, awaited."""

    _sync: Keeper
    _pool: Pool

    retention = awaited(Keeper.retention)
    hold = awaited(Keeper.hold)
    release = awaited(Keeper.release)
    restore = awaited(Keeper.restore)
    gc = awaited(Keeper.gc)
    collect = awaited(Keeper.collect)
    erasing = awaited(Keeper.erasing)
    erase = awaited(Keeper.erase)
