"""Escaping: recorded text as a terminal may safely show it. Every human rendering passes through here.

What an agent recorded can hold anything a tool or a web page said: sequences that clear the screen, retitle the
window or fill the clipboard, carriage returns and backspaces that overwrite what stands before them, marks that
reverse the reading direction, characters of no width that hide text in text. All of these are shown as what they are
(`\\x1b`, `\\u202e`); nothing is dropped, so nothing can hide by being unprintable. Markup is not a concern of this
file: no renderer here interprets any.
"""

from __future__ import annotations

from stator.model.values.escape import visible

LINE_MAX = 4000
"""Characters of one recorded line that a screen ever shows; the rest is counted."""


class Shown(str):
    """Text that has been through here and need not go through again."""

    __slots__ = ()


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
