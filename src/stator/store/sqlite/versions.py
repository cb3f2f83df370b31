"""Versions as rows: how a put or drop is kept in `rec`, and which ones need not be kept.

A row holds a digest of the natural key instead of the key, and no body where the log has it anyway.
What opens and closes between two flushes leaves no row at all: the index of calls covers calls,
the log of tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stator.model.records.tables import COLLECTIONS
from stator.model.values.digest import blake2b

Version = tuple[int, int, int, int, int, str, str | None, bytes | None]
"""(seq, n, op, was, turn, id, key, body): a put (op 1) or drop (op 0). A key that comes from a row is None."""

CALLS = COLLECTIONS["calls"].number
TOOLS = COLLECTIONS["tools"].number
ERASED = b'{"type":"erased"'
"""How the body of an erased record begins; it stays in its row, however old the version."""
_HEX = frozenset("0123456789abcdef")


def key_hash(number: int, key: str) -> int:
    """The digest under which a key is indexed; a reader that finds a match compares the key itself."""
    data = b"%d\0" % number + key.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)


def pack_id(identifier: str) -> bytes | str:
    """A record id in half the bytes; one that we did not mint stays text."""
    digits, suffix = identifier[:16], identifier[16:]
    if len(digits) == 16 and _HEX.issuperset(digits):
        return bytes.fromhex(digits) + suffix.encode()
    return identifier


def unpack_id(data: bytes | str) -> str:
    if isinstance(data, str):
        return data
    return data.hex() if len(data) == 8 else data[:8].hex() + data[8:].decode()


def to_sql(s: int, number: int, version: Version) -> tuple[Any, ...]:
    """A version as the columns of `rec`."""
    seq, n, op, was, turn, identifier, key, body = version
    hashed = None if key is None else key_hash(number, key)
    return s, number, seq, n, op, was, turn, pack_id(identifier), hashed, body


def from_sql(row: Any) -> Version:
    """A version from (seq, n, op, was, turn, id, key, body)."""
    seq, n, op, was, turn, identifier, _, body = row
    return seq, n, op, was, turn, unpack_id(identifier), None, body


def kept(found: Sequence[tuple[int, Version]]) -> list[tuple[int, Version]]:
    """What a flush writes of a tail's versions (collection number, version).

    Calls that were opened and settled in it: nothing. Tools: only the final version of each. Of a record put
    more than once, only the last put carries its body; the others are read from the log, should
    anyone ask.
    """
    by_id: dict[tuple[int, str], list[int]] = {}
    for place, (number, version) in enumerate(found):
        by_id.setdefault((number, version[5]), []).append(place)
    out: list[tuple[int, Version] | None] = list(found)
    for (number, _), places in by_id.items():
        versions_of = [found[place][1] for place in places]
        if number == CALLS and is_brief(versions_of):
            for place in places:
                out[place] = None
            continue
        if number == TOOLS:
            first, last = versions_of[0], versions_of[-1]
            for place in places:
                out[place] = None
            out[places[-1]] = (number, (*last[:3], first[3], *last[4:]))
            continue
        for place in places[:-1]:
            version = found[place][1]
            if version[7] is None or not version[7].startswith(ERASED):
                out[place] = (number, (*version[:7], None))
    return [item for item in out if item is not None]


def is_brief(versions: list[Version]) -> bool:
    """Whether a call's versions are one put and its drop: the index of calls says the same."""
    if len(versions) != 2:
        return False
    put, drop = versions
    return put[2] == 1 and put[3] == 0 and drop[2] == 0 and drop[3] == put[0]
