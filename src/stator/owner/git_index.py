"""Whether git tracks a file: what a repository tracks, it brings with it, and a pull can replace it.

Reads git's index itself. To run git in a folder of unknown origin would carry out what that folder's settings say.
"""

from __future__ import annotations

import os
import stat
import struct

SIZE_MAX = 256 * 2**20
HEADER = 12
ENTRY = 40
"""Bytes of an entry before its object id."""
NAME_MASK, EXTENDED = 0x0FFF, 0x4000
FILE_MAX = 4096
"""Bytes of a `.git` file that is read."""


def is_tracked(path: str) -> bool:
    """Whether the work tree around a path tracks it, or a link or folder on the way to it."""
    full = os.path.abspath(path)
    folder = os.path.dirname(full)
    while True:
        found = _git_folder(folder)
        if found:
            parts = os.path.relpath(full, folder).split(os.sep)
            names = [os.fsencode("/".join(parts[: n + 1])) for n in range(len(parts))]
            return any(_names_any(index, names, found) for index in _indexes(found))
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
        with open(path, "rb") as file:
            given = file.read(FILE_MAX)
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
            with open(os.path.join(folder, name), "rb") as file:
                found.append(file.read(SIZE_MAX))
        except OSError:
            continue  # a repository without a commit has none
    return found


def _names_any(index: bytes, names: list[bytes], folder: str) -> bool:
    if index[:4] != b"DIRC" or len(index) < HEADER:
        return False
    version, entries = struct.unpack(">II", index[4:HEADER])
    if version == 4:
        wanted = set(names)
        return any(name in wanted for name in _compressed(index, entries, _id_bytes(folder)))
    return any(_has(index, name) for name in names)


def _has(index: bytes, name: bytes) -> bool:
    """Whether an entry of exactly that name is in an index whose names are whole (versions 2 and 3)."""
    at = -1
    while (at := index.find(name + b"\0", at + 1)) >= 0:
        # The length of the name stands in the flags before it, so that the end of a longer name is told apart.
        length = min(len(name), NAME_MASK)
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
    """How long the ids of a repository's objects are."""
    try:
        with open(os.path.join(folder, "config"), "rb") as file:
            text = file.read(SIZE_MAX).lower()
    except OSError:
        return 20
    return 32 if b"objectformat" in text and b"sha256" in text else 20
