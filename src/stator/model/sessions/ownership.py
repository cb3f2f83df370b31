"""What a user is to a store: its owner, or a stranger to it; and the mark by which the user's grants are known.

A store that this user neither made nor trusted is *foreign*. It can be read. Its grants answer nothing, its texts
count as imported, and it is not shown to an agent unlabelled. `stator.owner` finds out which stores those are.
"""

from __future__ import annotations

from collections.abc import Callable

from stator.errors import NoOwner
from stator.model.values.digest import keyed

OLD, OWNER = "local:", "owner:"
"""What a mark begins with: up to 0.6 it is made with the store's id, since then with the owner's key."""
SIGNED = "signed:"
"""What a mark begins with that is about no store in particular."""
MARK_DIGITS = 32


class Ownership:
    """Whether a store is this user's own, and the marks of the user's grants in it."""

    def __init__(
        self,
        foreign: str = "",
        *,
        path: str = "",
        was_found: bool = False,
        old_grants: bool = True,
        key: Callable[[bool], bytes | None] | None = None,
    ) -> None:
        """`foreign` says why it is not the user's own ("": it is). `key(make)` gives the owner's key, or None if
        there is none and none is to be made; without `key` the store's id serves, as up to 0.6.
        """
        self.foreign = foreign
        self.path = path
        """The path by which the store was opened, links and all; empty if it is no file."""
        self.was_found = was_found
        """Nobody named the store: it was found in a folder."""
        self.old_grants = old_grants
        """Whether grants of releases up to 0.6 count; the owner has confirmed them, or made the store."""
        self._key = key

    def mark(self, data: bytes, store: str) -> str:
        """The mark of a grant that is given now."""
        if self._key is None:
            return OLD + _digest(store.encode(), data)
        key = self._key(True)
        assert key is not None
        return OWNER + _digest(key, store.encode() + b"\0" + data)

    def is_own(self, mark: str, data: bytes, store: str) -> bool:
        """Whether this user gave the grant that has the mark, in this store."""
        if self.foreign:
            return False
        if mark.startswith(OWNER):
            key = self._key(False) if self._key is not None else None
            return key is not None and _is(mark, OWNER, key, store.encode() + b"\0" + data)
        return self.old_grants and is_old_mark(mark, data, store)

    def sign(self, data: bytes) -> str:
        """The user's mark on what is true in any store; empty where there is no key, or the store is foreign."""
        if self.foreign or self._key is None:
            return ""
        try:
            key = self._key(True)
        except NoOwner:  # nothing needs the mark: without one, more is done again
            return ""
        return "" if key is None else SIGNED + _digest(key, SIGNED.encode() + data)

    def has_signed(self, mark: str, data: bytes) -> bool:
        """Whether this user made the mark, in whatever store."""
        if not mark.startswith(SIGNED) or self._key is None:
            return False
        try:
            key = self._key(False)
        except NoOwner:
            return False
        return key is not None and _is(mark, SIGNED, key, SIGNED.encode() + data)


def is_old_mark(mark: str, data: bytes, store: str) -> bool:
    """Whether a release up to 0.6 made the mark, in this store."""
    return _is(mark, OLD, store.encode(), data)


def _is(mark: str, kind: str, key: bytes, data: bytes) -> bool:
    from hmac import compare_digest  # loads OpenSSL: only where a mark is compared

    return compare_digest(mark.encode(), (kind + _digest(key, data)).encode())


def _digest(key: bytes, data: bytes) -> str:
    return keyed(key, data).hex()[:MARK_DIGITS]


OWN = Ownership()
"""A store that is this process's own, as one in memory is."""
