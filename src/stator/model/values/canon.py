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
import math
import re
from collections.abc import Iterator
from typing import Any, AnyStr, Final, Protocol

from stator.errors import BadNumber, BadText, BadType, Cyclic, TooDeep, TooLarge
from stator.model.values.canon_load import load
from stator.model.values.tagged import (
    BYTES_MAX,
    CODECS,
    DEPTH_MAX,
    INT_BITS_MAX,
    INT_MAX,
    INT_MIN,
    KEY_SHOWN_MAX,
    Foreign,
    Plain,
    Refusal,
    decode,
    encode,
    has_surrogate,
    refuse_size,
    refuse_type,
    stack_spent,
    text_plain,
    to_base64,
    type_name,
    would_be_ruined,
)
from stator.model.values.value_names import VALUES, name_after, name_beside

__all__ = [
    "BYTES_MAX",
    "DEPTH_MAX",
    "INT_BITS_MAX",
    "INT_MAX",
    "NODES_MAX",
    "Foreign",
    "Plain",
    "Scrub",
    "bytes_within",
    "decode",
    "dumps",
    "encode",
    "from_plain",
    "loads",
    "to_plain",
]


class Scrub(Protocol):
    """What is recorded instead of a text or of bytes; the same object where nothing changes."""

    def __call__(self, text: AnyStr, name: str | None, /) -> AnyStr:
        """`name` is the name of the value: the nearest dict key, or what `value_names` says."""


NODES_MAX: Final = 1_000_000
"""Values in one value, itself and all those inside; dict keys are not counted apart."""
_SURELY_FITS: Final = BYTES_MAX // 8
"""ASCII text below this length stays within the limit even if placeholders make it longer, so it is not checked."""


def dumps(value: object, *, path: str = "$", scrub: Scrub | None = None) -> bytes:
    """The canonical bytes of a foreign value."""
    return encode(to_plain(value, path=path, scrub=scrub))


def loads(data: bytes) -> Any:
    """The foreign value of canonical bytes."""
    return from_plain(decode(data))


def bytes_within(data: bytes) -> Iterator[bytes]:
    """The bytes that tags in canonical bytes hold, and the UTF-8 of texts that had to be tagged."""
    for match in _BYTES.finditer(data):
        try:
            yield binascii.a2b_base64(match[1])
        except binascii.Error:
            continue  # no tag of ours


_BYTES: Final = re.compile(rb'\{"\$[bu]":"([A-Za-z0-9+/=]*)"\}')


def to_plain(value: object, *, path: str = "$", scrub: Scrub | None = None) -> Plain:
    """A foreign value as plain data, or an `InvalidInput` that names the place in it.

    `scrub` sees every leaf that can hold text: strings, bytes and dict keys; its answer is recorded instead.
    Strings that stay as they are come back as the same object.
    """
    if type(value) is str and value.isascii() and len(value) < _SURELY_FITS:
        return value if scrub is None else scrub(value, None)
    if type(value) is dict and scrub is None and _is_plain(copied := value.copy()):
        return copied
    try:
        return _Walk(scrub).value(value, None, 0)
    except Refusal as refusal:
        raise refusal.error(path) from None
    except RecursionError:
        raise stack_spent(path) from None


def as_recorded(value: object, *, path: str = "$") -> Any:
    """A value as it is read once it was recorded."""
    plain = to_plain(value, path=path)
    return plain if type(plain) is str else from_plain(plain)


def _is_plain(value: dict[Any, Any]) -> bool:
    """Whether a dict is recorded as it is: short ASCII texts, numbers and constants, as most arguments are."""
    room = _SURELY_FITS
    for key, item in value.items():
        kind = type(item)
        if type(key) is not str or not key.isascii() or key[:1] == "$":
            return False
        room -= len(key)
        if kind is str:
            if not item.isascii():
                return False
            room -= len(item)
        elif kind is int:
            if not INT_MIN <= item <= INT_MAX:
                return False
        elif item is not None and kind is not bool:
            return False
    return room > 0 and len(value) < NODES_MAX


