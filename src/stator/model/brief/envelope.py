"""Wraps each text that Stator gives to an agent, so that it is recognized where it comes back. Pure.

A text comes back in a transcript, where it shows that the agent received it and where it is nobody's words
(`model.exchange.own_notes`). The id is a digest of the text: a text that was cut or changed on its way has another one.
"""

from __future__ import annotations

from stator.model.exchange.own_notes import (
    KINDS,
    TAG,
    NoteKind,
    OwnNote,
    note_id,
    notes_in,
    without_notes,
)

__all__ = ["KINDS", "TAG", "NoteKind", "OwnNote", "note_id", "notes_in", "without_notes", "wrapped"]


def wrapped(kind: NoteKind, text: str) -> str:
    """The text as an agent gets it. Quoted text cannot contain the closing tag."""
    return f'<{TAG} kind="{kind}" id="{note_id(text)}">\n{text}\n</{TAG}>'
