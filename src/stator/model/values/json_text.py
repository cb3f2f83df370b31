"""Recorded values as JSON that any reader takes: what a provider is sent, as data and as text.

The tagged form of `canon` keeps every value exactly; a provider wants plain JSON. Numbers stay
numbers, tuples become lists, a lone surrogate becomes "?", and what JSON has no word for (bytes,
dates) keeps its tag. Equal values give equal bytes in every process.
"""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from stator.model.values import canon


def clean(value: Any) -> Any:
    """The value as data `json` can write and UTF-8 can hold."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {utf8(str(key)): clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    return canon.to_plain(value)


def utf8(text: str) -> str:
    """Text without lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def canonical(value: Any) -> str:
    """One line of JSON: keys sorted, no spaces."""
    return json.dumps(clean(value), ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def shown(value: Any) -> str:
    """What a reader is shown of a value: text as it is, anything else as JSON."""
    return utf8(value) if isinstance(value, str) else canonical(value)


def parse_object(text: Any) -> tuple[dict[str, Any], str]:
    """The JSON object a text spells, and why it does not ("" if it does). No text is an empty one."""
    if not isinstance(text, str):
        return ({}, "") if text is None else ({}, "the arguments are not JSON text")
    if not text.strip():
        return {}, ""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return {}, f"the arguments are not JSON: {error}"
    return (value, "") if isinstance(value, dict) else ({}, "the arguments are not a JSON object")
