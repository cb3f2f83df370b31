"""For the contract over PostgreSQL: connections outlive the store of one test, as they would in a long program.

A new server process reads its catalogs and plans each statement again, which is most of what a short test costs.
Nothing is left on a connection between transactions, so that the next store finds it as a new one.
"""

from __future__ import annotations

import contextlib
import os

import pytest

from postgres_server import shared_database
from stator.store.postgres.connection import Connections
from stator.store.postgres.wire import Link

KEPT: list[Link] = []
KEPT_MAX = 4
PROCESS = os.getpid()
"""A process that is forked from this one has connections of its own."""


@pytest.fixture(autouse=True)
def _kept_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    open_one, close_all = Connections.open, Connections.close

    def opened(self: Connections) -> Link:
        with contextlib.suppress(IndexError):  # a thread of the same store may take the last one
            while self.url == shared_database() and os.getpid() == PROCESS:
                if not (kept := KEPT.pop()).closed:
                    return kept
        return open_one(self)

    def close(self: Connections) -> None:
        if self.url == shared_database() and self.is_ours:
            while self._idle and len(KEPT) < KEPT_MAX:
                KEPT.append(self._idle.pop())
        close_all(self)

    monkeypatch.setattr(Connections, "open", opened)
    monkeypatch.setattr(Connections, "close", close)
