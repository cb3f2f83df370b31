"""Reads what files held: one of them at a position, and the net patch of those a range wrote.

Read from the records that writes left and from the commits that hold contents; nothing on disk is
looked at. Recorded content may come from elsewhere, so a content counts only if it has the digest
it is named by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Sequence
from posixpath import commonpath, dirname, isabs
from typing import Any

import msgspec

from stator.errors import Erased, NotFound
from stator.model.brief.path_groups import common_folder
from stator.model.exchange.hunks import Place, applied, counts, from_plain, from_unified
from stator.model.exchange.kept_contents import NOT_KEPT, UNKNOWN_BEFORE, UNRECORDED, place_key
from stator.model.log.commit import Commit
from stator.model.log.delta import Version
from stator.model.records.types import FileRecord, Record, RevisionRecord, file_key
from stator.model.views.file_story import (
    Edit,
    Ends,
    FileStory,
    Held,
    after,
    as_it_was,
    knows,
    only_renamed,
    over,
    with_sources,
)
from stator.model.views.patch import FilePatch, FileSide, PatchPart, file_patch, rename_patch
from stator.runtime.base.pages import find_entry
from stator.runtime.files.safe_io import digest_of
from stator.runtime.views import reflog
from stator.runtime.views.refs import Point
from stator.store.port import StorePort

COMMITS_HELD = 4
"""Commits whose contents are cached: the files of one write are in one commit."""
GAPS_SHOWN = 5
ONLY_PLACES = "only the changed places are known, not the rest of the file"
DOES_NOT_FIT = (
    "not known: its changes do not fit what the file held before, so something else changed it"
)


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What a file held, exactly."""

    path: str
    data: bytes
    mode: int
    digest: str
    root: str = "."
    seq: int = 0
    """Of the commit that holds it."""


class ContentReader:
    """Finds contents in a session's log."""

    def __init__(self, store: StorePort, session: str) -> None:
        self._store, self._session = store, session
        self._commits: dict[str, Commit | None] = {}
        self._values: dict[str, dict[str, Any] | str] = {}
        self._worked_out: dict[tuple[str, str], tuple[bytes, int, int]] = {}

    def load(self, held: Held) -> tuple[bytes, int, int] | str:
        """Data, mode (0 where no source says it) and the seq that holds them; or why nothing can be read."""
        if not held.within:
            return self._changed(held) if held.patch else held.why or UNRECORDED
        value = self._within(held.within)
        if isinstance(value, str):
            return value
        contents = value.get("contents")
        found = contents.get(held.digest) if isinstance(contents, dict) else None
        data = found.get("data") if isinstance(found, dict) else None
        mode = found.get("mode") if isinstance(found, dict) else None
        if isinstance(data, str):
            data = data.encode("utf-8", "surrogatepass")
        if not isinstance(data, bytes) or digest_of(data) != held.digest:
            return "not kept: what is recorded is something else"
        commit = self._commits[held.within]
        return data, mode if type(mode) is int else 0o644, commit.seq if commit else 0

    def places(self, patch: str, key: str) -> tuple[Place, ...] | str:
        """The changed places that a commit holds; or why they cannot be read."""
        value = self._within(patch)
        if isinstance(value, str):
            return value
        patches = value.get("patches")
        found = from_plain(patches.get(key)) if isinstance(patches, dict) else ()
        return found or "not kept: what is recorded is something else"

    def _changed(self, held: Held) -> tuple[bytes, int, int] | str:
        """A content from an earlier one: each change in between must fit exactly."""
        chain: list[Held] = []
        here: Held | None = held
        found: tuple[bytes, int, int] | str | None = None
        while found is None and here is not None:
            if not here.patch:
                found = self.load(here)
            elif (known := self._worked_out.get((here.patch, here.places))) is not None:
                found = known
            else:
                chain.append(here)
                here = here.base
        for step in reversed(chain):
            found = self._step(step, found or ONLY_PLACES)
        return found or ONLY_PLACES

    def _step(
        self, step: Held, found: tuple[bytes, int, int] | str
    ) -> tuple[bytes, int, int] | str:
        changed = self.places(step.patch, step.places)
        if isinstance(changed, str) or isinstance(found, str):
            return changed if isinstance(changed, str) else ONLY_PLACES
        try:
            text = applied(changed, found[0].decode())
        except UnicodeDecodeError:
            text = None
        if text is None or (step.digest and digest_of(text.encode()) != step.digest):
            return DOES_NOT_FIT
        commit = self._commits[step.patch]
        made = text.encode(), found[1], commit.seq if commit else 0
        while len(self._worked_out) >= COMMITS_HELD:
            del self._worked_out[next(iter(self._worked_out))]
        self._worked_out[step.patch, step.places] = made
        return made

    def _within(self, identifier: str) -> dict[str, Any] | str:
        if identifier not in self._values:
            while len(self._values) >= COMMITS_HELD:
                del self._values[next(iter(self._values))]
            self._values[identifier] = self._read(identifier)
        return self._values[identifier]

    def _read(self, identifier: str) -> dict[str, Any] | str:
        commit = self._commits[identifier] = self._commit(identifier)
        if commit is None or commit.kind != "file":
            return "not kept: the commit that held it is not here"
        try:
            value = commit.value("input")
        except Erased as error:
            return f"erased: {error.what}"
        return value if isinstance(value, dict) else {}

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
    entry = find_entry(store, point.session, "files", key, at=point.seq)
    record = entry.record if entry is not None else None
    standing = record if isinstance(record, FileRecord) and knows(record) else None
    if standing is not None and (standing.op == "deleted" or standing.after_in):
        return after(standing)
    said = None
    if standing is not None:
        story = FileStory()
        for version in wrote_upto(store, point.session, point.seq):
            story.take(version)
        said = story.left.get(key, after(standing))
    upto = store.head(point.session).seq
    later = store.versions(point.session, after=point.seq, upto=upto, collections=("files",))
    return as_it_was(standing, said, [v for v in with_sources(later) if v.key == key])


