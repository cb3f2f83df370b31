"""Follows files through a log: what each record says a file held before and after it. Pure.

A record names the commits that hold a content, or the one that holds the changed places. In the second case the
content after it is the content before it with these places changed, as far back as one is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from stator.model.exchange.kept_contents import NOT_KEPT, UNKNOWN_BEFORE, UNRECORDED, place_key
from stator.model.log.delta import Put, Version
from stator.model.records.types import FileRecord, file_key

WRITES = frozenset({"created", "modified", "deleted", "renamed"})
RESTORED = "restored"
"""Status of the commit that put files back."""
CHAIN_MAX = 200
"""Changes after one another that are followed back to a content that is known."""


class Held(msgspec.Struct, frozen=True):
    """A file at one end of a stretch of the log: its digest, the commit that holds it, or why none does.

    Where only changed places are known, `patch` is the commit that holds them, under `places`, and `base` the file
    before them.
    """

    digest: str = ""
    within: str = ""
    why: str = ""
    patch: str = ""
    places: str = ""
    base: Held | None = None
    depth: int = 0

    @property
    def is_known(self) -> bool:
        """Whether there is something to read it from."""
        return bool(self.within or (self.patch and self.base is not None and self.base.is_known))


class Edit(msgspec.Struct, frozen=True):
    """A write: the file before it and after it; None where there was none."""

    version: Version
    record: FileRecord
    start: Held | None
    end: Held | None
    gap: bool = False
    """Whether it did not find what the record before it left: something else changed the file."""


class Ends(msgspec.Struct):
    """A file over a stretch of the log: as it was before it and after it; None where there was none."""

    root: str
    path: str
    start: Held | None
    end: Held | None
    from_path: str = ""
    edits: list[Edit] = []
    """The writes."""
    gaps: list[int] = []
    """Commits that found another content than the one before them left."""


def after(record: FileRecord, start: Held | None = None) -> Held | None:
    """What a record says is there now; `start` is what was there before."""
    if record.op == "deleted":
        return None
    if record.after_in:
        return Held(record.after, record.after_in)
    if not record.patch_in:
        return Held(record.after, "", record.reason)
    why = record.reason or UNRECORDED
    depth = start.depth + 1 if start is not None else 0
    base = start if depth <= CHAIN_MAX else None
    return Held(record.after, "", why, record.patch_in, place_key(record), base, depth)


def before(record: FileRecord) -> Held | None:
    """What a write says was there before it."""
    if record.op == "created":
        return None
    shown = record.after_in or record.patch_in
    unknown = NOT_KEPT + UNKNOWN_BEFORE if shown else UNRECORDED
    why = "" if record.before_in else record.reason or unknown
    return Held(record.before, record.before_in, why)


def knows(record: FileRecord) -> bool:
    """Whether a record says what the file held: a write does, and a look that noted a digest."""
    return record.op in WRITES or (record.op == "read" and bool(record.after))


class FileStory:
    """Takes the versions of file records in order; `left` is every file as the last of them left it."""

    def __init__(self) -> None:
        self.left: dict[str, Held | None] = {}
        self._went: dict[str, Held | None] = {}
        """What a file held before it was deleted: a rename deletes the old name first."""

    def take(self, version: Version) -> Edit | None:
        """The write that a version records, or the look that noted a content; None for anything else."""
        record = version.op.record if isinstance(version.op, Put) else None
        if not isinstance(record, FileRecord) or not knows(record):
            return None
        source = file_key(record.root, record.from_path or record.path)
        prior = self.left.get(source)
        if record.op == "renamed" and prior is None:
            prior = self._went.get(source)
        start, gap = self._start(record, prior)
        end = after(record, start)
        if record.op == "renamed" and end is not None and not (end.digest or end.patch):
            end = start if start is not None else end
        if record.op == "read" and end is not None and not end.within and _is_same(prior, end):
            end = prior
        if source != version.key:
            self.left[source] = None
        if record.op == "deleted":
            self._went[version.key] = prior
        self.left[version.key] = end
        return Edit(version, record, start, end, gap)

    def _start(self, record: FileRecord, prior: Held | None) -> tuple[Held | None, bool]:
        start = before(record)
        if record.op == "read":
            gap = prior is not None and _differ(prior.digest, record.after)
            return prior, gap
        if start is None or prior is None:
            return start, False
        if _differ(prior.digest, start.digest):
            return start, True
        return (start if start.within or not prior.is_known else prior), False


def _differ(one: str, other: str) -> bool:
    return bool(one and other and one != other)


def _is_same(prior: Held | None, end: Held) -> bool:
    return prior is not None and prior.digest == end.digest and prior.is_known


def as_it_was(
    record: FileRecord | None, said: Held | None, later: Iterable[Version]
) -> Held | None:
    """A file at a position: the last record there that knows it, what that says, and the versions after it."""
    if record is None:
        return first_start(later)
    if said is None or said.is_known:
        return said
    found = first_start(later)
    return found if found is not None and found.within and found.digest == said.digest else said


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
                    record, path=record.from_path, from_path="", op="deleted",
                    after="", after_in="", patch_in="",
                )  # fmt: skip
                taken = Put("files", version.op.id, gone)
                yield msgspec.structs.replace(version, key=source, op=taken)
        known.add(version.key)
        yield version


def over(
    versions: Sequence[Version], *, renames: bool, earlier: Iterable[Version] = ()
) -> dict[str, Ends]:
    """Each file some versions wrote, before the first and after the last of them. `earlier` are the versions before
    them: contents may have to be followed back."""
    story = FileStory()
    for version in earlier:
        story.take(version)
    found: dict[str, Ends] = {}
    left: dict[str, Held | None] = {}
    """What a file held just before it went, for the name it went to."""
    for version in versions:
        target = story.left.get(version.key)
        edit = story.take(version)
        if edit is None:
            continue
        record = edit.record
        known = found.get(version.key)
        if record.op == "read":
            if edit.gap and known is not None:
                known.gaps.append(version.seq)
            continue
        if record.op == "renamed" and renames and known is None and target is None:
            known = _rename(edit, version.key, found, left)
        else:
            if known is None:
                start = target if record.op == "renamed" else edit.start
                known = found[version.key] = Ends(record.root, record.path, start, start)
            left[version.key] = known.end
            known.end = edit.end
        if edit.gap and known.edits:
            known.gaps.append(version.seq)
        known.edits.append(edit)
    return found


def only_renamed(edits: Sequence[Edit]) -> bool:
    """Whether nothing but the name of a file changed, whatever it holds. The commit of a rename may also say that the
    old name went."""
    names = [edit for edit in edits if edit.record.op == "renamed"]
    seqs = {edit.version.seq for edit in names}
    return not any(edit.record.patch_in or edit.record.after for edit in names) and all(
        edit.version.seq in seqs for edit in edits if edit.record.op != "renamed"
    )


def _rename(edit: Edit, key: str, found: dict[str, Ends], left: dict[str, Held | None]) -> Ends:
    """A renamed file: what it was before is what was under the old name."""
    record = edit.record
    source = file_key(record.root, record.from_path)
    known = found.get(source)
    start = known.start if known is not None else edit.start
    origin = (known.from_path or record.from_path) if known is not None else record.from_path
    end = edit.end
    if end is not None and not (end.within or end.digest or end.patch):
        end = left.get(source) or Held(record.before, record.before_in, end.why)
    made = Ends(record.root, record.path, start, end, origin if start is not None else "")
    if known is not None:
        made.edits, made.gaps = known.edits, known.gaps
        known.start = known.end = None
        known.edits = []
    found[key] = made
    return made
