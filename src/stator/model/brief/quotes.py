"""Quotes recorded text for a model: on one line, between delimiters that the text cannot close. Pure."""

from __future__ import annotations

import re

import msgspec

from stator.model.values.escape import visible

_TAG = re.compile(r"<(?=[/|!?A-Za-z])")
"""The start of something that a model could mistake for a tag or a chat marker."""


class Quoting(msgspec.Struct, frozen=True):
    """How recorded text is delimited."""

    before: str = "«"
    after: str = "»"
    xml: bool = False

    def quoted(self, text: str) -> str:
        """Recorded text between delimiters; nothing in it can close them, or begin a line."""
        shown = visible(text, newline="\\n")
        if self.xml:
            shown = shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        else:
            shown = shown.replace("«", "\\xab").replace("»", "\\xbb")
            shown = _TAG.sub(r"\\x3c", shown)
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
