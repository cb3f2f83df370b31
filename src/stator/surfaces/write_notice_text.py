"""Says who the other session is that changed a file, in the form that each agent takes."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from stator.connect import NEAREST, StorePlace, connect_as_is
from stator.errors import StatorError
from stator.model.brief.envelope import wrapped
from stator.model.brief.file_notice import notice_text
from stator.model.brief.shared_files import FileTouch
from stator.model.values.json_text import canonical
from stator.runtime.files.file_news import foreign_changes

SECONDS = 1.0
"""How long the store may take to say what the other session is called."""


def reply(
    agent: str,
    event: str,
    news: list[tuple[str, FileTouch]],
    store_path: str,
    cwd: str,
    *,
    named: bool,
) -> bytes:
    """The bytes for standard output; empty if there is nothing to say after all. Without a path no store is asked."""
    now = time.time_ns() // 1000
    changes = foreign_changes(None, news, now)
    if store_path:
        place = StorePlace(store_path, "as given" if named else NEAREST)
        with (
            suppress(StatorError, TimeoutError, OSError),
            _at_most(SECONDS),
            connect_as_is(place, start=cwd) as store,
        ):
            if not store.port.ownership.foreign:
                changes = foreign_changes(store.port, news, now)
    if not changes:
        return b""
    context = wrapped("file", notice_text(changes))
    said: dict[str, Any] = {
        "hookSpecificOutput": {"hookEventName": event, "additionalContext": context}
    }
    if agent == "cursor":
        said = {"additional_context": context}
    return canonical(said).encode() + b"\n"


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Give up what takes longer."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
