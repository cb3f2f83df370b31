"""Records the notes that agents keep about this project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from stator.importers.memory_files import memories_of
from stator.runtime.ingest.memories import conflicts, record_memories

if TYPE_CHECKING:
    from stator.runtime.facade.store import Store
    from stator.runtime.ingest.extract import Extraction


def add_memories(store: Store, found: Extraction, *, dry_run: bool) -> None:
    """Record what changed in them. Never in a foreign store: they are this user's."""
    context = store.context
    if store.foreign or not context.root:
        return
    home = Path(os.environ.get("HOME") or os.path.expanduser("~"))
    notes = memories_of(home, os.environ, context.root)
    found.found += record_memories(store.port, context, notes, dry_run=dry_run)
    found.conflicts += conflicts(store.port, context, notes)
