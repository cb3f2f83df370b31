"""The parts of the tagged form that writing and reading share: limits, refusals, canonical bytes and standard types."""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable
from datetime import date, datetime, time, timezone, tzinfo
from decimal import Decimal
from typing import Any, Final, NoReturn, TypeAlias
from uuid import UUID

import msgspec

from stator.errors import BadNumber, BadText, BadType, InvalidInput, TooDeep, TooLarge

Plain: TypeAlias = Any
"""A value that JSON keeps exactly; see the module's first paragraph."""
INT_MAX: Final = 2**53 - 1
"""The largest integer every JSON reader keeps exactly."""
INT_MIN: Final = -INT_MAX
INT_BITS_MAX: Final = 32_768
"""Some 9,800 decimal digits: far past any key or counter, far below a denial of service."""
DEPTH_MAX: Final = 128
"""Containers in containers. A level is at most three JSON levels, which the encoder's own
recursion limit still allows from an ordinary stack."""
BYTES_MAX: Final = 64 * 2**20
"""Text in one value, in UTF-8 as recorded: strings, keys and the text inside tags."""
KEY_SHOWN_MAX: Final = 80
"""Characters of a key that a path in an error message shows."""


class Foreign(msgspec.Struct, frozen=True):
    """A tag this release cannot read, kept so that it is written back unchanged."""

    tag: str
    """The object's only key, with its "$"."""
    value: Any
    """The value under the tag, loaded as far as possible."""


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder()


def encode(plain: Plain) -> bytes:
    """The canonical bytes of a plain value."""
    try:
        return _encoder.encode(plain)
    except RecursionError:
        raise stack_spent("$") from None
    except TypeError as error:
        raise BadType(f"not a plain value: {error}", hint="pass it through to_plain") from None
    except ValueError as error:
        raise BadText(f"not a plain value: {error}", hint="pass it through to_plain") from None


def decode(data: bytes) -> Plain:
    """The plain value of canonical bytes; `BadText` if they are not JSON."""
    try:
        return _decoder.decode(data)
    except RecursionError:
        raise stack_spent("$") from None
    except ValueError as error:
        raise BadText(f"not canonical JSON: {error}") from None


def stack_spent(path: str) -> TooDeep:
    return TooDeep(
        "the call stack ended inside a nested value",
        path=path,
        hint=f"nest at most {DEPTH_MAX} levels, and record from a shallower call",
    )


class Refusal(Exception):
    """An error to be; each container it passes on the way up adds its step of the path."""

    def __init__(self, kind: type[InvalidInput], what: str, hint: str = "") -> None:
        super().__init__(what)
        self.kind = kind
        self.what = what
        self.hint = hint
        self.trail: list[str | int] = []

    def error(self, path: str) -> InvalidInput:
        steps = "".join(path_step(step) for step in reversed(self.trail))
        return self.kind(self.what, path=path + steps, hint=self.hint)


def path_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if len(step) > KEY_SHOWN_MAX:
        step = step[:KEY_SHOWN_MAX] + "…"
    if step.isascii() and step.isidentifier():
        return f".{step}"
    return f"[{json.dumps(step)}]"


type_name: Callable[[type], str] = type.__dict__["__qualname__"].__get__
"""The name of a class without asking its metaclass, which may be the caller's."""
_HINTS: Final[tuple[tuple[type, str], ...]] = (
    (set, "pass a sorted list"),
    (frozenset, "pass a sorted list"),
    (bytearray, "pass bytes(value)"),
    (memoryview, "pass bytes(value)"),
    (complex, "pass [value.real, value.imag]"),
)


def refuse_type(kind: type) -> NoReturn:
    hint = "turn it into a dict, list, str, number or bytes first"
    for known, better in _HINTS:
        if issubclass(kind, known):
            hint = better
    raise Refusal(BadType, f"a value of type {type_name(kind)[:KEY_SHOWN_MAX]}", hint)


def refuse_size() -> NoReturn:
    what = f"more than {BYTES_MAX} bytes of text in one value"
    raise Refusal(TooLarge, what, "record it in parts")


def text_plain(text: str) -> Plain:
    if not has_surrogate(text):
        return text
    return {"$u": to_base64(text.encode("utf-8", "surrogatepass"))}


def has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def would_be_ruined(keys: dict[str, Any]) -> bool:
    """Whether an object with these keys would be read as a tag, sorted differently, or refused."""
    if len(keys) == 1:
        (only,) = keys
        if only[:1] == "$":
            return True
    return any(not key.isascii() and (max(key) > "\uffff" or has_surrogate(key)) for key in keys)


def to_base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


class _Codec(msgspec.Struct, frozen=True):
    """How one standard type is spelled. A name that was written once never changes its meaning."""

    name: str
    kind: type
    write: Callable[[Any], str]
    read: Callable[[str], Any]


def _write_datetime(value: datetime) -> str:
    if not (_is_fixed(value.tzinfo) or _is_zoneinfo(value.tzinfo)):
        raise Refusal(BadType, "a datetime with an unusual tzinfo", "use value.astimezone(UTC)")
    return value.isoformat()


def _write_time(value: time) -> str:
    if not _is_fixed(value.tzinfo):
        raise Refusal(BadType, "a time with an unusual tzinfo", "use a datetime")
    return value.isoformat()


def _is_fixed(zone: tzinfo | None) -> bool:
    """No zone, or an offset in whole seconds: `fromisoformat` misreads some finer ones."""
    return zone is None or (type(zone) is timezone and zone.utcoffset(None).microseconds == 0)


def _is_zoneinfo(zone: tzinfo | None) -> bool:
    from zoneinfo import ZoneInfo  # only where a zone is at hand: it is slow to import

    return type(zone) is ZoneInfo


def _write_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise Refusal(BadNumber, f"the number {value}", "use None or text")
    # The thread's decimal context may ask for "1e+9"; the record always says "1E+9".
    return str(value).upper()


CODECS: Final = (
    _Codec("datetime", datetime, _write_datetime, datetime.fromisoformat),
    _Codec("date", date, date.isoformat, date.fromisoformat),
    _Codec("time", time, _write_time, time.fromisoformat),
    _Codec("decimal", Decimal, _write_decimal, Decimal),
    _Codec("uuid", UUID, str, UUID),
)
CODEC_BY_NAME: Final = {codec.name: codec for codec in CODECS}
