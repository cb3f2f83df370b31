"""Encodes values as canonical bytes, and Python values that JSON cannot hold in a permanent tagged form.

A *plain* value is what JSON keeps exactly: `dict` with `str` keys, `list`, `str`, `bool`, `None`
and `int` within ±(2**53 - 1). `encode` gives its one canonical spelling: UTF-8 JSON without spaces,
object keys sorted by code point, equal to RFC 8785 on every value `to_plain` returns. A
`msgspec.Struct` is encoded with its fields in declared order: declare them sorted where RFC 8785
is meant.

A *foreign* value is anything that a tool received or returned. `to_plain` writes what JSON lacks or ruins
as a *tag*, an object whose only key starts with "$":

    {"$f": "1.5"}              float, by `repr`; "-0.0" is kept, NaN and infinity are refused
    {"$i": "0x20000000000000"} int outside ±(2**53 - 1), by `hex`: unlike decimal text it has no
                               conversion limit that depends on the process; INT_BITS_MAX bits
    {"$b": "AAE="}             bytes, in base64 (RFC 4648 §4, padded)
    {"$u": "7aCA"}             str with a lone surrogate: base64 of its UTF-8, surrogates passed through
    {"$t": [...]}              tuple
    {"$m": [[key, value], …]}  dict that an object would ruin: a key with a character beyond U+FFFF
                               (RFC 8785 would sort it elsewhere), a key with a lone surrogate, or a
                               single key that starts with "$". Sorted by the key's canonical bytes
    {"$x": [type, text]}       datetime, date, time (`isoformat`), decimal (`str`), uuid (`str`)

Every value has one form: a tag is read as its type only if writing what was read gives the same
tag again. All others (a type from a newer release, a damaged text) load as `Foreign`, which is
written back byte for byte; loading never fails for want of a type. (A `Foreign` and each list or
dict under it is one level of nesting when written back.)

Of an aware datetime the offset is kept, not the zone's name; `fold` is not kept. Text is never
normalised: NFC and NFD keys are two keys, and NUL is a character like any other.

No method that a caller's class defines is ever called: subclasses of the built-in types are read
through the base class, everything else is refused with its path. Nothing here touches the disk.
"""

from __future__ import annotations

import binascii
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timezone, tzinfo
from decimal import Decimal
from typing import Any, Final, NoReturn, TypeAlias
from uuid import UUID

import msgspec

from stator.errors import BadNumber, BadText, BadType, Cyclic, InvalidInput, TooDeep, TooLarge

__all__ = [
    "BYTES_MAX",
    "DEPTH_MAX",
    "INT_BITS_MAX",
    "INT_MAX",
    "NODES_MAX",
    "Foreign",
    "Plain",
    "Scrub",
    "decode",
    "dumps",
    "encode",
    "from_plain",
    "loads",
    "to_plain",
]

Plain: TypeAlias = Any
"""A value that JSON keeps exactly; see the module's first paragraph."""

Scrub: TypeAlias = Callable[[str, str | None], str]
"""(text, nearest dict key or None) -> the text to record instead."""

INT_MAX: Final = 2**53 - 1
"""The largest integer every JSON reader keeps exactly."""

_INT_MIN: Final = -INT_MAX

INT_BITS_MAX: Final = 32_768
"""Some 9,800 decimal digits: far past any key or counter, far below a denial of service."""

DEPTH_MAX: Final = 128
"""Containers in containers. A level is at most three JSON levels, which the encoder's own
recursion limit still allows from an ordinary stack."""

NODES_MAX: Final = 1_000_000
"""Values in one value, itself and all those inside; dict keys are not counted apart."""

BYTES_MAX: Final = 64 * 2**20
"""Text in one value, in UTF-8 as recorded: strings, keys and the text inside tags."""

_SURELY_FITS: Final = BYTES_MAX // 8
"""ASCII text below this length stays within the limit even if placeholders make it longer, so it is not checked."""

