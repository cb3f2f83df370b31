"""Takes in what the agents of a project have written since, for a server that runs while they work."""

from __future__ import annotations

import os

from stator.connect import advance, catch_up
from stator.hooks.hook_note import hook_note
from stator.model.log.query import SessionQuery, SessionRow
from stator.runtime.facade.store import Store

PROMPT_LOOKS = 10
PROMPT_PAUSE_S = 0.05
"""How often, and in which steps, a prompt is awaited that a hook has seen and the transcript does not hold yet."""
ACTIVE_MAX = 50
"""Sessions of agents that work now whose transcripts are looked at."""


def reach_prompt(store: Store, row: SessionRow) -> None:
    """Before something is added to a session that its transcript orders: read the transcript as far as it is
    written, so that what is added belongs to the right turn. A prompt that a hook has seen is awaited for a moment."""
    if row.record.orderer != "transcript":
        return
    for _ in range(PROMPT_LOOKS):
        catch_up(store)
        advance(store.port, row.id)
        if not any(draft.kind == "turn" for draft in store.context.unplaced(store.port, row)):
            return
        store.context.sleep(PROMPT_PAUSE_S)


def advance_active(store: Store, seen: dict[str, tuple[int, int]]) -> None:
    """Take in what agents that work now have written since; `seen` remembers their transcripts from one time to the
    next. Nothing where nothing may be written."""
    if store.info().read_only or store.port.ownership.foreign:
        return
    catch_up(store)
    query = SessionQuery(mode="recorded", status="active", project=store.context.project)
    for row in store.port.sessions(query, limit=ACTIVE_MAX).rows:
        path = hook_note(store.port, row.id).transcript
        try:
            found = os.stat(path) if path else None
        except OSError:
            continue
        if found is not None and seen.get(path) != (found.st_size, found.st_mtime_ns):
            seen[path] = found.st_size, found.st_mtime_ns
            advance(store.port, row.id)
