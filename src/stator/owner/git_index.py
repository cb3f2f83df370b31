"""Whether git tracks a file: what a repository tracks, it brings with it, and a pull can replace it.

Reads git's index itself. To run git in a folder of unknown origin would carry out what that folder's settings say.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct

from stator.owner.regular_file import read_regular

SIZE_MAX = 2**30
"""Of a longer index it is not known what it tracks; everything, then."""
HEADER = 12
ENTRY = 40
"""Bytes of an entry before its object id."""
NAME_MASK, EXTENDED = 0x0FFF, 0x4000
FILE_MAX = 4096
"""Bytes of a `.git` file that is read."""
CONFIG_MAX = 2**20


def is_tracked(path: str) -> bool:
    """Whether a work tree around a path tracks it, what belongs to it, or a link or folder on the way to it.

    What belongs to `store.db` has that name and a hyphen: `store.db-wal`, which SQLite writes into the store, and all
    that is in `store.db-spool`. Upper and lower case are the same: on some filesystems they are.
    """
    full = os.path.abspath(path)
    folder = os.path.dirname(full)
    while True:
        if found := _git_folder(folder):
            parts = os.path.relpath(full, folder).split(os.sep)
            names = [os.fsencode("/".join(parts[: n + 1])).lower() for n in range(len(parts))]
            if any(_names_any(index, names, found) for index in _indexes(found)):
                return True
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above


def _git_folder(folder: str) -> str:
    """The git folder of a work tree that begins here; "" if none does."""
    path = os.path.join(folder, ".git")
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):
            return path
        given = read_regular(path, FILE_MAX)
    except OSError:
        return ""
    if not given.startswith(b"gitdir:"):
        return ""
    return os.path.join(folder, os.fsdecode(given[len(b"gitdir:") :].strip()))


def _indexes(folder: str) -> list[bytes]:
    """The index of a git folder, and the part of it that several share."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith("sharedindex.")]
    except OSError:
        return []
    found = []
    for name in ["index", *names]:
        try:
            found.append(read_regular(os.path.join(folder, name), SIZE_MAX))
        except OSError:
            continue  # a repository without a commit has none
    return found


def _names_any(index: bytes, names: list[bytes], folder: str) -> bool:
    """Whether an index has an entry of one of these names, or of what belongs to the last one."""
    if index[:4] != b"DIRC" or len(index) < HEADER:
        return False
    if len(index) >= SIZE_MAX:
        return True
    version, entries = struct.unpack(">II", index[4:HEADER])
    belonging = names[-1] + b"-"
    if version == 4:
        wanted = set(names)
        return any(
            name.lower() in wanted or name.lower().startswith(belonging)
            for name in _compressed(index, entries, _id_bytes(folder))
        )
    lower = index.lower()  # its flags are no letters: they are read from the index itself
    return any(
        _has(index, lower, beginning) for beginning in [*(n + b"\0" for n in names), belonging]
    )


def _has(index: bytes, lower: bytes, beginning: bytes) -> bool:
    """Whether an entry whose name begins so is in an index whose names are whole (versions 2 and 3)."""
    at = -1
    while (at := lower.find(beginning, at + 1)) >= 0:
        # The length of the name stands in the flags before it, so that the end of a longer name is told apart.
        length = min(index.find(b"\0", at) - at, NAME_MASK)
        (flags,) = struct.unpack(">H", index[at - 2 : at])
        if flags & NAME_MASK == length and not flags & EXTENDED:
            return True
        (flags,) = struct.unpack(">H", index[at - 4 : at - 2])
        if flags & NAME_MASK == length and flags & EXTENDED:
            return True
    return False


def _compressed(index: bytes, entries: int, id_bytes: int) -> list[bytes]:
    """The names of an index in which each name continues the one before it (version 4)."""
    names, name, at = [], b"", HEADER
    for _ in range(entries):
        at += ENTRY + id_bytes
        if at + 2 > len(index):
            break
        (flags,) = struct.unpack(">H", index[at : at + 2])
        at += 4 if flags & EXTENDED else 2
        cut, at = _number(index, at)
        end = index.find(b"\0", at)
        if end < 0:
            break
        name = name[: max(len(name) - cut, 0)] + index[at:end]
        names.append(name)
        at = end + 1
    return names


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of varying length, and where it ends."""
    value = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value = (value << 7) | (byte & 0x7F)
        if not byte & 0x80:
            return value, at
        value += 1
    return value, at


def _id_bytes(folder: str) -> int:
    """How long the ids of a repository's objects are; a worktree's settings are in the folder that it shares."""
    with contextlib.suppress(OSError):
        shared = os.fsdecode(read_regular(os.path.join(folder, "commondir"), FILE_MAX).strip())
        folder = os.path.join(folder, shared)
    try:
        text = read_regular(os.path.join(folder, "config"), CONFIG_MAX).lower()
    except OSError:
        return 20
    return 32 if b"objectformat" in text and b"sha256" in text else 20