_KEY_SHOWN_MAX: Final = 80
"""Characters of a key that a path in an error message shows."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A tag this release cannot read, kept so that it is written back unchanged."""

    tag: str
    """The object's only key, with its "$"."""
    value: Any
    """The value under the tag, loaded as far as possible."""


# --- canonical bytes -----------------------------------------------------------------------------

_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder()


def encode(plain: Plain) -> bytes:
    """The canonical bytes of a plain value."""
    try:
        return _encoder.encode(plain)
    except RecursionError:
        raise _stack_spent("$") from None
    except TypeError as error:
        raise BadType(f"not a plain value: {error}", hint="pass it through to_plain") from None
    except ValueError as error:
        raise BadText(f"not a plain value: {error}", hint="pass it through to_plain") from None


def decode(data: bytes) -> Plain:
    """The plain value of canonical bytes; `BadText` if they are not JSON."""
    try:
        return _decoder.decode(data)
    except RecursionError:
        raise _stack_spent("$") from None
    except ValueError as error:
        raise BadText(f"not canonical JSON: {error}") from None


def dumps(value: object, *, path: str = "$", scrub: Scrub | None = None) -> bytes:
    """The canonical bytes of a foreign value."""
    return encode(to_plain(value, path=path, scrub=scrub))


def loads(data: bytes) -> Any:
    """The foreign value of canonical bytes."""
    return from_plain(decode(data))


def to_plain(value: object, *, path: str = "$", scrub: Scrub | None = None) -> Plain:
    """A foreign value as plain data, or an `InvalidInput` that names the place in it.

    `scrub` sees every string and dict key; its answer is recorded instead. Bytes are not shown to
    it. Strings that stay as they are come back as the same object.
    """
    if type(value) is str and value.isascii() and len(value) < _SURELY_FITS:
        return value if scrub is None else scrub(value, None)
    try:
        return _Walk(scrub).value(value, None, 0)
    except _Refusal as refusal:
        raise refusal.error(path) from None
    except RecursionError:
        raise _stack_spent(path) from None


def from_plain(plain: Plain) -> Any:
    """The inverse of `to_plain`: `to_plain(from_plain(p)) == p` for everything that `to_plain` writes."""
    try:
        return _load(plain)
    except RecursionError:
        raise _stack_spent("$") from None


def _stack_spent(path: str) -> TooDeep:
    return TooDeep(
        "the call stack ended inside a nested value",
        path=path,
        hint=f"nest at most {DEPTH_MAX} levels, and record from a shallower call",
    )


# --- refusals ------------------------------------------------------------------------------------


class _Refusal(Exception):
    """An error to be; each container it passes on the way up adds its step of the path."""

    def __init__(self, kind: type[InvalidInput], what: str, hint: str = "") -> None:
        super().__init__(what)
        self.kind = kind
        self.what = what
        self.hint = hint
        self.trail: list[str | int] = []

    def error(self, path: str) -> InvalidInput:
        steps = "".join(_step(step) for step in reversed(self.trail))
        return self.kind(self.what, path=path + steps, hint=self.hint)


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if len(step) > _KEY_SHOWN_MAX:
        step = step[:_KEY_SHOWN_MAX] + "…"
    if step.isascii() and step.isidentifier():
        return f".{step}"
    return f"[{json.dumps(step)}]"


_type_name: Callable[[type], str] = type.__dict__["__qualname__"].__get__
"""The name of a class without asking its metaclass, which may be the caller's."""

_HINTS: Final[tuple[tuple[type, str], ...]] = (
    (set, "pass a sorted list"),
    (frozenset, "pass a sorted list"),
    (bytearray, "pass bytes(value)"),
    (memoryview, "pass bytes(value)"),
    (complex, "pass [value.real, value.imag]"),
)


