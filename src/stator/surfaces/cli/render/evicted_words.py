"""Says in words how much left an agent's view, by kind."""

from __future__ import annotations

from collections.abc import Mapping

WORDS = {
    "decision": ("decision", "decisions"),
    "request": ("request", "requests"),
    "rule": ("rule or dead end", "rules and dead ends"),
    "number": ("number", "numbers"),
    "file": ("file", "files"),
    "chatter": ("message or call", "messages and calls"),
}
"""What left the view, as people call it: one, and several."""
RECORDED = {"constraint": "request"}
"""What commits call a kind, where that is another word: most of these are requests."""


def in_words(counted: Mapping[str, int]) -> str:
    """2 decisions, 1 request, 40 messages and calls"""
    found = ((kind, counted[kind]) for kind in WORDS if counted.get(kind))
    return ", ".join(f"{many:,} {WORDS[kind][many != 1]}" for kind, many in found)


def recorded_in_words(left: Mapping[str, object]) -> str:
    """The same of what a commit says that left."""
    known = {RECORDED.get(kind, kind): many for kind, many in left.items()}
    return in_words({kind: many for kind, many in known.items() if isinstance(many, int)})
