"""`stator.aio`: the asyncio version of `stator.connect` and of what it returns.

async with stator.aio.connect("agent.db") as store, store.open("fix-login") as s:
    async with s.turn("fix the login bug") as t:
        await t.call(fetch, url="…")
"""

from __future__ import annotations

import os
from typing import Any

from stator.connect import connect as _connect
from stator.runtime.facade.aio import (
    AsyncContributor,
    AsyncSession,
    AsyncStore,
    AsyncTurn,
)
from stator.runtime.facade.aio_runs import AsyncRun
from stator.runtime.facade.aio_view import AsyncView
from stator.store.port import Durability

__all__ = [
    "AsyncContributor",
    "AsyncRun",
    "AsyncSession",
    "AsyncStore",
    "AsyncTurn",
    "AsyncView",
    "connect",
]


def connect(
    url: str | os.PathLike[str] | None = None,
    *,
    durability: Durability = "full",
    create: bool = True,
    read_only: bool = False,
    redact: bool = True,
    project: str | None = None,
    tenant: str | None = None,
) -> AsyncStore:
    """Open a store; see `stator.connect`. Opening is quick and happens in this call, which blocks the loop briefly."""
    options: dict[str, Any] = {"durability": durability, "create": create, "read_only": read_only}
    return AsyncStore(_connect(url, redact=redact, project=project, tenant=tenant, **options))
