"""Importing: other agents' transcripts, discovered on disk and recorded as sessions.

    with stator.connect() as store:
        found = stator.importing.discover(["~/.claude/projects"])
        print(stator.importing.import_transcripts(store, found).total)

Both are plain functions; in a coroutine use `await asyncio.to_thread(…)`. `Format` is what a package must offer to
add a format of its own. See the guide on importing.
"""

from __future__ import annotations

from stator.importers.conversation import Report
from stator.importers.discover import Sight
from stator.importers.discover import look as discover
from stator.importers.format import Format, Found
from stator.importers.run import Brought, Taken
from stator.importers.run import bring as import_transcripts

__all__ = [
    "Brought",
    "Format",
    "Found",
    "Report",
    "Sight",
    "Taken",
    "discover",
    "import_transcripts",
]
