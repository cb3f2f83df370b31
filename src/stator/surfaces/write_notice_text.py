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
from stator.model.brief.file_notice import ForeignChange, notice_text
from stator.model.brief.shared_files import FileTouch
from stator.model.exchange.items import Conversation
from stator.model.values.ids import short
from stator.model.values.json_text import canonical
from stator.runtime.facade.store import Store
from stator.runtime.ingest.placement import find
from stator.touched_files import DRIVEN

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
    """The bytes for standard output."""
    names: dict[str, tuple[str, str]] = {}
    place = StorePlace(store_path, "as given" if named else NEAREST)
    with (
        suppress(StatorError, TimeoutError, OSError),
        _at_most(SECONDS),
        connect_as_is(place, start=cwd) as store,
    ):
        if not store.port.ownership.foreign:
            names = {one.key: _named(store, one.key) for _, one in news}
    now = time.time_ns() // 1000
    changes = [
        ForeignChange(
            path=path, agent=one.agent or "an agent", tool=one.tool, ago_us=max(0, now - one.wrote),
            session=names.get(one.key, ("", ""))[0] or short(_session(one.key)),
            name=names.get(one.key, ("", ""))[1],
        )
        for path, one in news
    ]  # fmt: skip
    context = wrapped("file", notice_text(changes))
    said: dict[str, Any] = {
        "hookSpecificOutput": {"hookEventName": event, "additionalContext": context}
    }
    if agent == "cursor":
        said = {"additional_context": context}
    return canonical(said).encode() + b"\n"


def _session(key: str) -> str:
    source, _, name = key.partition(":")
    return name if source == DRIVEN else Conversation(source=source, id=name).session


def _named(store: Store, key: str) -> tuple[str, str]:
    """The handle and the name of a session."""
    source, _, name = key.partition(":")
    if source == DRIVEN:
        row = store.port.session(name)
    else:
        found = find(store.port, Conversation(source=source, id=name))
        if found is None:
            return "", ""
        row = found
    return short(row.id), row.record.name


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
