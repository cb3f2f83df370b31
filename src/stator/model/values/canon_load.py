"""Loads tagged values: the reading half of `model.values.canon`, whose docstring describes the tags."""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable
from typing import Any, Final

from stator.model.values.tagged import (
    CODEC_BY_NAME,
    INT_BITS_MAX,
    INT_MAX,
    Foreign,
    Plain,
    Refusal,
    encode,
    has_surrogate,
    text_plain,
    to_base64,
    would_be_ruined,
)


class _Unreadable(Exception):
    """The tag is not one this release writes; it loads as `Foreign`."""


_SCALARS: Final = frozenset((str, int, bool, type(None)))


def load(plain: Plain) -> Any:
    kind = type(plain)
    if kind is dict:
        if len(plain) == 1:
            ((tag, body),) = plain.items()
            if tag[:1] == "$":
                return _load_tag(tag, body)
        loaded = {}
        for key, item in plain.items():
            loaded[key] = item if type(item) in _SCALARS else load(item)
        return loaded
    return _load_list(plain) if kind is list else plain


def _load_list(items: list[Plain]) -> list[Any]:
    loaded = []
    for item in items:
        loaded.append(item if type(item) in _SCALARS else load(item))
    return loaded


def _load_tag(tag: str, body: Plain) -> Any:
    read = _READERS.get(tag)
    if read is not None:
        try:
            return read(body)
        except (_Unreadable, Refusal, ValueError, ArithmeticError):
            pass
    return Foreign(tag, load(body))


def _expect(condition: bool) -> None:
    if not condition:
        raise _Unreadable


def _read_float(body: Plain) -> float:
    _expect(type(body) is str)
    value = float(body)
    _expect(math.isfinite(value) and repr(value) == body)
    return value


def _read_int(body: Plain) -> int:
    _expect(type(body) is str)
    value = int(body, 16)
    _expect(hex(value) == body and abs(value) > INT_MAX and value.bit_length() <= INT_BITS_MAX)
    return value


def _read_bytes(body: Plain) -> bytes:
    _expect(type(body) is str)
    value = binascii.a2b_base64(body)
    _expect(to_base64(value) == body)
    return value


def _read_text(body: Plain) -> str:
    value = _read_bytes(body).decode("utf-8", "surrogatepass")
    _expect(text_plain(value) == {"$u": body})
    return value


def _read_tuple(body: Plain) -> tuple[Any, ...]:
    _expect(type(body) is list)
    return tuple(_load_list(body))


def _read_pairs(body: Plain) -> dict[str, Any]:
    """All keys are judged before any value is loaded, so that no value is ever loaded twice."""
    _expect(type(body) is list)
    keys: dict[str, Plain] = {}
    last = b""
    for pair in body:
        _expect(type(pair) is list and len(pair) == 2)
        key = _read_key(pair[0])
        spelled = encode(pair[0])
        _expect(spelled > last)
        last = spelled
        keys[key] = pair[1]
    _expect(would_be_ruined(keys))
    value = {}
    for key, item in keys.items():
        value[key] = load(item)
    return value


def _read_key(plain: Plain) -> str:
    if type(plain) is str:
        _expect(not has_surrogate(plain))
        return plain
    _expect(type(plain) is dict and plain.keys() == {"$u"})
    return _read_text(plain["$u"])


def _read_typed(body: Plain) -> Any:
    _expect(type(body) is list and len(body) == 2)
    name, text = body
    _expect(type(name) is str and type(text) is str)
    codec = CODEC_BY_NAME.get(name)
    if codec is None:
        raise _Unreadable
    value = codec.read(text)
    _expect(type(value) is codec.kind and codec.write(value) == text)
    return value


_READERS: Final[dict[str, Callable[[Plain], Any]]] = {
    "$f": _read_float,
    "$i": _read_int,
    "$b": _read_bytes,
    "$u": _read_text,
    "$t": _read_tuple,
    "$m": _read_pairs,
    "$x": _read_typed,
}
