"""Keeps what files held before and after a write, where the caller asked for it.

Contents are the input of a `file` commit, under their digests, appended just before the commit
whose records name it. The same content is kept once. What is not kept is reported with the reason:
ignored by git or by the caller, too large, unreadable, or with a secret in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatch
from posixpath import dirname, isabs, join, normpath
from typing import TYPE_CHECKING, Any

import msgspec

from stator.errors import InvalidInput
from stator.model.exchange.kept_contents import (
    BYTES_LIMIT,
    COMMIT_BYTES,
    KEPT,
    NOT_KEPT,
    SKIPPED,
    UNKNOWN_BEFORE,
)
from stator.model.log.commit import (
    Commit,
    Draft,
    Provenance,
    Upsert,
)
from stator.model.records.types import FileRecord, file_key
from stator.model.values import paths
from stator.model.views.file_story import WRITES
from stator.runtime.base.arguments import texts
from stator.runtime.base.pages import find_entry
from stator.runtime.files import git, safe_io
from stator.runtime.files.safe_io import Look
from stator.store.port import StorePort

if TYPE_CHECKING:
    from stator.model.calls.known import Scrub

CACHED_MAX = 64 * 1024 * 1024
"""Bytes of a tracked folder that are held ready, to know what was there before a write."""
NO_ROOM = Look(why=UNKNOWN_BEFORE)
FROM_FILE = Provenance("file", "unverified")

Stamp = tuple[int, int]
"""Size and time of change: enough to see that a file is another one."""
Append = Callable[[list[Draft]], list[Commit] | None]
"""Appends drafts, or collects them for later: then nothing comes back."""
Standing = Callable[[str], FileRecord | None]
"""What the session knows of the file that answers to a key."""


class TouchedFile(msgspec.Struct, frozen=True):
    """A write: its record, and the file before and after it; None where that is not known."""

    record: FileRecord
    before: Look | None
    after: Look | None


class KeptContents:
    """Records that name what was kept of them, and the commits that hold it."""

    def __init__(self) -> None:
        self.records: list[FileRecord] = []
        self.commits: list[tuple[str, dict[str, dict[str, Any]]]] = []
        self._bytes = 0

    def put(self, look: Look, mint: Callable[[], str]) -> str:
        """Have a content kept; the id of the commit that will hold it."""
        assert look.data is not None
        known = self.commits[-1][1].get(look.digest) if self.commits else None
        other_mode = known is not None and known["mode"] != look.mode
        if not self.commits or other_mode or self._bytes + len(look.data) > COMMIT_BYTES:
            self.commits.append((mint(), {}))
            self._bytes = 0
        identifier, contents = self.commits[-1]
        contents[look.digest] = {"data": _recordable(look.data), "mode": look.mode}
        self._bytes += len(look.data)
        return identifier

    def drafts(self, draft: Callable[..., Draft], **fields: Any) -> list[Draft]:
        """The commits that hold the contents, to be appended before the one with the records."""
        return [
            draft(
                "file",
                id=identifier,
                input={"contents": contents},
                status=KEPT,
                actor="system",
                provenance=FROM_FILE,
                **fields,
            )
            for identifier, contents in self.commits
        ]


class Rules:
    """Which contents are fit to be kept."""

    def __init__(self, root: str, scrub: Scrub, ignore: Sequence[str], max_bytes: int) -> None:
        self._root = root
        self._scrub = scrub
        self._ignore = tuple(ignore)
        self.max_bytes = max_bytes
        self._clean: dict[str, bool] = {}

    def ignored(self, files: Iterable[FileRecord]) -> dict[str, str]:
        """Why each of some files is not to be kept, by key; those that may be are not there."""
        found: dict[str, str] = {}
        asked: dict[str, dict[str, str]] = {}
        tops: dict[str, str | None] = {}
        for file in files:
            key = file_key(file.root, file.path)
            if self._matches(file.path):
                found[key] = "ignored"
            else:
                full = full_path(self._root, file)
                folder = dirname(full)
                if folder not in tops:
                    tops[folder] = git.top(folder or ".")
                if (top := tops[folder]) is not None:
                    asked.setdefault(top, {})[full] = key
        for top, keys in asked.items():
            said = git.ignored(top, keys)
            if said is None:
                found |= dict.fromkeys(keys.values(), "git does not say whether it is ignored")
            else:
                found |= {keys[full]: "ignored" for full in said if full in keys}
        return found

    def _matches(self, path: str) -> bool:
        names = path.split("/")
        if not SKIPPED.isdisjoint(names):
            return True
        return any(
            fnmatch(path, pattern) or any(fnmatch(name, pattern.rstrip("/")) for name in names)
            for pattern in self._ignore
        )

    def unfit(self, look: Look) -> str:
        """Why a content is not kept; nothing if it may be."""
        if look.data is None:
            return look.why or "unreadable"
        if len(look.data) > self.max_bytes:
            return "size"
        if look.digest not in self._clean:
            self._clean[look.digest] = self._scrub(look.data, None) is look.data
        return "" if self._clean[look.digest] else "secret"


class ContentKeeper:
    """What one run of a session keeps. Safe for threads."""

    def __init__(
        self,
        root: str,
        rules: Rules,
        standing: Standing,
        mint: Callable[[], str],
        *,
        room: int = CACHED_MAX,
    ) -> None:
        self._root, self._rules, self._room = root, rules, room
        self._standing, self._mint = standing, mint
        self._lock = threading.Lock()
        self._known: dict[tuple[str, int], str] = {}
        """Commits of this run, by the digest and mode they hold."""
        self._anew: set[str] = set()
        self._cache: dict[str, tuple[Stamp, Look]] = {}
        self._cached = 0

    def look(self, path: str) -> Look:
        """A file as it is now, by its path on this machine."""
        return self.look_at(self._record(path))

    def look_at(self, file: FileRecord) -> Look:
        """The same for a file as it is recorded."""
        return look_at(self._root, file, self._rules.max_bytes)

    # -- what is held ready -----------------------------------------------------------------------

    def refresh(self, stamps: Mapping[str, Stamp]) -> None:
        """Preload the contents of a folder's files, by their stamps, as far as they fit."""
        with self._lock:
            for path in [path for path in self._cache if path not in stamps]:
                self._forget(path)
            stale = {
                path: self._record(path)
                for path, stamp in stamps.items()
                if self._cache.get(path, (None,))[0] != stamp
            }
            ignored = self._rules.ignored(stale.values()) if stale else {}
            for path, file in stale.items():
                self._forget(path)
                why = ignored.get(file_key(file.root, file.path), "")
                look = Look(why=why) if why else self._ready(file, stamps[path][0])
                self._cache[path] = (stamps[path], look)
                self._cached += len(look.data or b"")

    def _record(self, path: str) -> FileRecord:
        root, relative = paths.split(path, self._root)
        return FileRecord(path=relative, root=root, op="read")

    def _ready(self, file: FileRecord, size: int) -> Look:
        """A file to be held ready; what would not be kept is not read either."""
        if size > self._rules.max_bytes:
            return Look(why="size")
        return self.look_at(file) if self._cached + size <= self._room else NO_ROOM

    def _forget(self, path: str) -> None:
        _, look = self._cache.pop(path, (None, safe_io.NOTHING))
        self._cached -= len(look.data or b"")

    def held(self, path: str, stamp: Stamp) -> Look | None:
        """A file as it was at a stamp, if that is known."""
        with self._lock:
            known = self._cache.get(path)
            if known is None or known[0] != stamp or known[1] is NO_ROOM:
                return None
            return known[1]

    def seen(self, file: FileRecord) -> Look | None:
        """A file as it was when its folder was last looked at, where no record knows it better."""
        path = file.from_path or file.path
        standing = self._standing(file_key(file.root, path))
        if standing is not None and standing.after_in:
            return None
        with self._lock:
            known = self._cache.get(full_path(self._root, msgspec.structs.replace(file, path=path)))
            return known[1] if known is not None and known[1] is not NO_ROOM else None

    def unfit(self, files: Mapping[str, tuple[FileRecord, Look]]) -> dict[str, str]:
        """Why each of some files could not be kept as it is now, by key; those that can be are not
        there."""
        found = self._rules.ignored(file for file, _ in files.values())
        for key, (_, look) in files.items():
            if key not in found and (why := self._rules.unfit(look)):
                found[key] = why
        return found

    # -- keeping ----------------------------------------------------------------------------------

    def keep(self, touched: Sequence[TouchedFile]) -> KeptContents:
        """Decide what is kept of some writes."""
        batch = KeptContents()
        files = [item.record for item in touched if item.record.op != "skipped"]
        ignored = self._rules.ignored(files)
        with self._lock:
            for item in touched:
                key = file_key(item.record.root, item.record.path)
                batch.records.append(self._kept(batch, item, ignored.get(key, "")))
        return batch

    def _kept(self, batch: KeptContents, item: TouchedFile, ignored: str) -> FileRecord:
        record = item.record
        source = file_key(record.root, record.from_path or record.path)
        standing = self._standing(source)
        unkept: dict[str, str] = {}
        found: dict[str, str] = {}
        for side, look in (("before", item.before), ("after", item.after)):
            if look is None or not look.there:
                continue
            found[side] = look.digest
            why = ignored or self._rules.unfit(look)
            if why:
                unkept[side] = why
            else:
                found[f"{side}_in"] = self._within(batch, look, standing)
        known = standing is not None and bool(standing.after_in)
        if item.before is None and record.op not in ("created", "read") and not known:
            unkept["before"] = ignored or UNKNOWN_BEFORE
        lost = unkept.get("after") or unkept.get("before")
        reason = record.reason or (NOT_KEPT + lost if lost else "")
        return msgspec.structs.replace(record, reason=reason, **found)

    def _within(self, batch: KeptContents, look: Look, standing: FileRecord | None) -> str:
        """The commit that holds a content, now or already."""
        known = self._known.get((look.digest, look.mode), "") or self._stands(look, standing)
        for identifier, contents in batch.commits:
            if not known and contents.get(look.digest, {}).get("mode") == look.mode:
                known = identifier
        return known or batch.put(look, self._mint)

    def _stands(self, look: Look, standing: FileRecord | None) -> str:
        if standing is None or look.digest in self._anew:
            return ""
        held = {standing.before: standing.before_in, standing.after: standing.after_in}
        return held.get(look.digest, "")

    def already(self, file: FileRecord, look: Look) -> str:
        """The commit of an earlier run that is taken to hold what a file holds now."""
        return self._stands(look, self._standing(file_key(file.root, file.path)))

    def keep_anew(self, look: Look) -> None:
        """A content that no earlier commit is to be taken for."""
        self._anew.add(look.digest)

    def landed(self, batch: KeptContents) -> None:
        """These commits are in the log: what they hold need not be kept again."""
        with self._lock:
            for identifier, contents in batch.commits:
                for digest, content in contents.items():
                    self._known[digest, content["mode"]] = identifier


