"""Marks: the user's word that a log up to a commit holds nothing that the rules about secrets would replace.

A commit's hash covers everything before it, so a mark about (session, seq, hash) is about exactly one log and is as
true in a bundle as in the store it was made in. Only the user's key makes one and only the same key believes it:
without one, or with another user's or one of other rules, everything is scanned again.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stator.model.sessions.ownership import Ownership

RULES: Final = 1
"""The version of the rules about secrets. It must rise when they find something that they did not find before."""
NOTE: Final = "redacted"
"""The name of the bookmark under which a store keeps the mark of a session."""


class RedactionMark(msgspec.Struct, frozen=True, kw_only=True):
    """All content of a session's own commits up to `seq` passed the rules of that version."""

    rules: int
    seq: int
    hash: str
    mac: str


def made(owner: Ownership, session: str, seq: int, hash: str) -> RedactionMark | None:
    """The mark of a log that was written or scanned under the rules of this release; None without a key."""
    mac = owner.sign(_signed(RULES, session, seq, hash))
    return RedactionMark(rules=RULES, seq=seq, hash=hash, mac=mac) if mac else None


def is_believed(mark: RedactionMark, owner: Ownership, session: str) -> bool:
    """Whether this user made the mark, under the rules of this release. Its hash is still to be compared."""
    data = _signed(mark.rules, session, mark.seq, mark.hash)
    return mark.rules == RULES and owner.has_signed(mark.mac, data)


def from_note(value: Any) -> RedactionMark | None:
    """The mark in a bookmark; None if it holds none."""
    try:
        return msgspec.convert(value, RedactionMark)
    except msgspec.ValidationError:
        return None


def _signed(rules: int, session: str, seq: int, hash: str) -> bytes:
    return f"stator redacted\n{rules}\n{session}\n{seq}\n{hash}".encode()
