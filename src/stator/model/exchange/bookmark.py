"""How far a source of a recorded session was read: a note that a store keeps beside the log.

It is no part of the log. It may be dropped at any time: then the source is read again from its beginning, and
what is known by its id is skipped.
"""

from __future__ import annotations

from typing import Any

import msgspec

HOOKS = "hooks"
"""The name of the note on what the hooks of a conversation reported last."""
TRANSCRIPT = "transcript"
"""The name of the note on how far a session's transcript was read."""


class Bookmark(msgspec.Struct, frozen=True):
    """The note of one source, under a name. A store keeps the newest."""

    name: str
    number: int
    """How often it was written. A new note must have the next number: of two processes that read the
    same source, the second starts again from what the first one left."""
    value: Any
