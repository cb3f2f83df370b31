"""What every route of the service is given: the store, the clock and the project it was started in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec
from starlette.requests import Request

from stator.runtime.facade.store import Store


class HasProgress(Protocol):
    """Something that runs while pages are read, and says how far it is."""

    @property
    def progress(self) -> Any: ...


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """The store behind the service."""

    store: Store
    address: str
    """Where the service is, as people type it: http://127.0.0.1:8719"""
    place: str
    """The store's place, safe to show."""
    catch_up: Callable[[], None] = lambda: None
    """Imports what hooks have queued since the last request."""

    samples: bool = False
    """Whether the sessions are only samples: there is nothing else."""
    first_import: HasProgress | None = None
    """The import of agents' sessions into a store that was empty."""

    @property
    def now(self) -> int:
        return self.store.context.clock()

    @property
    def project(self) -> str:
        return self.store.context.project


def served(request: Request) -> Served:
    found: Served = request.app.state.served
    return found
