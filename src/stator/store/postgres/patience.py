"""Waiting for a server only as long as it gives a sign.

A server that was stopped, or that waits for a standby that was, keeps its connections and says nothing for ever.
"""

from __future__ import annotations

import select
from collections.abc import Generator
from time import monotonic
from typing import Any

import psycopg

ANSWER_S = 10.0
LONG_S = 600.0
"""How long a server may be silent before its answer counts as lost: usually, and at work on all of a store."""


class Silent(psycopg.OperationalError):
    """The server was silent for too long."""


def wait_for(watched: select.poll, seconds: float) -> None:
    """Wait until a connection can be read or written."""
    if not watched.poll(seconds * 1000):
        raise _silent(seconds)


def while_it_moves(gen: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
    """What the driver waits for, until nothing could be sent or received for so long."""
    moved = monotonic()
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if ready:
                moved = monotonic()
            elif monotonic() - moved > seconds:
                raise _silent(seconds)
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value


def _silent(seconds: float) -> Silent:
    return Silent(f"silent for {seconds:.0f} seconds")
