"""Lays out help text: paragraphs, and rows of a term with its explanation, wrapped once to a given width.

Plain strings in and out: nothing here reads markup or emoji codes. Imports nothing, because `stator --help` uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

TERM_MAX = 30
"""Columns of a term; the explanation of a longer one begins on the next line."""
ROOM_MIN = 30
"""With less room than this beside its term, an explanation goes under it."""
UNDER = 6
"""How far an explanation under its term is indented."""


def wrap(text: str, width: int) -> list[str]:
    """The words of a text in lines of at most `width` characters; a longer word has a line to itself."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def paragraphs(text: str, width: int) -> list[str]:
    """A text whose paragraphs are separated by blank lines, each wrapped."""
    made: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        made += ["", *wrap(paragraph, width)] if made else wrap(paragraph, width)
    return made


def rows(
    pairs: Iterable[tuple[str, str]], width: int, *, term_min: int = 0, term_max: int = TERM_MAX
) -> Iterator[str]:
    """Terms on the left, their explanations on the right, or under them where there is no room."""
    known = list(pairs)
    terms = [len(term) for term, text in known if text and len(term) <= term_max]
    left = max([term_min, *terms]) + 4
    is_wide = bool(terms) and width - left >= ROOM_MIN
    indent = left if is_wide else UNDER
    for term, text in known:
        lines = wrap(text, width - indent)
        if lines and is_wide and len(term) + 4 <= left:
            yield f"  {term}".ljust(left) + lines.pop(0)
        else:
            yield f"  {term}"
        yield from (" " * indent + line for line in lines)
