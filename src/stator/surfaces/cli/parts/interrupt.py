"""Ctrl-C for work that must not be cut in the middle: asked once, it ends at the next good place."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopping() -> Iterator[Callable[[], bool]]:
    """Whether somebody asked for an end. Who asks twice is not made to wait."""
    asked = threading.Event()

    def noticed(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set  # signals are for the main thread to take
        return
    before = signal.signal(signal.SIGINT, noticed)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