def _refuse_type(kind: type) -> NoReturn:
    hint = "turn it into a dict, list, str, number or bytes first"
    for known, better in _HINTS:
        if issubclass(kind, known):
            hint = better
    raise _Refusal(BadType, f"a value of type {_type_name(kind)[:_KEY_SHOWN_MAX]}", hint)


def _refuse_size() -> NoReturn:
    what = f"more than {BYTES_MAX} bytes of text in one value"
    raise _Refusal(TooLarge, what, "record it in parts")


# --- writing -------------------------------------------------------------------------------------


class _Walk:
    """One pass over one foreign value: what may still be used up, and the containers it is in."""

    __slots__ = ("_nodes", "_open", "_room", "_scrub")

    def __init__(self, scrub: Scrub | None) -> None:
        self._scrub = scrub
        self._nodes = NODES_MAX - 1
        self._room = BYTES_MAX
        self._open: set[int] = set()

    def value(self, value: Any, key: str | None, depth: int) -> Plain:
        """Any value; `key` is the nearest dict key, `depth` the number of containers around it."""
        kind = type(value)
        if kind is str:
            return self._text(value, key)
        if kind is int:
            return value if _INT_MIN <= value <= INT_MAX else self._big(value)
        if value is None or kind is bool:
            return value
        if kind is dict or kind is list or kind is tuple:
            return self._container(value, kind, key, depth)
        if kind is float:
            return _float_plain(value)
        return self._rare(value, kind, key, depth)

    def _rare(self, value: Any, kind: type, key: str | None, depth: int) -> Plain:
        if kind is bytes:
            return self._bytes(value)
        if kind is Foreign:
            return self._container(value, Foreign, key, depth)
        for codec in _CODECS:
            if kind is codec.kind:
                text = codec.write(value)
                self._spend(len(text))
                return {"$x": [codec.name, text]}
        return self._derived(value, kind, key, depth)

    def _derived(self, value: Any, kind: type, key: str | None, depth: int) -> Plain:
        """A subclass, read through its built-in base so that nothing it overrides runs."""
        if issubclass(kind, str):
            return self._text(str.__str__(value), key)
        if issubclass(kind, int):
            return self.value(int.__int__(value), key, depth)
        if issubclass(kind, float):
            return _float_plain(value)
        if issubclass(kind, bytes):
            return self._bytes(bytes.__bytes__(value))
        for base in (dict, list, tuple):
            if issubclass(kind, base):
                return self._container(value, base, key, depth)
        _refuse_type(kind)

    def _container(self, value: Any, base: type, key: str | None, depth: int) -> Plain:
        """A container, guarded against cycles and depth; `base` says how to read it."""
        around = self._open
        mark = id(value)
        if mark in around:
            raise _Refusal(Cyclic, "a value that contains itself", "break the cycle")
        if depth >= DEPTH_MAX:
            raise _Refusal(TooDeep, f"nested past {DEPTH_MAX} levels", "flatten it")
        around.add(mark)
        if base is dict:
            plain = self._dict(value, depth + 1)
        elif base is list:
            plain = self._items(list.__getitem__(value, slice(None)), key, depth + 1)
        elif base is tuple:
            plain = {"$t": self._items(tuple.__getitem__(value, slice(None)), key, depth + 1)}
        else:
            plain = self._foreign(value, key, depth + 1)
        around.discard(mark)
        return plain

    def _items(self, items: Any, key: str | None, depth: int) -> list[Plain]:
        self._count(len(items))
        out: list[Plain] = []
        try:
            for item in items:
                kind = type(item)
                if kind is str:
                    out.append(self._text(item, key))
                elif kind is int and _INT_MIN <= item <= INT_MAX:
                    out.append(item)
                else:
                    out.append(self.value(item, key, depth))
        except _Refusal as refusal:
            refusal.trail.append(len(out))
            raise
        return out

    def _dict(self, value: Any, depth: int) -> Plain:
        self._count(dict.__len__(value))
        # A copy, so that a dict another thread is still filling is recorded as it was just now.
        items = list(dict.items(value))
        out: dict[str, Plain] = {}
        ascii_only = True
        at: str | None = None
        try:
            for raw, item in items:
                at = None
                key = raw if type(raw) is str else _key_text(raw)
                at = key if self._scrub is None else self._scrubbed(key, None)
                if at.isascii():
                    self._room -= len(at)
                else:
                    self._room -= len(at.encode("utf-8", "surrogatepass"))
                    ascii_only = False
                kind = type(item)
                if kind is str:
                    out[at] = self._text(item, key)
                elif kind is int and _INT_MIN <= item <= INT_MAX:
                    out[at] = item
                else:
                    out[at] = self.value(item, key, depth)
        except _Refusal as refusal:
            if at is not None:
                refusal.trail.append(at)
            raise
        if self._room < 0:
            _refuse_size()
        if len(out) != len(items):
            raise _Refusal(BadText, "two keys that are recorded as the same text", "rename one")
        if (ascii_only and len(out) != 1) or not _ruined(out):
            return out
        return {"$m": _pairs(out)}

    def _foreign(self, value: Foreign, key: str | None, depth: int) -> Plain:
        tag = value.tag
        if type(tag) is not str or tag[:1] != "$" or _has_surrogate(tag):
            raise _Refusal(BadType, "a Foreign whose tag is not text that starts with $")
        self._count(1)
        self._spend(len(tag))
        try:
            return {tag: self.value(value.value, key, depth)}
        except _Refusal as refusal:
            refusal.trail.append(tag)
            raise

    def _text(self, text: str, key: str | None) -> Plain:
        if self._scrub is not None:
            text = self._scrubbed(text, key)
        if text.isascii():
            self._room -= len(text)
            if self._room < 0:
                _refuse_size()
            return text
        data = text.encode("utf-8", "surrogatepass")
        self._spend(len(data))
        # 0xED starts the UTF-8 of every surrogate, and of little else.
        return _text_plain(text) if b"\xed" in data else text

    def _scrubbed(self, text: str, key: str | None) -> str:
        if len(text) > self._room:
            _refuse_size()
        assert self._scrub is not None
        return self._scrub(text, key)

    def _big(self, value: int) -> Plain:
        if value.bit_length() > INT_BITS_MAX:
            raise _Refusal(TooLarge, f"an integer of over {INT_BITS_MAX} bits", "pass it as text")
        text = hex(value)
        self._spend(len(text))
        return {"$i": text}

    def _bytes(self, value: bytes) -> Plain:
        self._spend((len(value) + 2) // 3 * 4)
        return {"$b": _base64(value)}

    def _count(self, nodes: int) -> None:
        self._nodes -= nodes
        if self._nodes < 0:
            raise _Refusal(TooLarge, f"more than {NODES_MAX} values in one", "record it in parts")

    def _spend(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            _refuse_size()


def _float_plain(value: float) -> Plain:
    if not math.isfinite(value):
        raise _Refusal(BadNumber, f"the number {float.__repr__(value)}", "use None or text")
    return {"$f": float.__repr__(value)}


def _key_text(key: Any) -> str:
    kind = type(key)
    if issubclass(kind, str):
        return str.__str__(key)
    name = _type_name(kind)[:_KEY_SHOWN_MAX]
    raise _Refusal(BadType, f"a dict key of type {name}", "use str keys")


def _text_plain(text: str) -> Plain:
    if not _has_surrogate(text):
        return text
    return {"$u": _base64(text.encode("utf-8", "surrogatepass"))}


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _ruined(keys: dict[str, Any]) -> bool:
    """Whether an object with these keys would be read as a tag, sorted differently, or refused."""
    if len(keys) == 1:
        (only,) = keys
        if only[:1] == "$":
            return True
    return any(not key.isascii() and (max(key) > "\uffff" or _has_surrogate(key)) for key in keys)


def _pairs(entries: dict[str, Plain]) -> list[Plain]:
    pairs = [[_text_plain(key), plain] for key, plain in entries.items()]
    pairs.sort(key=lambda pair: encode(pair[0]))
    return pairs


def _base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


# --- the closed list of types in {"$x": [type, text]} --------------------------------------------


@dataclass(frozen=True, slots=True)
class _Codec:
    """How one standard type is spelled. A name that was written once never changes its meaning."""

    name: str
    kind: type
    write: Callable[[Any], str]
    read: Callable[[str], Any]


def _write_datetime(value: datetime) -> str:
    if not (_is_fixed(value.tzinfo) or _is_zoneinfo(value.tzinfo)):
        raise _Refusal(BadType, "a datetime with an unusual tzinfo", "use value.astimezone(UTC)")
    return value.isoformat()


def _write_time(value: time) -> str:
    if not _is_fixed(value.tzinfo):
        raise _Refusal(BadType, "a time with an unusual tzinfo", "use a datetime")
    return value.isoformat()


def _is_fixed(zone: tzinfo | None) -> bool:
    """No zone, or an offset in whole seconds: `fromisoformat` misreads some finer ones."""
    return zone is None or (type(zone) is timezone and zone.utcoffset(None).microseconds == 0)


def _is_zoneinfo(zone: tzinfo | None) -> bool:
    from zoneinfo import ZoneInfo  # only where a zone is at hand: it is slow to import

    return type(zone) is ZoneInfo


def _write_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise _Refusal(BadNumber, f"the number {value}", "use None or text")
    # The thread's decimal context may ask for "1e+9"; the record always says "1E+9".
    return str(value).upper()


_CODECS: Final = (
    _Codec("datetime", datetime, _write_datetime, datetime.fromisoformat),
    _Codec("date", date, date.isoformat, date.fromisoformat),
    _Codec("time", time, _write_time, time.fromisoformat),
    _Codec("decimal", Decimal, _write_decimal, Decimal),
    _Codec("uuid", UUID, str, UUID),
)
_CODEC_BY_NAME: Final = {codec.name: codec for codec in _CODECS}


# --- reading -------------------------------------------------------------------------------------


class _Unreadable(Exception):
    """The tag is not one this release writes; it loads as `Foreign`."""


_SCALARS: Final = frozenset((str, int, bool, type(None)))


def _load(plain: Plain) -> Any:
    kind = type(plain)
    if kind is dict:
        if len(plain) == 1:
            ((tag, body),) = plain.items()
            if tag[:1] == "$":
                return _load_tag(tag, body)
        loaded = {}
        for key, item in plain.items():
            loaded[key] = item if type(item) in _SCALARS else _load(item)
        return loaded
    return _load_list(plain) if kind is list else plain


def _load_list(items: list[Plain]) -> list[Any]:
    loaded = []
    for item in items:
        loaded.append(item if type(item) in _SCALARS else _load(item))
    return loaded


def _load_tag(tag: str, body: Plain) -> Any:
    read = _READERS.get(tag)
    if read is not None:
        try:
            return read(body)
        except (_Unreadable, _Refusal, ValueError, ArithmeticError):
            pass
    return Foreign(tag, _load(body))


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
    _expect(_base64(value) == body)
    return value


def _read_text(body: Plain) -> str:
    value = _read_bytes(body).decode("utf-8", "surrogatepass")
    _expect(_text_plain(value) == {"$u": body})
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
    _expect(_ruined(keys))
    value = {}
    for key, item in keys.items():
        value[key] = _load(item)
    return value


def _read_key(plain: Plain) -> str:
    if type(plain) is str:
        _expect(not _has_surrogate(plain))
        return plain
    _expect(type(plain) is dict and plain.keys() == {"$u"})
    return _read_text(plain["$u"])


def _read_typed(body: Plain) -> Any:
    _expect(type(body) is list and len(body) == 2)
    name, text = body
    _expect(type(name) is str and type(text) is str)
    codec = _CODEC_BY_NAME.get(name)
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
