"""SHA-256, keyed or not, and BLAKE2b, without loading OpenSSL for the little that a question hashes.

`hashlib` loads it, which takes a twentieth of a small command. CPython's own code is there at once and as fast for what
is short; what is long goes through OpenSSL as soon as there is much of it, five times as fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

try:
    from _blake2 import blake2b
except ImportError:  # another Python than CPython
    from hashlib import blake2b

try:
    from _sha256 import sha256 as _own  # type: ignore[import-not-found]
except ImportError:
    try:
        from _sha2 import sha256 as _own  # type: ignore[import-not-found]  # from Python 3.12 on
    except ImportError:
        from hashlib import sha256 as _own

__all__ = ["blake2b", "keyed", "sha256"]

SHORT = 128
"""Bytes up to which both take equally long."""
MUCH = 64 * 1024
"""Bytes of longer data after which loading OpenSSL pays."""


class Hash(Protocol):
    """What was hashed."""

    def digest(self) -> bytes: ...
    def hexdigest(self) -> str: ...


_left = MUCH
_loaded: Callable[[bytes], Hash] | None = None


def sha256(data: bytes) -> Hash:
    """The hash of data that is there as a whole."""
    if len(data) <= SHORT:
        return _own(data)  # type: ignore[no-any-return]
    return (_loaded or _long)(data)


def _long(data: bytes) -> Hash:
    global _left, _loaded
    _left -= len(data)
    if _left > 0:
        return _own(data)  # type: ignore[no-any-return]
    from hashlib import sha256 as loaded

    _loaded = loaded
    return loaded(data)


def keyed(key: bytes, data: bytes) -> bytes:
    """HMAC-SHA-256."""
    import hmac  # loads OpenSSL

    return hmac.digest(key, data, "sha256")
