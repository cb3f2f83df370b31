"""What a call did to files: looked at before and after, where its tool says which, or a folder is tracked."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from stator.errors import InvalidInput
from stator.model.commit import Upsert
from stator.model.state import FileOp, FileRecord
from stator.runtime import paths
from stator.runtime.tools import Tool

SKIPPED = frozenset({".git", ".hg", ".stator", ".venv", "__pycache__", "node_modules"})
"""Folders that are not looked into."""
TREE_MAX = 20_000
"""Files a tracked folder may hold; of a larger one nothing is observed, and that is said."""
DIGEST_MAX = 64 * 1024 * 1024
"""Bytes of a file that is digested; a larger one is known by its size alone."""
PATHS_MAX = 1000
"""Files one call may be said to touch."""
DIGITS = 16

_DIGEST = re.compile(rf"[0-9a-f]{{{DIGITS}}}|size:\d+")
"""A digest as it is made here; callers may record digests of other kinds."""

Stamp = tuple[int, int]
"""Size and time of change: enough to see that a file is another one."""


class Sight:
    """What was there before a call."""

    def __init__(
        self, root: str, tool: Tool[..., Any], given: Mapping[str, Any], tree: str
    ) -> None:
        self._root, self._tool, self._folder = root, tool, tree
        named = tool.files
        known = [given[named]] if isinstance(named, str) and named in given else []
        self._before = {path: digest(self._full(path)) for path in known if isinstance(path, str)}
        self._watching = bool(tree) and tool.effect != "read"
        self._tree = stamps(tree) if self._watching else None

    def changes(self, given: Mapping[str, Any], result: Any) -> tuple[Upsert, ...]:
        """What the call did, as records of `files`."""
        found = [
            record
            for path in self._paths(given, result)
            if (record := self._named(path)) is not None
        ]
        named = {record.path for record in found}
        found += [record for record in self._observed() if record.path not in named]
        return tuple(Upsert("files", record) for record in found)

    def _paths(self, given: Mapping[str, Any], result: Any) -> list[str]:
        if callable(self._tool.files):
            listed: list[Any] = list(self._tool.files(given, result))[:PATHS_MAX]
            return [path for path in listed if isinstance(path, str) and path]
        return [path for path in self._before if path]

    def _named(self, path: str) -> FileRecord | None:
        before, after = self._before.get(path, ""), digest(self._full(path))
        op: FileOp
        if self._tool.effect == "read":
            op = "read"
        elif before and not after:
            op = "deleted"
        else:
            op = "created" if path in self._before and not before else "modified"
        if op == "modified" and before == after and before:
            return None
        return self._record(path, op, "recorded", before, after)

    def _observed(self) -> list[FileRecord]:
        if not self._watching:
            return []
        now = stamps(self._folder)
        if now is None or self._tree is None:
            why = f"more than {TREE_MAX:,} files"
            return [FileRecord(path=".", op="skipped", how="observed", reason=why)]
        touched = [path for path in {**self._tree, **now} if self._tree.get(path) != now.get(path)]
        return [self._seen(path, now) for path in sorted(touched)[:PATHS_MAX]]

    def _seen(self, path: str, now: Mapping[str, Stamp]) -> FileRecord:
        op: Literal["created", "modified", "deleted"] = "modified"
        if path not in now:
            op = "deleted"
        elif self._tree is not None and path not in self._tree:
            op = "created"
        return self._record(path, op, "observed", "", digest(path) if path in now else "")

    def _record(
        self,
        path: str,
        op: FileOp,
        how: Literal["recorded", "observed"],
        before: str,
        after: str,
    ) -> FileRecord:
        root, relative = paths.split(path, self._root)
        return FileRecord(path=relative, root=root, op=op, how=how, before=before, after=after)

    def _full(self, path: str) -> str:
        return os.path.join(self._root, path) if self._root else path


def before(root: str, tool: Tool[..., Any], given: Mapping[str, Any], tree: str) -> Sight | None:
    """Look before a call runs; None where nobody asked to."""
    return Sight(root, tool, given, tree) if tool.files or tree else None


def digest(path: str) -> str:
    """The start of a file's SHA-256; empty where there is no such file."""
    try:
        size = os.stat(path).st_size
        if size > DIGEST_MAX:
            return f"size:{size}"
        with open(path, "rb") as file:
            return sha256(file.read()).hexdigest()[:DIGITS]
    except OSError:
        return ""


class Look(NamedTuple):
    """How a file stands to what was recorded of it, and how many bytes were read to see that."""

    said: str
    read: int = 0


def look(root: str, path: str, recorded: str, bytes_max: int) -> Look:
    """Compare a file of the root with its recorded digest; says nothing where that is not to be known.

    Recorded paths are anybody's: one that leads out of the root, or to what is no plain file, is not
    opened.
    """
    try:
        where, relative = paths.split(path, "")
        if where != ".":
            return Look("")
        full = os.path.join(root, relative)
        found = os.stat(full)
    except InvalidInput:
        return Look("")
    except OSError:
        return Look("gone from disk")
    if not stat.S_ISREG(found.st_mode) or not _DIGEST.fullmatch(recorded):
        return Look("")
    if found.st_size > bytes_max:
        return Look("not compared with the disk: too large")
    same = digest(full) == recorded
    return Look("unchanged on disk" if same else "changed on disk since", found.st_size)


def stamps(folder: str) -> dict[str, Stamp] | None:
    """Every file below a folder with its stamp; None if there are too many."""
    found: dict[str, Stamp] = {}
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED]
        for name in files:
            path = os.path.join(here, name)
            try:
                stat = os.lstat(path)
            except OSError:
                continue
            found[path] = (stat.st_size, stat.st_mtime_ns)
        if len(found) > TREE_MAX:
            return None
    return found
