"""Makes and reads the cursors of pages: opaque, and signed, so that a caller can only send back what it was given."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from stator.errors import BadQuery, InvalidInput
from stator.model.values import canon

MAC_BYTES = 16
KEY_BYTES = 32


class Cursors:
    """The cursors of one service: they end with it."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def dump(self, after: Sequence[int | str], path: str, values: Mapping[str, Any]) -> str:
        """A cursor of this question: its next page begins after this key."""
        body = msgspec.json.encode(list(after))
        return (self._mac(body, path, values) + body).hex()

    def load(self, text: str, path: str, values: Mapping[str, Any]) -> list[int | str]:
        """The key in a cursor; refuses one of another question, and one that was changed."""
        try:
            raw = bytes.fromhex(text)
        except ValueError:
            raw = b""
        mac, body = raw[:MAC_BYTES], raw[MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(body, path, values)):
            raise BadQuery(
                "this cursor is not of this question, or of an earlier run of the service",
                hint="ask again without a cursor",
            )
        return msgspec.json.decode(body, type=list[int | str])

    def _mac(self, body: bytes, path: str, values: Mapping[str, Any]) -> bytes:
        try:
            asked = canon.encode({"path": path, **values})
        except InvalidInput:  # text that no cursor was ever made for
            return b""
        return hmac.new(self._key, asked + b"\0" + body, sha256).digest()[:MAC_BYTES]
