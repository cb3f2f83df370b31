"""Decides whether the name of a session is made of the words of its prompt. Loads little: every list asks it."""

from __future__ import annotations

from stator.model.values.late_pattern import late

COPY = late(r" [0-9a-f]{8}\Z")
"""What is added to the name of a session that would be that of another."""


def is_words_of(name: str, prompt: str) -> bool:
    """Whether the name of a session is words of a prompt."""
    words = " ".join(COPY.sub("", name).rstrip("… ").split())
    return bool(words) and words in " ".join(prompt.split())
