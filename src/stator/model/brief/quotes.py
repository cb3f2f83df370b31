"""Quotes recorded text for a model: on one line, between delimiters that the text cannot close. Pure."""

from __future__ import annotations

import msgspec

from stator.model.values.escape import guarded, visible


class Quoting(msgspec.Struct, frozen=True):
    """How recorded text is delimited."""

    before: str = "«"
    after: str = "»"
    xml: bool = False

    def quoted(self, text: str) -> str:
        """Recorded text between delimiters; nothing in it can close them, or begin a line."""
        if self.xml:
            shown = visible(text, newline="\\n")
            shown = shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        else:
            shown = guarded(text)
        return f"{self.before}{shown}{self.after}"

    def cut(self, text: str, limit: int, whole: int = 0) -> str:
        """The text quoted, if that takes at most `whole` bytes; else at most `limit` bytes of it, and
        how many characters were left out."""
        if len(text) <= whole and len((quoted := self.quoted(text)).encode()) <= whole:
            return quoted
        kept = min(len(text), limit)
        while len((quoted := self.quoted(text[:kept])).encode()) > limit and kept:
            kept = kept * 3 // 4
        left = len(text) - kept
        return f"{quoted}… (+{left:,} characters)" if left else quoted
