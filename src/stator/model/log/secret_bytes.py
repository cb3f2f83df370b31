"""Secrets in bytes: which bytes are worth a look, and how they are read as text.

Bytes are read as UTF-8, where what is not UTF-8 stays as it is, byte for byte; and as UTF-16 or UTF-32 where they
look like it. Nothing but a secret changes.
"""

from __future__ import annotations

from stator.model.log.secret_names import has_name
from stator.model.log.secret_shapes import has_run
from stator.model.log.secret_spans import PLACEHOLDER_HEAD
from stator.model.values.late_pattern import late

TYPE_CHECKING = False  # as type checkers know it: a hook cannot wait until `typing` is loaded
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Final

_UTF_8: Final = ("utf-8", "surrogateescape", 1)
_UTF_16_LOW: Final = ("utf-16-le", "surrogatepass", 2)
_UTF_16_HIGH: Final = ("utf-16-be", "surrogatepass", 2)
_UTF_32: Final = (("utf-32-le", "surrogatepass", 4), ("utf-32-be", "surrogatepass", 4))
_WIDE: Final = (_UTF_16_LOW, _UTF_16_HIGH, *_UTF_32)

_SHAPE: Final = bytes(0 if byte == 0 else 1 if 9 <= byte < 127 else 2 for byte in range(256))
"""Zero for NUL, one for what is ASCII text, two for the rest."""
_WIDE_RUN: Final = b"\1\0" * 8
"""Eight characters of ASCII in UTF-16: no secret and its name are shorter."""
_WIDER_RUN: Final = b"\1\0\0\0" * 8


_URL: Final = late(rb":/{1,3}[^\x00-\x20]{2,1600}?@")
"""A URL with something before its host: at most 128 and 256 characters, of at most four bytes each."""


def may_hold(data: bytes) -> bool:
    """Whether a secret can be in these bytes, read one by one; where this says no, none is found."""
    return has_run(data) or _URL.search(data) is not None or has_name(data)


_CONTROL: Final = bytes(byte for byte in range(32) if byte not in b"\t\n\f\r\x1b")
_NOT_ASCII: Final = bytes(range(128, 256))


def is_text(data: bytes) -> bool:
    """Whether bytes are text and nothing else: no control characters, and UTF-8, UTF-16 or UTF-32, or mostly ASCII."""
    if len(data.translate(None, _CONTROL)) == len(data):
        try:
            data.decode()
        except UnicodeDecodeError:
            return 4 * len(data.translate(None, _NOT_ASCII)) >= 3 * len(data)
        return True
    return b"\0" in data and any(_is_wide_text(data, form) for form in _WIDE)


def _is_wide_text(data: bytes, form: tuple[str, str, int]) -> bool:
    codec, _, width = form
    if len(data) % width:
        return False
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        return False
    ascii = text.encode("ascii", "ignore")
    return 4 * len(ascii) >= 3 * len(text) and len(ascii.translate(None, _CONTROL)) == len(ascii)


class Reading:
    """Bytes as text. With other text they are the same bytes, but for what differs."""

    __slots__ = ("_after", "_before", "_form", "text")

    def __init__(self, data: bytes, form: tuple[str, str, int], start: int = 0) -> None:
        self._form = codec, errors, width = form
        end = start + (len(data) - start) // width * width
        self._before, self._after = data[:start], data[end:]
        self.text = data[start:end].decode(codec, errors)

    def with_text(self, text: str) -> bytes:
        return self._before + text.encode(*self._form[:2]) + self._after

    def reread(self, data: bytes) -> str:
        """Other bytes as text in the same way; no text if they are not."""
        other = _readable(data, self._form, len(self._before))
        return "" if other is None else other.text


def reading(data: bytes) -> Reading:
    """Bytes as UTF-8; what is not UTF-8 becomes lone surrogates."""
    return Reading(data, _UTF_8)


def wide_readings(data: bytes) -> Iterator[Reading]:
    """Bytes as text of two or four bytes a character, in each way that they may be."""
    shape = data.translate(_SHAPE)
    if _WIDE_RUN not in shape and _WIDER_RUN not in shape:
        return
    if (known := _redacted(data, _WIDE)) is not None:
        yield known
        return
    if _WIDE_RUN in shape:
        # Low bytes first or last, from the first byte or the second: text can lie anywhere in a file.
        for start in (0, 1):
            if may_hold(data[start::2]):
                yield Reading(data, _UTF_16_LOW, start)
            if may_hold(data[start + 1 :: 2]):
                yield Reading(data, _UTF_16_HIGH, start)
    if _WIDER_RUN in shape:
        for form in _UTF_32:
            if (found := _readable(data, form)) is not None:
                yield found


def redacted_reading(data: bytes) -> Reading | None:
    """The text of bytes in which a secret was replaced; none if none was."""
    return _redacted(data, (_UTF_8, *_WIDE))


def _redacted(data: bytes, forms: Iterable[tuple[str, str, int]]) -> Reading | None:
    for form in forms:
        at = data.find(PLACEHOLDER_HEAD.encode(form[0]))
        if at >= 0 and (found := _readable(data, form, at % form[2])) is not None:
            return found
    return None


def _readable(data: bytes, form: tuple[str, str, int], start: int = 0) -> Reading | None:
    try:
        return Reading(data, form, start)
    except UnicodeDecodeError:
        return None  # a number in it is no character: it is something else
