"""Keys that name a session and something in it: `SESSION:@42`, `SESSION:decision:auth`, `SESSION:call:c_…`.

Every answer gives them in this form, and every tool takes them as they are. Pure but for `Scope.short_handle`.
"""

from __future__ import annotations

import re

from stator.model.records.tables import RECALLED
from stator.model.values.ids import PREFIXES, is_id, suffix_of
from stator.model.views.why import PREFIXES as ASKED
from stator.model.window.compaction import GROUPS

KINDS = frozenset((*RECALLED, *ASKED, *GROUPS, "entry", "call"))
"""What a key without its session begins with, before a colon."""
_SEQ = re.compile(r"(?:entry:)?@([0-9]{1,15})\Z")
_CALL = re.compile(r"(?:call:)?(c_[0-9a-f]{4,32})\Z")


def is_key(text: str) -> bool:
    """Whether a text is a key without its session."""
    kind, colon, name = text.partition(":")
    if colon and name and kind in KINDS:
        return True
    return bool(_SEQ.match(text) or _CALL.match(text))


def split_key(text: str) -> tuple[str, str]:
    """The session that a key names, empty if none, and the key in it. A name of a session may hold colons."""
    if is_key(text):
        return "", text
    for place, char in enumerate(text):
        if char == ":" and place and is_key(text[place + 1 :]):
            return text[:place], text[place + 1 :]
    head, colon, rest = text.partition(":")
    return (head, rest) if colon and rest and is_handle(head) else ("", text)


def is_handle(text: str) -> bool:
    """Whether a text looks like the handle of a session, whole or its end."""
    if is_id(text, "session"):
        return True
    return text.startswith(PREFIXES["session"]) and suffix_of(text, "session") is not None


def seq_in(key: str) -> int | None:
    """The seq that a key names; None if it names something else."""
    found = _SEQ.match(key)
    return int(found[1]) if found else None


def call_in(key: str) -> str:
    """The call that a key names; empty if it names something else."""
    found = _CALL.match(key)
    return found[1] if found else ""