def wrote_upto(store: StorePort, session: str, upto: int) -> list[Version]:
    """What records say of files, from the beginning of a log to a position."""
    found = store.versions(session, after=0, upto=upto, collections=("files",))
    return written(store, session, found)


# -- a stretch of the log -------------------------------------------------------------------------


def written(store: StorePort, session: str, versions: Sequence[Version]) -> list[Version]:
    """Those that say what happened to files: a rewind puts records back and leaves the disk alone."""
    back = rewinds(store, session)
    return [version for version in versions if version.seq not in back]


def rewinds(store: StorePort, session: str) -> set[int]:
    """The commits that rewound a log."""
    return {rewind.seq for rewind in reflog.rewinds(store, session)}


def range_patches(
    store: StorePort, session: str, versions: Sequence[Version], start: int
) -> list[FilePatch]:
    """The net patch of a range of one log, which begins after the commit `start`."""
    reader = ContentReader(store, session)
    wrote = written(store, session, versions)
    earlier = wrote_upto(store, session, start) if start and _needs_more(wrote) else ()
    ends = over(wrote, renames=True, earlier=earlier)
    unseen = [
        FilePatch(path=record.path, root=record.root, change="changed", reason=record.reason)
        for version in versions
        if isinstance(record := getattr(version.op, "record", None), FileRecord)
        and (record.op, record.how) == ("skipped", "observed")
    ]
    whole = [(ends[key], reader, reader) for key in sorted(ends)]
    return unseen + _patches(whole, _base(store, session, ends.values()))


def _needs_more(versions: Iterable[Version]) -> bool:
    """Whether some content is known only from the one before it, which may be before these versions, or a rename may
    have replaced a file that was there."""
    records = [getattr(version.op, "record", None) for version in versions]
    return any(
        isinstance(record, FileRecord) and (record.patch_in or record.op == "renamed")
        for record in records
    )


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
    return _patches(found, _base(store, a.session, [ends for ends, _, _ in found]))


