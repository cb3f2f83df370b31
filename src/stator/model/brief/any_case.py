"""Looks for words in any case. Pure.

A pattern that ignores case takes several times as long as one of small letters over a text in small letters. Both find
the same, but for three characters whose small letters are not those that the pattern takes them for.
"""

from __future__ import annotations

import re

from stator.model.values.late_pattern import late

_ODD = late("[ſİı]")
"""Characters that a pattern takes for an s or an i when it ignores case."""


class AnyCase:
    """A pattern of small letters, for texts in any case."""

    def __init__(self, pattern: str) -> None:
        self._small = late(pattern)
        self._any = late(pattern, re.IGNORECASE)

    def is_in(self, text: str) -> bool:
        if not text.isascii() and _ODD.search(text):
            return self._any.search(text) is not None
        return self._small.search(text.lower()) is not None

    def count(self, text: str) -> int:
        """How often it is in a text."""
        if not text.isascii() and _ODD.search(text):
            return len(self._any.findall(text))
        return len(self._small.findall(text.lower()))
