"""Makes every index of a store forget what was erased or purged, at once."""

from __future__ import annotations

from collections.abc import Iterable

from stator.runtime.base.context import Context
from stator.runtime.views import project_state, search
from stator.store.port import StorePort


def forget(store: StorePort, context: Context, sessions: Iterable[str]) -> bool:
    """Let the indexes know of these sessions only what is still there; False if one of them could not yet."""
    concerned = list(sessions)
    searched = search.forget(store, context, concerned)
    return project_state.forget(store, context, concerned) and searched