def _patches(
    whole: Sequence[tuple[Ends, ContentReader, ContentReader]], base: str
) -> list[FilePatch]:
    made = [
        _patch(ends, first, last, base if all(_is_below(n, base) for n in _names(ends)) else "")
        for ends, first, last in whole
    ]
    shown = [patch for patch in made if patch is not None]
    # a file that got another name, which no patch shows, was there under the old one
    left = {(patch.root, patch.from_path) for patch in shown if patch.from_path and not patch.patch}
    return [
        FilePatch(
            path=patch.path, root=patch.root, change="changed", base=patch.base,
            reason=NOT_KEPT + UNKNOWN_BEFORE,
        )
        if patch.change == "added" and (patch.root, patch.path) in left
        else patch
        for patch in shown
    ]  # fmt: skip


def _base(store: StorePort, session: str, found: Collection[Ends]) -> str:
    """The folder that paths are relative to, where no file is below the session's root: an agent that worked elsewhere.
    It is the same for every range of a session: the repository that it committed to, if half of the files are in it,
    else the folder of all its files, else that of these."""
    names = [name for ends in found for name in _names(ends)]
    if any(ends.root != "/" for ends in found) or not all(map(isabs, names)) or not names:
        return ""
    records = [entry.record for entry in store.entries(session, "files", "revisions")]
    files = [one.path for one in records if isinstance(one, FileRecord) and isabs(one.path)]
    home = _repository(records, files)
    if home and sum(_is_below(name, home) for name in names) * 2 >= len(names):
        return home
    whole = common_folder(files)
    if whole and all(_is_below(name, whole) for name in names):
        return whole
    return commonpath([dirname(name) for name in names])


def _names(ends: Ends) -> list[str]:
    return [ends.path, ends.from_path] if ends.from_path else [ends.path]


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")


def _repository(records: Iterable[Record], files: Sequence[str]) -> str:
    """Where most files are that a session committed; empty if it committed none. A revision names them as they are
    called in their repository."""
    committed = {name for one in records if isinstance(one, RevisionRecord) for name in one.files}
    ends = Counter(
        path.removesuffix(f"/{name}")
        for path in files
        for name in committed
        if name and path.endswith(f"/{name}")
    )
    return ends.most_common(1)[0][0] if ends else ""


def _patch(
    ends: Ends, first: ContentReader, last: ContentReader, base: str = ""
) -> FilePatch | None:
    start, end = ends.start, ends.end
    if start is None and end is None:
        return None
    same = start is not None and end is not None and start.digest == end.digest != ""
    same = same and not ends.from_path
    if same and start == end:
        return None
    loaded: list[tuple[bytes, int, int] | None] = []
    for held, reader in ((start, first), (end, last)):
        found = reader.load(held) if held is not None else None
        if isinstance(found, str):
            return None if same else _unshown(ends, found, last, base)
        loaded.append(found)
    # a mode that is not known is that of the other side
    mode = next((found[1] & 0o777 for found in loaded if found is not None and found[1]), 0o644)
    sides = [
        FileSide(path, found[0], found[1] & 0o777 or mode) if found is not None else None
        for found, path in zip(loaded, (ends.from_path or ends.path, ends.path), strict=True)
    ]
    made = file_patch(ends.path, ends.root, sides[0], sides[1], base)
    return msgspec.structs.replace(made, note=_gap_note(ends)) if made is not None else None


def _gap_note(ends: Ends) -> str:
    """What a net patch shows that no record explains."""
    if not ends.gaps:
        return ""
    places = ", ".join(f"@{seq}" for seq in ends.gaps[:GAPS_SHOWN])
    return f"something that is not recorded changed it before {places}"