def record_kept(
    keeper: ContentKeeper,
    file: FileRecord,
    plain: Draft,
    make: Callable[..., Draft],
    append: Append,
) -> str:
    """Record a file that a program reports, with its content: after it as on disk now, before it as
    it is known."""
    batch = _by_hand(keeper, file)
    more = (c for c in plain.changes if isinstance(c, Upsert) and c.collection != "files")
    changes = (*(Upsert("files", kept) for kept in batch.records), *more)
    drafts = [*batch.drafts(make), msgspec.structs.replace(plain, changes=changes)]
    if append(drafts) is not None:
        keeper.landed(batch)
    return plain.id


def _by_hand(keeper: ContentKeeper, file: FileRecord) -> KeptContents:
    if file.op not in WRITES:
        batch = KeptContents()
        batch.records.append(file)
        return batch
    after = keeper.look_at(file) if file.op != "deleted" else None
    if after is not None and file.after not in ("", after.digest):
        after = Look(file.after, why="its digest is another on disk")
    elif after is not None and not after.there:
        after = safe_io.UNREADABLE
    before = keeper.seen(file) if file.op != "created" and not file.before else None
    return keeper.keep([TouchedFile(file, before, after)])


def standing_in(store: StorePort, session: str) -> Standing:
    """What a session's state knows of files."""

    def standing(key: str) -> FileRecord | None:
        entry = find_entry(store, session, "files", key)
        return entry.record if entry and isinstance(entry.record, FileRecord) else None

    return standing


