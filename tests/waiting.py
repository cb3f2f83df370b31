"""Waiting for real processes: poll a condition, give up after a minute. No assertion depends on how long it took."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import IO, Any, TypeVar

T = TypeVar("T")
PATIENCE_S = 60.0


def eventually(condition: Callable[[], T]) -> T:
    """What the condition says once it says something true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
    return found


def is_readable(source: int | IO[Any], seconds: float = PATIENCE_S) -> bool:
    """Whether something can be read within that time. `select` knows only the first 1024 files of a process."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(int(seconds * 1000)))
