"""Waiting for real processes: poll a condition, give up after a minute. No assertion depends on how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 60.0


def eventually(condition: Callable[[], T]) -> T:
    """What the condition says once it says something true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
    return found
