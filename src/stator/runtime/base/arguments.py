"""Checks what callers pass: a typed error with the argument's name, never an `AttributeError`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from stator.errors import BadNumber, InvalidInput
from stator.model.log.shown_text import cut_short

THOUSANDTHS_MAX = 2**53 - 1
CAUSE_MAX = 500


def text(value: object, name: str) -> str:
    """A string argument, or `InvalidInput` with its name."""
    if not isinstance(value, str):
        raise _expected("text", value, name)
    return str.__str__(value)


def texts(value: object, name: str) -> list[str]:
    """Several strings."""
    if not isinstance(value, (tuple, list)) and (
        isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable)
    ):
        raise _expected("a list of texts", value, name)
    return [text(item, name) for item in value]


def mapping(value: object, name: str) -> dict[Any, Any]:
    """A dict; None becomes an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _expected("a dict", value, name)
    return dict(value)


def pairs(value: object, name: str) -> list[list[str]]:
    """(source, foreign id) pairs."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise _expected("a list of (source, id) pairs", value, name)
    found = [texts(pair, name) for pair in value]
    if any(len(pair) != 2 for pair in found):
        raise InvalidInput("an alias is a pair: (source, id)", path=f"$.{name}")
    return found


def thousandths(value: object, name: str) -> int:
    """A number in thousandths, as it is recorded."""
    if not isinstance(value, (int, float)):
        raise _expected("a number", value, name)
    if not math.isfinite(value) or abs(value) * 1000 > THOUSANDTHS_MAX:
        raise BadNumber(f"{value!r:.40} cannot be stored in thousandths", path=f"$.{name}")
    return round(value * 1000)


def cause(value: str) -> str:
    """A reason as it may be in a commit's structure: short, and text that UTF-8 can hold."""
    return cut_short(value, CAUSE_MAX).encode("utf-8", "replace").decode()


def _expected(what: str, value: object, name: str) -> InvalidInput:
    return InvalidInput(f"expected {what}, got {type(value).__name__}", path=f"$.{name}")
