"""Recognises a line that reports the same event as the line before it.

If two settings files of an agent start our hook (the user's and the project's), each event is reported twice, at
the same moment and with the same input. What has an id of its own is recorded once anyway; a start or an end has none.
"""

from __future__ import annotations

from typing import Any

from stator.hooks.spool import SpoolLine
from stator.model.values.digest import sha256
from stator.model.values.json_text import canonical

LAST = "last line"
"""A key in the state that is kept between the lines of a conversation."""


def repeats_last(line: SpoolLine, state: dict[str, Any]) -> bool:
    """Whether the line before, of the same process, says exactly the same. Remembers this one."""
    text = canonical([line.agent, list(line.process), line.payload])
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    is_same = state.get(LAST) == digest
    state[LAST] = digest
    return is_same
