"""Escapes recorded text so that a terminal can show it safely. All output for people passes through here.

Recorded text can contain anything that a tool or a web page returned: sequences that clear the screen, change the
window title or fill the clipboard, carriage returns and backspaces that overwrite earlier text, marks that reverse
the reading direction, characters without width that hide text. All of them are shown as escapes (`\\x1b`,
`\\u202e`). Nothing is dropped, so nothing can hide by being unprintable. Markup needs no escaping: no renderer here
reads any.
"""

from __future__ import annotations

from stator.model.values.escape import visible

LINE_MAX = 4000
"""At most this many characters of one recorded line are shown; the rest is counted."""


class EscapedText(str):
    """Text that is escaped already, so that it is not escaped twice."""

    __slots__ = ()


def lines(text: str, *, lines_max: int = 10_000) -> list[EscapedText]:
    """The lines of a text, each escaped and bounded; tabs become spaces."""
    found = text.split("\n", lines_max)
    rest = found.pop() if len(found) > lines_max else ""
    shown = [bounded(line.removesuffix("\r").expandtabs(4)) for line in found]
    return [*shown, EscapedText(f"… (+{len(rest):,} characters)")] if rest else shown


def bounded(text: str, limit: int = LINE_MAX) -> EscapedText:
    """At most `limit` characters of the text, escaped, and the number of characters left out."""
    if isinstance(text, EscapedText):
        return text
    if len(text) <= limit:
        return EscapedText(visible(text))
    return EscapedText(f"{visible(text[:limit])}… (+{len(text) - limit:,} characters)")
