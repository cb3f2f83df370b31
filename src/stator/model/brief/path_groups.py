"""Writes paths as one text: below their common folder, grouped by folder. Pure."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Sequence


def common_folder(paths: Sequence[str]) -> str:
    """The folder that all absolute paths are in, else most of them; empty if that is no more than a home."""
    known = [path for path in paths if posixpath.isabs(path)]
    votes: Counter[str] = Counter()
    for path in known:
        folder = posixpath.dirname(path)
        while folder.count("/") >= 2:
            votes[folder] += 1
            folder = posixpath.dirname(folder)
    for part in (1.0, 0.8):
        most = [folder for folder, count in votes.items() if count >= len(known) * part]
        deepest = max(most, key=lambda folder: (folder.count("/"), folder), default="")
        if known and deepest.count("/") >= 4 - (part < 1):
            return deepest
    return ""


def grouped(names: Sequence[tuple[str, str]], limit: int) -> tuple[str, int]:
    """(path, mark) pairs as one text by folder, `src/a.py ×3, b.py; docs/c.md`, in at most `limit` characters; and how
    many did not fit. A name after a comma is in the folder of the path before it."""
    folders: dict[str, list[str]] = {}
    kept, size = 0, 0
    for path, mark in names:
        folder, _, name = path.rpartition("/")
        cost = len(name) + len(mark) + 3 + (len(folder) + 2 if folder not in folders else 0)
        if size + cost > limit and kept:
            break
        folders.setdefault(folder, []).append(f"{name} {mark}".rstrip())
        kept, size = kept + 1, size + cost
    parts = [
        f"{folder}/{', '.join(group)}" if folder else ", ".join(group)
        for folder, group in folders.items()
    ]
    return "; ".join(parts), len(names) - kept
