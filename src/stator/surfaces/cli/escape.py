"""Escaping: recorded text as a terminal may safely show it. Every human rendering passes through here.

What an agent recorded can hold anything a tool or a web page said: sequences that clear the screen, retitle the
window or fill the clipboard, carriage returns and backspaces that overwrite what stands before them, marks that
reverse the reading direction, characters of no width that hide text in text. All of these are shown as what they are
(`\\x1b`, `\\u202e`); nothing is dropped, so nothing can hide by being unprintable. Markup is not a concern of this
file: no renderer here interprets any.
"""

from __future__ import annotations

import re
import unicodedata

LINE_MAX = 4000
"""Characters of one recorded line that a screen ever shows; the rest is counted."""
MARKS_MAX = 4
"""Combining marks on one character; more of them climb into the lines above and below."""

_PLAIN = re.compile(r"[\x20-\x7e]*\Z")
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


class Shown(str):
    """Text that has been through here and need not go through again."""

    __slots__ = ()


def visible(text: str) -> str:
    """The text on one line, every character of it visible; line breaks are shown as ⏎."""
    if _PLAIN.match(text):
        return text
    shown: list[str] = []
    marks = 0
    for char in text.replace("\r\n", "\n"):
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if char == "\n":
            shown.append("⏎")
        elif category in _CATEGORIES or ord(char) in _HIDDEN or marks > MARKS_MAX:
            shown.append(_escaped(char))
        else:
            shown.append(char)
    return "".join(shown)


def lines(text: str, *, lines_max: int = 10_000) -> list[Shown]:
    """The text line by line, each visible and bounded; tabs become spaces."""
    found = text.split("\n", lines_max)
    rest = found.pop() if len(found) > lines_max else ""
    shown = [bounded(line.removesuffix("\r").expandtabs(4)) for line in found]
    return [*shown, Shown(f"… (+{len(rest):,} characters)")] if rest else shown


def bounded(text: str, limit: int = LINE_MAX) -> Shown:
    """At most `limit` characters of the text, visible, and how many were left out."""
    if isinstance(text, Shown):
        return text
    if len(text) <= limit:
        return Shown(visible(text))
    return Shown(f"{visible(text[:limit])}… (+{len(text) - limit:,} characters)")


def _escaped(char: str) -> str:
    code = ord(char)
    if char == "\t":
        return "\\t"
    if char == "\r":
        return "\\r"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
