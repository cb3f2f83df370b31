"""The program that takes in what hooks queued, and the transcripts they name. A hook starts it; nobody waits for it.

A program that reports its end may still write to its transcript, so after a session's end it looks once more when the
agent is gone.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from stator import touched_files
from stator.connect import (
    NEAREST,
    StorePlace,
    advance,
    connect_as_is,
    spools,
    take_spools,
    worlds,
)
from stator.errors import StatorError
from stator.hooks.hook_note import hook_note, is_running
from stator.hooks.ingest import IngestLimits, IngestResult, end_dead_conversations
from stator.runtime.base.context import nap
from stator.runtime.facade.store import Store

LIMITS = IngestLimits(wait_s=30.0)
BEHIND_MAX = 1_000_000
"""Commits that an index may be behind: this program has time."""
LOOKS = 40
PAUSE_S = 0.1
"""How often, and in which steps, the end of an agent that has said goodbye is awaited."""


def main(arguments: list[str]) -> int:
    """Take in everything for the store at a path, or in `$STATOR_STORE` if it is empty: `PATH CWD named|found`."""
    path, cwd, how = arguments
    url = path or os.environ["STATOR_STORE"]
    place = StorePlace(url, "as given" if how == "named" else NEAREST)
    # Nobody reads what this program prints. What it could not take in stays in the spool, and `stator doctor` says so.
    with suppress(StatorError), connect_as_is(place, start=cwd) as store:
        if store.port.ownership.foreign:
            return 0
        result = take_spools(store.port, limits=LIMITS)
        for folder in spools(store.port):
            touched_files.prune(folder)
        if result.starts:
            end_dead_conversations(store.port, worlds(store.port), folders=spools(store.port))
        if _await_end(store, result):
            take_spools(store.port, limits=LIMITS)
            for session in result.names:
                advance(store.port, session)
        _index(store)
    return 0


def _index(store: Store) -> None:
    """Update the indexes now, so that no agent waits for that with its first prompt."""
    from stator.runtime.views import project_state, search

    project_state.ask(store.port, store.context, lambda index: None)
    search.places(store.port, store.context, [], project="", limit=1, behind_max=BEHIND_MAX)


def _await_end(store: Store, result: IngestResult) -> bool:
    """Whether an agent has reported its end, and is gone now or had time to write everything."""
    ending = [name for name in result.names if hook_note(store.port, name).ended]
    for _ in range(LOOKS):
        if not any(is_running(hook_note(store.port, name)) for name in ending):
            break
        nap(PAUSE_S)
    return bool(ending)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
