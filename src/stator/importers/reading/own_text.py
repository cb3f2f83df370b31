"""Recognizes the texts that Stator itself adds to an agent's conversation: they are nobody's words."""

from __future__ import annotations

RECORDED_AS = "Stator records this session as "
TAKEN_BY = " Its MCP tools take that as `session`"
"""Both are in the answer to every session-start hook, after the brief."""


def is_ours(text: str) -> bool:
    """Whether a text is our own answer to a hook, with the brief before it."""
    place = text.rfind(RECORDED_AS)
    return place >= 0 and TAKEN_BY in text[place : place + 200]
