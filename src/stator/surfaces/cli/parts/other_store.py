"""Opens a second store beside the one that a command works on: to send sessions to it, or to fetch one from it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from stator.connect import connect
from stator.errors import NotAStore
from stator.locations import path_of, scheme_of
from stator.runtime.facade.store import Store


def exists(url: str) -> bool:
    """Whether there is a store; of one on a server, that shows when it is asked."""
    return bool(scheme_of(url)) or os.path.lexists(path_of(url))


@contextmanager
def open_other(url: str, *, tenant: str | None, preview: bool = False) -> Iterator[Store]:
    """Open the store that sessions go to, and make it if it is not there. A preview makes none: what is not there
    holds nothing, as an empty store in memory does."""
    with _opened(url, tenant, preview) as store:
        yield store


def _opened(url: str, tenant: str | None, preview: bool) -> Store:
    if not preview:
        return connect(url, tenant=tenant)
    if exists(url):
        try:
            return connect(url, create=False, tenant=tenant)
        except NotAStore as error:
            if not error.absent:
                raise
    return connect("memory:", tenant=tenant)


@contextmanager
def open_source(url: str, *, tenant: str | None) -> Iterator[Store]:
    """Open the store that sessions come from. It is only read."""
    if not exists(url):
        raise NotAStore(
            f"there is no store {url!r:.200}", hint="give its path or its URL", store=url
        )
    with connect(url, create=False, read_only=True, tenant=tenant) as store:
        yield store