def from_plain(plain: Plain) -> Any:
    """The inverse of `to_plain`: `to_plain(from_plain(p)) == p` for everything that `to_plain` writes."""
    try:
        return load(plain)
    except RecursionError:
        raise stack_spent("$") from None


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
            return value if INT_MIN <= value <= INT_MAX else self._big(value)
        if value is None or kind is bool:
            return value
        if kind is dict or kind is list or kind is tuple:
            return self._container(value, kind, key, depth)
        if kind is float:
            return _float_plain(value)
        return self._rare(value, kind, key, depth)

    def _rare(self, value: Any, kind: type, key: str | None, depth: int) -> Plain:
        if kind is bytes:
            return self._bytes(value, key)
        if kind is Foreign:
            return self._container(value, Foreign, key, depth)
        for codec in CODECS:
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
            return self._bytes(bytes.__bytes__(value), key)
        for base in (dict, list, tuple):
            if issubclass(kind, base):
                return self._container(value, base, key, depth)
        refuse_type(kind)

    def _container(self, value: Any, base: type, key: str | None, depth: int) -> Plain:
        """A container, guarded against cycles and depth; `base` says how to read it."""
        around = self._open
        mark = id(value)
        if mark in around:
            raise Refusal(Cyclic, "a value that contains itself", "break the cycle")
        if depth >= DEPTH_MAX:
            raise Refusal(TooDeep, f"nested past {DEPTH_MAX} levels", "flatten it")
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
        flag = ""
        try:
            for item in items:
                kind = type(item)
                if kind is str:
                    out.append(self._text(item, name_after(flag, item, key) if flag else key))
                    flag = item if item[:2] == "--" else ""
                    continue
                flag = ""
                if kind is int and INT_MIN <= item <= INT_MAX:
                    out.append(item)
                else:
                    out.append(self.value(item, key, depth))
        except Refusal as refusal:
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
                if key in VALUES:
                    key = name_beside(value, key)
                if kind is str:
                    out[at] = self._text(item, key)
                elif kind is int and INT_MIN <= item <= INT_MAX:
                    out[at] = item
                else:
                    out[at] = self.value(item, key, depth)
        except Refusal as refusal:
            if at is not None:
                refusal.trail.append(at)
            raise
        if self._room < 0:
            refuse_size()
        if len(out) != len(items):
            raise Refusal(BadText, "two keys that are recorded as the same text", "rename one")
        if (ascii_only and len(out) != 1) or not would_be_ruined(out):
            return out
        return {"$m": _pairs(out)}

    def _foreign(self, value: Foreign, key: str | None, depth: int) -> Plain:
        tag = value.tag
        if type(tag) is not str or tag[:1] != "$" or has_surrogate(tag):
            raise Refusal(BadType, "a Foreign whose tag is not text that starts with $")
        if self._scrub is not None:
            tag = self._scrubbed(tag, None)
        self._count(1)
        self._spend(len(tag.encode()))
        try:
            return {tag: self.value(value.value, key, depth)}
        except Refusal as refusal:
            refusal.trail.append(tag)
            raise

    def _text(self, text: str, key: str | None) -> Plain:
        if self._scrub is not None:
            text = self._scrubbed(text, key)
        if text.isascii():
            self._room -= len(text)
            if self._room < 0:
                refuse_size()
            return text
        data = text.encode("utf-8", "surrogatepass")
        self._spend(len(data))
        # 0xED starts the UTF-8 of every surrogate, and of little else.
        return text_plain(text) if b"\xed" in data else text

    def _scrubbed(self, text: str, key: str | None) -> str:
        if len(text) > self._room:
            refuse_size()
        assert self._scrub is not None
        return self._scrub(text, key)

    def _big(self, value: int) -> Plain:
        if value.bit_length() > INT_BITS_MAX:
            raise Refusal(TooLarge, f"an integer of over {INT_BITS_MAX} bits", "pass it as text")
        text = hex(value)
        self._spend(len(text))
        return {"$i": text}

    def _bytes(self, value: bytes, key: str | None) -> Plain:
        if self._scrub is not None:
            if len(value) > self._room:
                refuse_size()
            value = self._scrub(value, key)
        self._spend((len(value) + 2) // 3 * 4)
        return {"$b": to_base64(value)}

    def _count(self, nodes: int) -> None:
        self._nodes -= nodes
        if self._nodes < 0:
            raise Refusal(TooLarge, f"more than {NODES_MAX} values in one", "record it in parts")

    def _spend(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            refuse_size()


def _float_plain(value: float) -> Plain:
    if not math.isfinite(value):
        raise Refusal(BadNumber, f"the number {float.__repr__(value)}", "use None or text")
    return {"$f": float.__repr__(value)}


def _key_text(key: Any) -> str:
    kind = type(key)
    if issubclass(kind, str):
        return str.__str__(key)
    name = type_name(kind)[:KEY_SHOWN_MAX]
    raise Refusal(BadType, f"a dict key of type {name}", "use str keys")


def _pairs(entries: dict[str, Plain]) -> list[Plain]:
    pairs = [[text_plain(key), plain] for key, plain in entries.items()]
    pairs.sort(key=lambda pair: encode(pair[0]))
    return pairs
