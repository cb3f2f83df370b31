"""Splits what was said into pieces that a page sets apart: code, what is stressed, and the words between.

Only these marks of Markdown are read; links, pictures and HTML stay text, because what was recorded is hostile. Every
piece is text, which the template escapes.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stator.model.values.late_pattern import late

_FENCE = "```"
_MARKED = late(r"(?m)^#{1,6} +(?P<head>.+)$|`(?P<code>[^`\n]+)`|\*\*(?P<strong>[^*\n]+)\*\*")
_MARKS = late(r"(?m)^ {0,3}(?:#{1,6} +|```.*$)|[`]|\*\*")


class Piece(msgspec.Struct, frozen=True):
    """A part of a text; its kind is empty (words), strong, code, or block (lines of code)."""

    kind: str
    text: str


def pieces(text: str) -> list[Piece]:
    """A text in pieces, in order. A block that has no end reaches to the end of the text."""
    found: list[Piece] = []
    words: list[str] = []
    block: list[str] | None = None
    for line in text.split("\n"):
        if not line.lstrip().startswith(_FENCE):
            (words if block is None else block).append(line)
        elif block is None:
            found += _inline("\n".join(words).strip("\n"))
            words, block = [], []
        else:
            found.append(Piece("block", "\n".join(block)))
            block = None
    if block is not None:
        found.append(Piece("block", "\n".join(block)))
    return found + list(_inline("\n".join(words).strip("\n")))


def _inline(text: str) -> Iterator[Piece]:
    end = 0
    for match in _MARKED.finditer(text):
        if match.start() > end:
            yield Piece("", text[end : match.start()])
        kind = str(match.lastgroup)
        is_head = kind == "head"
        yield Piece(
            "strong" if is_head else kind, unmarked(match[kind]) if is_head else match[kind]
        )
        end = match.end()
    if end < len(text):
        yield Piece("", text[end:])


def marked(found: list[Piece]) -> int:
    """How many of the pieces are more than words: each is an element of the page."""
    return sum(bool(piece.kind) for piece in found)


def unmarked(text: str) -> str:
    """The words of a text without marks, as a list shows its beginning on one line."""
    return " ".join(_MARKS.sub("", text).split())