def scrub_of(store: StorePort, session: str) -> Scrub:
    """What a session's texts are redacted with: the key is content of its first commit."""
    from stator.model.log.redact import Redactor

    first = store.commits(session, upto=1, limit=1)[0]
    # Once it is erased, what was redacted is not known again.
    return Redactor(bytes.fromhex(first.known("key", "00"))).scrub


def full_path(root: str, file: FileRecord) -> str:
    """Where a recorded file is on this machine."""
    return file.path if file.path.startswith("/") else normpath(join(root or ".", file.path))


def look_at(base: str, file: FileRecord, limit: int = safe_io.DIGEST_MAX) -> Look:
    """A recorded file as it is now, below the session's root or, outside of it, from the top."""
    if file.root == ".":
        return safe_io.look(base, file.path, limit)
    full = full_path(base, file)
    return safe_io.look("/", full.lstrip("/"), limit) if isabs(full) else safe_io.UNREADABLE


def _recordable(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def check_options(ignore: object, max_bytes: object) -> tuple[list[str], int]:
    """The caller's rules, checked."""
    if type(max_bytes) is not int or not 0 < max_bytes <= BYTES_LIMIT:
        raise InvalidInput(
            f"max_bytes must be a whole number from 1 to {BYTES_LIMIT:,}, got {max_bytes!r:.40}",
            path="$.max_bytes",
        )
    return texts(ignore, "ignore"), max_bytes
