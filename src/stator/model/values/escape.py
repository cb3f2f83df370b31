"""Visible text: recorded text on one line, every character of it showing as what it is.

Sequences that clear a screen, marks that reverse the reading direction, characters of no width that
hide text in text, line breaks that would begin a line of their own: all are spelled out (`\\x1b`,
`\\u202e`), nothing is dropped. Terminals and briefs are both written with this.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

MARKS_MAX = 4
"""Combining marks on one character; more of them climb into the lines above and below."""

_PLAIN = re.compile(r"[\x20-\x7e]*\Z")
_TAG = re.compile(r"<(?=[/|!?A-Za-z])")
"""The start of something that a model could mistake for a tag or a chat marker."""
_HIDDEN = frozenset(
    [
        *range(0xFE00, 0xFE0E),  # variation selectors, but for the two that choose text or emoji
        *range(0xE0100, 0xE01F0),
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F),
        *(0x2028, 0x2029, 0x2800, 0x3164, 0xFFA0),
    ]
)
"""Characters that show nothing, or break a line, without being of the categories below."""
_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Cn", "Co"})
"""Controls, format marks (bidi, zero width, tags), lone surrogates, unassigned, private."""


_MARKS = frozenset({"Mn", "Me"})
_ASCII = frozenset(map(chr, (0x0A, *range(0x20, 0x7F))))
"""Characters that are shown as they are, and the line break, which is shown as a caller wants."""


def visible(text: str, *, newline: str = "⏎") -> str:
    """The text on one line, every character of it visible; line breaks are shown as `newline`."""
    if _PLAIN.match(text):
        return text
    text = text.replace("\r\n", "\n")
    if all(
        map(_is_shown, set(text) - _ASCII)
    ):  # almost all texts, and much sooner known than the rest
        return text.replace("\n", newline)
    shown: list[str] = []
    marks = 0
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category in _MARKS else 0
        if char == "\n":
            shown.append(newline)
        elif category in _CATEGORIES or ord(char) in _HIDDEN or marks > MARKS_MAX:
            shown.append(_escaped(char))
        else:
            shown.append(char)
    return "".join(shown)


def guarded(text: str) -> str:
    """The text as it may be put between « and »: visible, on one line, and nothing in it can close them or look like
    a tag or a chat marker."""
    shown = visible(text, newline="\\n").replace("«", "\\xab").replace("»", "\\xbb")
    return _TAG.sub(r"\\x3c", shown)


@lru_cache(maxsize=4096)
def _is_shown(char: str) -> bool:
    """Whether a character shows as it is, wherever it is in a text."""
    category = unicodedata.category(char)
    return category not in _CATEGORIES and category not in _MARKS and ord(char) not in _HIDDEN


def _escaped(char: str) -> str:
    code = ord(char)
    if char == "\t":
        return "\\t"
    if char == "\r":
        return "\\r"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
