"""Reads what files held: one of them at a position, and the net patch of those a range wrote.

Read from the records that writes left and from the commits that hold contents; nothing on disk is
looked at. Recorded content may come from elsewhere, so a content counts only if it has the digest
it is named by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from stator.errors import Erased, NotFound
from stator.model.log.commit import Commit
from stator.model.log.delta import Put, Version
from stator.model.records.types import FileRecord, file_key
from stator.model.views.patch import FilePatch, FileSide, file_patch
from stator.runtime.files.capture import NOT_KEPT, UNKNOWN_BEFORE, WRITES
from stator.runtime.files.safe_io import digest_of
from stator.runtime.views import reflog
from stator.runtime.views.refs import Point
from stator.store.port import StorePort

COMMITS_HELD = 4
"""Commits whose contents are cached: the files of one write are in one commit."""


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What a file held, exactly."""

    path: str
    data: bytes
    mode: int
    digest: str
    root: str = "."
    seq: int = 0
    """Of the commit that holds it."""


class Held(msgspec.Struct, frozen=True):
    """A file at one end of a stretch of the log: its digest, the commit that holds it, or why none does."""

    digest: str = ""
    within: str = ""
    why: str = ""


class Ends(msgspec.Struct):
    """A file over a stretch of the log: as it was before it and after it; None where there was none."""

    root: str
    path: str
    start: Held | None
    end: Held | None
    from_path: str = ""


def after(record: FileRecord) -> Held | None:
    """What a record says is there now."""
    if record.op == "deleted":
        return None
    return Held(record.after, record.after_in, record.reason if not record.after_in else "")


def before(record: FileRecord) -> Held | None:
    """What a write says was there before it."""
    if record.op == "created":
        return None
    why = "" if record.before_in else record.reason or NOT_KEPT + UNKNOWN_BEFORE
    return Held(record.before, record.before_in, why)


class ContentReader:
    """Finds contents in a session's log."""

    def __init__(self, store: StorePort, session: str) -> None:
        self._store, self._session = store, session
        self._commits: dict[str, Commit | None] = {}
        self._contents: dict[str, dict[str, Any] | str] = {}

    def load(self, held: Held) -> tuple[bytes, int, int] | str:
        """Data, mode and the seq that holds them; or why nothing can be read."""
        if not held.within:
            return held.why or "not kept"
        contents = self._within(held.within)
        if isinstance(contents, str):
            return contents
        found = contents.get(held.digest)
        data = found.get("data") if isinstance(found, dict) else None
        mode = found.get("mode") if isinstance(found, dict) else None
        if isinstance(data, str):
            data = data.encode("utf-8", "surrogatepass")
        if not isinstance(data, bytes) or digest_of(data) != held.digest:
            return "not kept: what is recorded is something else"
        commit = self._commits[held.within]
        return data, mode if type(mode) is int else 0o644, commit.seq if commit else 0

    def _within(self, identifier: str) -> dict[str, Any] | str:
        if identifier not in self._contents:
            while len(self._contents) >= COMMITS_HELD:
                del self._contents[next(iter(self._contents))]
            self._contents[identifier] = self._read(identifier)
        return self._contents[identifier]

    def _read(self, identifier: str) -> dict[str, Any] | str:
        commit = self._commits[identifier] = self._commit(identifier)
        if commit is None or commit.kind != "file":
            return "not kept: the commit that held it is not here"
        try:
            value = commit.value("input")
        except Erased as error:
            return f"erased: {error.what}"
        contents = value.get("contents") if isinstance(value, dict) else None
        return contents if isinstance(contents, dict) else {}

    def _commit(self, identifier: str) -> Commit | None:
        for _, seq in self._store.locate(identifier.removeprefix("k_"), self._session):
            for found in self._store.commits(self._session, after=seq - 1, upto=seq, limit=1):
                if found.id == identifier:
                    return found
        return None


# -- one file -------------------------------------------------------------------------------------


def content(store: StorePort, point: Point, path: str, root: str) -> Content | None:
    """What a file held at a position; None if there was no such file. `NotFound` says why it cannot be
    known."""
    held = held_at(store, point, file_key(root, path))
    if held is None:
        return None
    found = ContentReader(store, point.session).load(held)
    if isinstance(found, str):
        kind = Erased if found.startswith("erased") else NotFound
        raise kind(f"{path!r:.80} at {point.shown}: {found}", session=point.session)
    data, mode, seq = found
    return Content(path=path, root=root, data=data, mode=mode, digest=held.digest, seq=seq)


def held_at(store: StorePort, point: Point, key: str) -> Held | None:
    """A file at a position: as the last record there says, else as the first write after it found it.

    Content is kept around writes, so that of a file that was only read so far the write after it may
    have what it held.
    """
    entry = store.find(point.session, "files", key, at=point.seq)
    record = entry.record if entry is not None else None
    standing = record if isinstance(record, FileRecord) and knows(record) else None
    if standing is not None and (standing.op == "deleted" or standing.after_in):
        return after(standing)
    upto = store.head(point.session).seq
    later = store.versions(point.session, after=point.seq, upto=upto, collections=("files",))
    return as_it_was(standing, [v for v in with_sources(later) if v.key == key])


def as_it_was(standing: FileRecord | None, later: Iterable[Version]) -> Held | None:
    """A file at a position, by the last record there that knows it and the versions after it."""
    if standing is None:
        return first_start(later)
    said = after(standing)
    if said is None or said.within:
        return said
    found = first_start(later)
    return found if found is not None and found.within and found.digest == said.digest else said


def knows(record: FileRecord) -> bool:
    """Whether a record says what the file held: a write does, and a look that noted a digest."""
    return record.op in WRITES or (record.op == "read" and bool(record.after))