def _unshown(ends: Ends, why: str, reader: ContentReader, base: str) -> FilePatch:
    """The change of a file whose contents are not known: its changed places, as far as they are."""
    changed = "renamed" if ends.from_path else "changed"
    change: Any = "added" if ends.start is None else "removed" if ends.end is None else changed
    if change == "renamed" and only_renamed(ends.edits):
        return rename_patch(ends.path, ends.root, ends.from_path, base)
    parts = [_part(edit, reader) for edit in ends.edits]
    if change != "changed" or not any(part.places for part in parts):
        return FilePatch(
            path=ends.path, root=ends.root, change=change, from_path=ends.from_path, reason=why,
            base=base,
        )  # fmt: skip
    counted = [counts(part.places) for part in parts]
    return FilePatch(
        path=ends.path, root=ends.root, change=change,
        parts=tuple(parts), note=_gap_note(ends), base=base,
        added=sum(count[0] for count in counted), removed=sum(count[1] for count in counted),
    )  # fmt: skip


def _part(edit: Edit, reader: ContentReader) -> PatchPart:
    """What is known of one write: the places it changed, or why they are not known."""
    record, version = edit.record, edit.version
    held = reader.places(record.patch_in, place_key(record)) if record.patch_in else ""
    found = held or _between(edit, reader)
    known = () if isinstance(found, str) else found
    why = found if isinstance(found, str) else ""
    return PatchPart(turn=version.turn, seq=version.seq, places=known, reason=why)


def _between(edit: Edit, reader: ContentReader) -> tuple[Place, ...] | str:
    """The changed places of a write whose contents are known."""
    alone = Ends(edit.record.root, edit.record.path, edit.start, edit.end)
    sides = [reader.load(held) if held is not None else None for held in (edit.start, edit.end)]
    why = next((side for side in sides if isinstance(side, str)), "")
    made = _patch(alone, reader, reader) if not why else None
    return from_unified(made.patch) if made is not None else why or "nothing changed"


# -- one edit -------------------------------------------------------------------------------------


class EditPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """The changed places of one write of one file, or why they are not known."""

    path: str
    root: str
    op: str
    places: tuple[Place, ...] = ()
    added: int = 0
    """Lines."""
    removed: int = 0
    reason: str = ""


def hunks_of(
    store: StorePort, session: str, seq: int, path: str, root: str = "."
) -> EditPlaces | None:
    """The changed places of one write; None if that commit did not write the file."""
    key = file_key(root, path)
    versions = store.versions(session, after=seq - 1, upto=seq, collections=("files",))
    story = FileStory()
    if _needs_more(versions):
        for version in wrote_upto(store, session, seq - 1):
            story.take(version)
    edits = [story.take(version) for version in versions]
    edit = next((e for e in edits if e is not None and e.version.key == key), None)
    if edit is None or edit.record.op == "read":
        return None
    part = _part(edit, ContentReader(store, session))
    added, removed = counts(part.places)
    return EditPlaces(
        path=path, root=root, op=edit.record.op, places=part.places,
        added=added, removed=removed, reason=part.reason,
    )  # fmt: skip


def edits_in(
    store: StorePort, session: str, after: int, upto: int, only: Container[int] | None = None
) -> dict[int, list[EditPlaces]]:
    """The changed places of every write in a range of one log, by the commit that recorded it; with `only`, of those
    commits."""
    versions = store.versions(session, after=after, upto=upto, collections=("files",))
    story, reader = FileStory(), ContentReader(store, session)
    if after and _needs_more(versions):
        for version in wrote_upto(store, session, after):
            story.take(version)
    found: dict[int, list[EditPlaces]] = {}
    for version in written(store, session, versions):
        edit = story.take(version)
        if (
            edit is None
            or edit.record.op == "read"
            or (only is not None and version.seq not in only)
        ):
            continue
        part = _part(edit, reader)
        added, removed = counts(part.places)
        record = edit.record
        found.setdefault(version.seq, []).append(
            EditPlaces(
                path=record.path, root=record.root, op=record.op, places=part.places,
                added=added, removed=removed, reason=part.reason,
            )
        )  # fmt: skip
    return found
