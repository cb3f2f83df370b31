"""Finds the id of a request that is too long to decode, so that its refusal reaches the client that waits.

The bytes pass through once and are not kept. Only the members of the outermost object count: an `id`
in the arguments, or in a text, is not the request's.
"""

from __future__ import annotations

import json
import re

ID_MAX = 1000
"""The most bytes of an id; a longer one is not answered by its name."""
SCANNED_MAX = 256 * 1024 * 1024
"""The most bytes that are looked at."""
# Possessive: a text of any length is passed over without going back.
_TEXT = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_INNER = re.compile(rb'[^"{}\[\]]*+')
_OUTER = re.compile(rb'[^"{}\[\],:]*+')


class LongRequest:
    """Reads a message chunk by chunk, and knows the `id` and the `method` of a request."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = False
        self._escaped = b""
        self._is_key = True
        self._word = bytearray()
        """The key or the value that is being read, if it belongs to the outermost object."""
        self._key = b""
        self._members: dict[bytes, bytes] = {}
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > SCANNED_MAX:
            self._members.clear()
            return
        chunk, self._escaped = self._escaped + chunk, b""
        at = 0
        while at < len(chunk):
            at = self._text(chunk, at) if self._in_text else self._structure(chunk, at)

    @property
    def id(self) -> int | str | None:
        """The id to answer under; None if this is no request, or its id cannot be used."""
        if b'"method"' not in self._members:
            return None
        try:
            found = json.loads(self._members.get(b'"id"', b""))
        except ValueError:
            return None
        if isinstance(found, str) and found.encode(errors="ignore").decode() != found:
            return None  # a lone surrogate cannot be encoded in the answer
        return found if isinstance(found, (int, str)) and not isinstance(found, bool) else None

    def _text(self, chunk: bytes, at: int) -> int:
        found = _TEXT.match(chunk, at)
        end = found.end() if found else at
        if end == len(chunk) - 1 and chunk[end:] == b"\\":
            self._keep(chunk[at:end])
            self._escaped = b"\\"  # what it escapes is in the next chunk
            return len(chunk)
        self._keep(chunk[at : end + 1])
        self._in_text = end == len(chunk)
        return end + 1

    def _structure(self, chunk: bytes, at: int) -> int:
        found = (_OUTER if self._depth == 1 else _INNER).match(chunk, at)
        end = found.end() if found else at
        self._keep(chunk[at:end])
        sign = chunk[end : end + 1]
        if sign == b'"':
            self._in_text = True
            self._keep(sign)
        elif sign in (b"{", b"["):
            self._depth += 1
        elif sign in (b"}", b"]"):
            self._depth -= 1
            if self._depth == 0:
                self._end_member()
        elif sign == b":":
            self._key, self._is_key = bytes(self._word).strip(), False
            self._word.clear()
        elif sign == b",":
            self._end_member()
        return end + 1

    def _keep(self, data: bytes) -> None:
        if self._depth == 1:
            self._word += data[: max(0, ID_MAX + 1 - len(self._word))]

    def _end_member(self) -> None:
        if not self._is_key and self._key in (b'"id"', b'"method"') and len(self._word) <= ID_MAX:
            self._members[self._key] = bytes(self._word).strip()
        self._word.clear()
        self._is_key = True