def first_start(versions: Iterable[Version]) -> Held | None:
    """How a file was before the first of some versions that wrote it; None if none did."""
    for version in versions:
        record = getattr(version.op, "record", None)
        if isinstance(record, FileRecord) and record.op in WRITES:
            return None if record.op == "renamed" else before(record)
    return None


def with_sources(versions: Iterable[Version]) -> Iterator[Version]:
    """A rename takes a file away, too: what nothing was known of has no record that says so."""
    known: set[str] = set()
    for version in versions:
        record = getattr(version.op, "record", None)
        if isinstance(record, FileRecord) and record.op == "renamed" and record.from_path:
            source = file_key(record.root, record.from_path)
            if source not in known:
                gone = msgspec.structs.replace(
                    record, path=record.from_path, from_path="", op="deleted", after="", after_in=""
                )
                taken = Put("files", version.op.id, gone)
                yield msgspec.structs.replace(version, key=source, op=taken)
        known.add(version.key)
        yield version


# -- a stretch of the log -------------------------------------------------------------------------


def over(versions: Sequence[Version], *, renames: bool) -> dict[str, Ends]:
    """Each file some versions wrote, before the first and after the last of them."""
    found: dict[str, Ends] = {}
    left: dict[str, Held | None] = {}
    """What a file held just before it went, for the name it went to."""
    for version in versions:
        record = version.op.record if isinstance(version.op, Put) else None
        if not isinstance(record, FileRecord) or record.op not in WRITES:
            continue
        if record.op == "renamed" and renames and version.key not in found:
            _rename(record, version.key, found, left)
            continue
        known = found.get(version.key)
        if known is None:
            start = None if record.op == "renamed" else before(record)
            known = found[version.key] = Ends(record.root, record.path, start, start)
        left[version.key] = known.end
        known.end = after(record)
    return found


def _rename(
    record: FileRecord, key: str, found: dict[str, Ends], left: dict[str, Held | None]
) -> None:
    """A renamed file: what it was before is what was under the old name."""
    source = file_key(record.root, record.from_path)
    known = found.get(source)
    start = known.start if known is not None else before(record)
    origin = (known.from_path or record.from_path) if known is not None else record.from_path
    end = after(record)
    if end is not None and not end.within and not end.digest:
        end = left.get(source) or Held(record.before, record.before_in, end.why)
    found[key] = Ends(record.root, record.path, start, end, origin if start is not None else "")
    if known is not None:
        known.start = known.end = None


def written(store: StorePort, session: str, versions: Sequence[Version]) -> list[Version]:
    """Those that say what happened to files: a rewind puts records back and leaves the disk alone."""
    back = rewinds(store, session)
    return [version for version in versions if version.seq not in back]


def rewinds(store: StorePort, session: str) -> set[int]:
    """The commits that rewound a log."""
    return {rewind.seq for rewind in reflog.rewinds(store, session)}


def range_patches(store: StorePort, session: str, versions: Sequence[Version]) -> list[FilePatch]:
    """The net patch of a range of one log."""
    reader = ContentReader(store, session)
    ends = over(written(store, session, versions), renames=True)
    unseen = [
        FilePatch(path=record.path, root=record.root, change="changed", reason=record.reason)
        for version in versions
        if isinstance(record := getattr(version.op, "record", None), FileRecord)
        and (record.op, record.how) == ("skipped", "observed")
    ]
    return unseen + _patches((ends[key], reader, reader) for key in sorted(ends))


def fork_patches(
    store: StorePort, a: Point, b: Point, mine: Sequence[Version], theirs: Sequence[Version]
) -> list[FilePatch]:
    """The patch from one end to another, where each went its own way since a common commit."""
    left, right = (
        over(list(with_sources(written(store, point.session, versions))), renames=False)
        for point, versions in ((a, mine), (b, theirs))
    )
    readers = ContentReader(store, a.session), ContentReader(store, b.session)
    found: list[tuple[Ends, ContentReader, ContentReader]] = []
    for key in sorted({*left, *right}):
        either = left.get(key) or right[key]
        # A side that did not write it has it as the other side found it.
        start, first = (
            (left[key].end, readers[0]) if key in left else (right[key].start, readers[1])
        )
        end, last = (right[key].end, readers[1]) if key in right else (left[key].start, readers[0])
        found.append((Ends(either.root, either.path, start, end), first, last))
    return _patches(found)


def _patches(found: Iterable[tuple[Ends, ContentReader, ContentReader]]) -> list[FilePatch]:
    made = [_patch(ends, first, last) for ends, first, last in found]
    return [patch for patch in made if patch is not None]


def _patch(ends: Ends, first: ContentReader, last: ContentReader) -> FilePatch | None:
    start, end = ends.start, ends.end
    if start is None and end is None:
        return None
    same = start is not None and end is not None and start.digest == end.digest != ""
    same = same and not ends.from_path
    if same and start == end:
        return None
    sides: list[FileSide | None] = []
    for held, reader, path in ((start, first, ends.from_path or ends.path), (end, last, ends.path)):
        loaded = reader.load(held) if held is not None else None
        if isinstance(loaded, str):
            return None if same else _unshown(ends, loaded)
        sides.append(FileSide(path, loaded[0], loaded[1] & 0o777) if loaded is not None else None)
    return file_patch(ends.path, ends.root, sides[0], sides[1])


def _unshown(ends: Ends, why: str) -> FilePatch:
    changed = "renamed" if ends.from_path else "changed"
    change: Any = "added" if ends.start is None else "removed" if ends.end is None else changed
    return FilePatch(
        path=ends.path, root=ends.root, change=change, from_path=ends.from_path, reason=why
    )
