"""The public door of importing: finds other agents' transcripts on disk and records them as sessions.

    with stator.connect() as store:
        discovery = stator.importing.discover(["~/.claude/projects"])
        print(stator.importing.import_transcripts(store, discovery).total)

Both are plain functions; in a coroutine use `await asyncio.to_thread(…)`. `Format` is the protocol
that a package implements to add its own format. See the guide on importing.
"""

from __future__ import annotations

from stator.importers.conversation import Report
from stator.importers.discover import Discovery, discover
from stator.importers.format import Format
from stator.importers.reading.found_conversation import FoundConversation
from stator.importers.run import ImportedConversation, ImportResult, import_transcripts
from stator.model.exchange import items

__all__ = [
    "Discovery",
    "Format",
    "FoundConversation",
    "ImportResult",
    "ImportedConversation",
    "Report",
    "discover",
    "import_transcripts",
    "items",
]
