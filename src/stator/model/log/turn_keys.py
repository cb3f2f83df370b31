"""Names under which a store finds the turn that was begun with a key, also after the key was erased.

A key that is still in the log is found by a digest of its recorded bytes. An erasure that takes a key
away keeps a digest of it, made with a random salt, in its own commit: so that the turn is not run
again, and the key cannot be read back. An index of these names is a projection like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from stator.model.log.commit import Commit
from stator.model.values import canon
from stator.model.values.digest import keyed, sha256

FIELD = "keys"
"""Where the input of an erasure holds what it keeps of the keys it took away."""
SALT = "salt"
"""The group of the names that are salts: which digests there are to compare with."""
DIGITS = 32


class KeyName(msgspec.Struct, frozen=True):
    """One name of a turn: the group it is in, the name itself, and the seq it leads to."""

    group: str
    name: str
    seq: int


class KeptKeys(msgspec.Struct, frozen=True):
    """What an erasure keeps of keys: a salt, and by the seq of each turn the digest of its key."""

    salt: str
    turns: list[tuple[int, str]]


def plain(data: bytes) -> str:
    """The name of a key that is in the log, from its recorded bytes."""
    return sha256(data).hexdigest()[:DIGITS]


def salted(salt: str, data: bytes) -> str:
    """The name of a key that was erased."""
    return keyed(salt.encode(), data).hex()[:DIGITS]


def recorded_forms(keys: Iterable[str]) -> list[bytes]:
    """The bytes that these keys are recorded as."""
    return list({canon.dumps(key): None for key in keys})


def names_of(commit: Commit) -> Sequence[KeyName]:
    """The names that a commit adds to the index."""
    if commit.kind == "turn":
        data = commit.content.get("key")
        return [KeyName("", plain(data), commit.seq)] if isinstance(data, bytes) else ()
    kept = kept_in(commit) if commit.kind == "erasure" else None
    if kept is None:
        return ()
    mine = [KeyName(SALT, kept.salt, commit.seq)]
    return mine + [KeyName(kept.salt, digest, seq) for seq, digest in kept.turns]


def kept_in(commit: Commit) -> KeptKeys | None:
    """What an erasure keeps of keys. A log from elsewhere may hold anything in its place."""
    if not isinstance(commit.content.get("input"), bytes):
        return None
    said = commit.value("input")
    if not isinstance(said, dict) or FIELD not in said:
        return None
    try:
        kept = msgspec.convert(said[FIELD], KeptKeys)
    except msgspec.ValidationError:
        return None
    return kept if kept.salt and kept.salt != SALT else None


def keep(salt: str, keys: Mapping[int, bytes]) -> dict[str, Any]:
    """What the input of an erasure says of the keys it takes away; by the seqs of their turns."""
    turns = [[seq, salted(salt, data)] for seq, data in sorted(keys.items())]
    return {FIELD: {"salt": salt, "turns": turns}}


def matching(log: Iterable[Commit], keys: Iterable[str]) -> set[int]:
    """The seqs of a log's `turn` commits that were recorded with one of these keys."""
    names = [name for commit in log for name in names_of(commit)]
    wanted = wanted_names(keys, [name.name for name in names if name.group == SALT])
    return {name.seq for name in names if (name.group, name.name) in wanted}


def wanted_names(keys: Iterable[str], salts: Iterable[str]) -> set[tuple[str, str]]:
    """(group, name) under which turns with these keys are found, in a log with these salts."""
    forms = recorded_forms(keys)
    found = {("", plain(data)) for data in forms}
    return found | {(salt, salted(salt, data)) for salt in salts for data in forms}
