"""Ids: a type prefix and the 32 hex digits of a UUIDv7, or of a digest of what it was made from.

An id says what it names and nothing else: no logic reads time from it and nothing is derived from a
path. A turn and its first commit share their digits, and so do a call and its intent, so neither
needs a field of its own on disk.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from stator.errors import BadId
from stator.model.values.digest import sha256

Kind = Literal["session", "turn", "call", "commit", "run"]

PREFIXES: dict[Kind, str] = {
    "session": "s_",
    "turn": "t_",
    "call": "c_",
    "commit": "k_",
    "run": "r_",
}
SHORT_DIGITS = 8
"""How many of the last digits people are shown; the tail of a UUIDv7 is its random part."""

Mint = Callable[[Kind], str]
"""Makes a fresh id. Passed in, so that tests decide what comes."""

_ID = re.compile(r"[stckr]_[0-9a-f]{32}\Z")
_SUFFIX = re.compile(r"[0-9a-f]{4,32}\Z")


def is_id(text: str, kind: Kind | None = None) -> bool:
    """Whether `text` is a whole id, of that kind if one is given."""
    return bool(_ID.match(text)) and (kind is None or text.startswith(PREFIXES[kind]))


def check_id(text: object, kind: Kind) -> str:
    """`text` if it is an id of that kind, else `BadId`."""
    if isinstance(text, str) and _ID.match(text) and text.startswith(PREFIXES[kind]):
        return text
    raise BadId(f"not a {kind} id: {text!r:.80}", hint=f"ids look like {PREFIXES[kind]}0190…")


def short(identifier: str) -> str:
    """The id as people are shown it: prefix and last 8 digits."""
    return identifier[:2] + identifier[-SHORT_DIGITS:]


def retype(identifier: str, kind: Kind) -> str:
    """The same digits under another prefix: the turn of a commit, the call of an intent."""
    return PREFIXES[kind] + identifier[2:]


def to_bytes(identifier: str) -> bytes:
    """The 16 bytes that are stored; the prefix is known from the column."""
    return bytes.fromhex(identifier[2:])


def from_bytes(data: bytes, kind: Kind) -> str:
    return PREFIXES[kind] + data.hex()


def suffix_of(text: str, kind: Kind) -> str | None:
    """The hex digits by which `text` addresses an id of that kind, or None if it cannot."""
    digits = text[2:] if text.startswith(PREFIXES[kind]) else text
    return digits if _SUFFIX.match(digits) else None


@lru_cache(maxsize=1024)
def run_id(session: str, epoch: int) -> str:
    """The id of a driver's hold: one session, one epoch, one run. Derived, so no commit need store it."""
    return PREFIXES["run"] + sha256(f"stator.run/1:{session}:{epoch}".encode()).hexdigest()[:32]


def derived(kind: Kind, *parts: str) -> str:
    """The id of something recorded from another program, derived from its name there. Derived rather than
    random, so that a hook, a transcript and a proxy that report the same thing name the same commit
    independently.
    """
    data = "\0".join(("stator.foreign/1", kind, *parts)).encode("utf-8", "surrogatepass")
    return PREFIXES[kind] + sha256(data).hexdigest()[:32]


def record_id(commit: str, n: int) -> str:
    """The id of the nth record a commit creates: the random tail of the commit's id, and n.

    Derived rather than drawn, so that appending a draft again yields the same delta.
    """
    tail = commit[-16:]
    return tail if n == 0 else f"{tail}.{n}"
