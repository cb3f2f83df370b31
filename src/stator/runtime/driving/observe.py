"""Finds out what a call did to files: looks before and after it, at what its tool names or a tracked folder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from stator.model.exchange.items import Touch
from stator.model.exchange.kept_contents import SKIPPED
from stator.model.exchange.tool_files import files_of_call
from stator.model.log.commit import Change, Upsert
from stator.model.records.types import FileOp, FileRecord
from stator.model.values import paths
from stator.runtime.driving.driver import Driver
from stator.runtime.driving.state_writer import in_play
from stator.runtime.driving.tools import Tool
from stator.runtime.files.capture import (
    ContentKeeper,
    KeptContents,
    Rules,
    Stamp,
    TouchedFile,
    check_options,
    standing_in,
)
from stator.runtime.files.disk_check import digest_at, is_database
from stator.runtime.files.safe_io import NOTHING, Look

TREE_MAX = 20_000
"""Files a tracked folder may hold. A larger one is not observed, which is recorded."""
PATHS_MAX = 1000
"""Files that are recorded as touched by one call."""


class InferredFiles:
    """The files that a call touches by what its tool is called and given, and which of them existed before it."""

    def __init__(
        self, root: str, tool: Tool[..., Any], given: Mapping[str, Any], tree: str
    ) -> None:
        self._root = root
        touches = files_of_call(tool.name, given, root)
        if tool.effect == "read":
            touches = tuple(touch for touch in touches if touch.op == "read")
        # a tracked folder is looked at itself, which shows more than the words of a call
        self._touches = [
            touch
            for touch in touches
            if _is_usable(touch.path)
            and not (
                tree and touch.op != "read" and self._full(touch.path).startswith(tree + os.sep)
            )
        ][:PATHS_MAX]
        self._there = {
            touch.path for touch in self._touches if os.path.lexists(self._full(touch.path))
        }

    def changes(self) -> tuple[Change, ...]:
        """What the call did, once it succeeded, as records of `files` and of the working set."""
        return tuple(change for touch in self._touches for change in self._recorded(touch))

    def _recorded(self, touch: Touch) -> list[Change]:
        root, path = paths.split(touch.path, self._root)
        op = "modified" if touch.op == "created" and touch.path in self._there else touch.op
        source = paths.split(touch.from_path, self._root)[1] if touch.from_path else ""
        record = FileRecord(
            path=path, root=root, op=op, how=touch.how, after=touch.after, from_path=source
        )
        return [Upsert("files", record), *in_play(record)]

    def _full(self, path: str) -> str:
        return os.path.normpath(os.path.join(self._root, path)) if self._root else path


class FilesBefore:
    """What was there before a call."""

    def __init__(
        self,
        root: str,
        tool: Tool[..., Any],
        given: Mapping[str, Any],
        tree: str,
        keeper: ContentKeeper | None,
    ) -> None:
        self._root, self._tool, self._folder = root, tool, tree
        self._keeper = keeper if tool.effect != "read" else None
        self.kept: KeptContents | None = None
        named = () if tool.files is None or callable(tool.files) else tool.files
        names = (named,) if isinstance(named, str) else named
        known = [given[name] for name in names if name in given]
        self._before = {
            path: self._look(path) for path in known if isinstance(path, str) and _is_usable(path)
        }
        self._watching = bool(tree) and tool.effect != "read"
        self._tree = stamps(tree) if self._watching else None
        if self._tree is not None and self._keeper is not None:
            self._keeper.refresh(self._tree)

    def changes(self, given: Mapping[str, Any], result: Any) -> tuple[Change, ...]:
        """What the call did, as records of `files`; `kept` is then what is kept of their contents."""
        found = [
            touched
            for path in self._paths(given, result)
            if (touched := self._named(path)) is not None
        ]
        named = {touched.record.path for touched in found}
        found += [touched for touched in self._observed() if touched.record.path not in named]
        records = [touched.record for touched in found]
        if self._keeper is not None:
            self.kept = self._keeper.keep(found)
            records = self.kept.records
        return tuple(
            change for record in records for change in (Upsert("files", record), *in_play(record))
        )

    def landed(self) -> None:
        """What `changes` returned is in the log."""
        if self._keeper is not None and self.kept is not None:
            self._keeper.landed(self.kept)

    def _paths(self, given: Mapping[str, Any], result: Any) -> list[str]:
        if callable(self._tool.files):
            listed: list[Any] = list(self._tool.files(given, result))[:PATHS_MAX]
            return [path for path in listed if isinstance(path, str) and _is_usable(path)]
        return list(self._before)

    def _look(self, path: str) -> Look:
        """A file as it is now: all of it where contents are kept, else its digest."""
        if self._keeper is not None:
            return self._keeper.look(self._full(path))
        return Look(digest_at(self._full(path)))

    def _named(self, path: str) -> TouchedFile | None:
        looked = path in self._before
        before = self._before[path] if looked else self._held(self._full(path))
        after = self._look(path)
        known = before if before is not None else NOTHING
        op: FileOp
        if self._tool.effect == "read":
            op = "read"
        elif known.there and not after.there:
            op = "deleted"
        else:
            op = "created" if before is not None and not known.there else "modified"
        if op == "modified" and known.digest == after.digest and known.digest:
            return None
        return self._touched(path, op, "recorded", before, after)

    def _held(self, path: str) -> Look | None:
        """The contents of a tracked folder before the call; None where unknown."""
        if self._keeper is None or self._tree is None or not path.startswith(self._folder + os.sep):
            return None
        stamp = self._tree.get(path)
        return NOTHING if stamp is None else self._keeper.held(path, stamp)

    def _observed(self) -> list[TouchedFile]:
        if not self._watching:
            return []
        now = stamps(self._folder)
        if now is None or self._tree is None:
            return [_skipped(f"more than {TREE_MAX:,} files")]
        touched = [path for path in {**self._tree, **now} if self._tree.get(path) != now.get(path)]
        found = [self._seen(path, now) for path in sorted(touched)[:PATHS_MAX]]
        more = len(touched) - len(found)
        return [*found, _skipped(f"{more:,} more files changed")] if more else found

    def _seen(self, path: str, now: Mapping[str, Stamp]) -> TouchedFile:
        op: Literal["created", "modified", "deleted"] = "modified"
        if path not in now:
            op = "deleted"
        elif self._tree is not None and path not in self._tree:
            op = "created"
        after = self._look(path) if path in now else NOTHING
        return self._touched(path, op, "observed", self._held(path), after)

    def _touched(
        self,
        path: str,
        op: FileOp,
        how: Literal["recorded", "observed"],
        before: Look | None,
        after: Look,
    ) -> TouchedFile:
        root, relative = paths.split(path, self._root)
        first = before.digest if before is not None else ""
        record = FileRecord(
            path=relative, root=root, op=op, how=how, before=first, after=after.digest
        )
        return TouchedFile(record, before, after)

    def _full(self, path: str) -> str:
        return os.path.join(self._root, path) if self._root else path


def _skipped(why: str) -> TouchedFile:
    """A record of files that were not looked at, and why."""
    record = FileRecord(path=".", op="skipped", how="observed", reason=why)
    return TouchedFile(record, NOTHING, NOTHING)


def track(
    driver: Driver, root: str, *, contents: bool, ignore: Sequence[str], max_bytes: int
) -> None:
    """Look at a folder before and after each call from here on; with `contents`, keep what files hold."""
    tree = os.path.normpath(os.path.join(driver.root, root)) if root else driver.root
    patterns, most = check_options(ignore, max_bytes)
    keeper: ContentKeeper | None = None
    if contents:
        rules = Rules(driver.root, driver.scrub, patterns, most)
        standing = standing_in(driver.store, driver.id)
        keeper = ContentKeeper(driver.root, rules, standing, lambda: driver.context.mint("commit"))
        known = stamps(tree) if tree else None
        if known is not None:
            keeper.refresh(known)
    driver.tracked, driver.keeper = tree, keeper


def stamps(folder: str) -> dict[str, Stamp] | None:
    """Every file below a folder with its stamp; None if there are too many."""
    found: dict[str, Stamp] = {}
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED]
        for name in files:
            path = os.path.join(here, name)
            if not _is_usable(path) or is_database(path):
                continue
            try:
                stat = os.lstat(path)
            except OSError:
                continue
            found[path] = (stat.st_size, stat.st_mtime_ns)
        if len(found) > TREE_MAX:
            return None
    return found


def _is_usable(path: str) -> bool:
    """Whether a name can be recorded; some file systems have bytes that no text is."""
    if path.isascii():
        return bool(path) and "\0" not in path
    return "\0" not in path and not any("\ud800" <= char <= "\udfff" for char in path)
