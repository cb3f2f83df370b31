"""The boundary around one line of a transcript: an odd shape in it costs that line and nothing else.

Transcripts come from other programs. A field may have any type, and no reader can foresee each of
them. So a format reads every line, message or record through here: what it raises for a shape that it
did not expect becomes a `Skipped`, which the import counts and reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from stator.errors import InvalidInput
from stator.model.exchange.items import Item, Skipped

SHAPE_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading a value of an unexpected shape raises."""
T = TypeVar("T")


def whole_line(items: Iterator[Item], line: int) -> Iterator[Item]:
    """All items of one line. If its shape is not the expected one: none, and that it was skipped."""
    try:
        read = list(items)
    except (*SHAPE_ERRORS, InvalidInput) as error:
        yield Skipped(line=line, why=f"unexpected shape: {type(error).__name__}")
        return
    yield from read


def looked_at(look: Callable[..., T], *arguments: Any, default: T) -> T:
    """What a look at one line says before the file is imported; the default if its shape is odd."""
    try:
        return look(*arguments)
    except SHAPE_ERRORS:
        return default
