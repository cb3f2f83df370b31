"""Wraps each text that Stator gives to an agent, so that it is recognized where it comes back. Pure.

A text comes back in a transcript, where it shows that the agent received it and where it is nobody's words. The id is
a digest of the text: a text that was cut or changed on its way has another one.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Literal, get_args

import msgspec

NoteKind = Literal["start", "prompt", "file", "handover"]
"""What a text is: the dose at the start of a session or with its first prompt, a notice that another agent changed a
file, the request for a handover."""
KINDS: tuple[NoteKind, ...] = get_args(NoteKind)
TAG = "stator-note"
ID_BYTES = 4
_NOTE = re.compile(
    rf'<{TAG} kind="({"|".join(KINDS)})" id="([0-9a-f]{{{2 * ID_BYTES}}})">\n(.*?)(?:\n</{TAG}>|\Z)',
    re.DOTALL,
)


class OwnNote(msgspec.Struct, frozen=True):
    """A text of ours that was found in another text."""

    kind: NoteKind
    id: str
    whole: bool
    """It arrived as it was given."""
    start: int
    end: int


def note_id(text: str) -> str:
    return blake2b(text.encode(), digest_size=ID_BYTES).hexdigest()


def wrapped(kind: NoteKind, text: str) -> str:
    """The text as an agent gets it. Quoted text cannot contain the closing tag."""
    return f'<{TAG} kind="{kind}" id="{note_id(text)}">\n{text}\n</{TAG}>'


def notes_in(text: str) -> list[OwnNote]:
    """Every text of ours in another one, in order."""
    if TAG not in text:
        return []
    return [
        OwnNote(
            _kind(found[1]), found[2], note_id(found[3]) == found[2], found.start(), found.end()
        )
        for found in _NOTE.finditer(text)
    ]


def without_notes(text: str) -> str:
    """What is left of a text without ours; empty if it is ours altogether."""
    left, place = "", 0
    for note in notes_in(text):
        left += text[place : note.start]
        place = note.end
    return (left + text[place:]).strip() if place else text


def _kind(name: str) -> NoteKind:
    return next(kind for kind in KINDS if kind == name)
