"""Keeps the connections that `stator.open` makes: one for each store and process.

A session can still be asked after its `with` block, so nothing says when a connection of its own would be done with. A
program that opens sessions in a loop would hold more files open with each, until it may open no more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from threading import Lock

from stator.store.port import StorePort

KEPT_MAX = 16
"""Stores of one process. The one that was opened first is let go, and is closed with its last session."""


class KeptStores:
    """Connections by store; those of a process that forked are not used in its child."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[tuple[int, Hashable], StorePort] = {}

    def get(self, what: Callable[[], Hashable], connect: Callable[[], StorePort]) -> StorePort:
        """The connection to a store; `what` says which one it is, before and after `connect` may have made it."""
        with self._lock:
            found = self._kept.get((os.getpid(), what()))
        if found is not None:
            return found
        made = (
            connect()
        )  # outside of the lock: a server may take its time, and other stores do not wait for it
        with self._lock:
            found = self._kept.setdefault((os.getpid(), what()), made)
            while len(self._kept) > KEPT_MAX:
                del self._kept[next(iter(self._kept))]
        if found is not made:  # another thread was first
            made.close()
        return found


def file_in_place(path: str) -> Hashable:
    """The file that a path leads to now: another one in its place is another store."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.realpath(path), 0, 0
    return os.path.realpath(path), found.st_dev, found.st_ino
