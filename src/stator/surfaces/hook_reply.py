"""Finds which texts of ours are in the answer of a hook, for the line that says what was given."""

from __future__ import annotations

import json
from typing import Any

from stator.model.brief.received import GAVE
from stator.model.exchange.own_notes import notes_in

NAMES = ("session_id", "conversation_id", "transcript_path", "cwd", "parent_id", "version")
"""The fields by which a mapper finds the conversation of a line."""


def given(reply: bytes, hook_input: dict[str, Any]) -> dict[str, Any]:
    """The line about an answer; empty if there is no text of ours in it, and for a sub-agent, whose texts arrive in
    another transcript."""
    notes = [note for text in _texts(json.loads(reply)) for note in notes_in(text)]
    if not notes or hook_input.get("agent_id"):
        return {}
    known = {name: hook_input[name] for name in NAMES if name in hook_input}
    found = [{"kind": note.kind, "id": note.id} for note in notes]
    return {"hook_event_name": GAVE, **known, "given": found}


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in _texts(one)]
    return [value] if isinstance(value, str) else []
