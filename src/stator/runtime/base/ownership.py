"""Refuses what may only be done in a store of one's own."""

from __future__ import annotations

from stator.errors import ForeignStore
from stator.store.port import StorePort

TRUST = "if you know where it comes from: stator trust"


def require_own(store: StorePort, what: str) -> None:
    """Raise `ForeignStore` unless the store is this user's own."""
    if why := store.ownership.foreign:
        raise _refused(store, what, why)


def require_named(store: StorePort, what: str) -> None:
    """Raise `ForeignStore` if the store is foreign and was only found in a folder. A program that names it may
    drive it: what is recorded there then acts, as its recorded answers do when a turn is continued.
    """
    if store.ownership.was_found:
        require_own(store, what)


def _refused(store: StorePort, what: str, why: str) -> ForeignStore:
    url = store.info().url.removeprefix("sqlite:///")
    return ForeignStore(f"{url} {why}: cannot {what}", hint=TRUST, store=url)
