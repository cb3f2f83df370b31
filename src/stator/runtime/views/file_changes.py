"""Sums up what a range of commits did to each file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from stator.model.log.delta import Put, Version, first_ops
from stator.model.log.query import Read, SessionRow, read
from stator.model.log.rewinds import stands, visible
from stator.model.records.types import LOOKS, FileRecord, RevisionRecord
from stator.model.sessions.lifecycle import lent_upto
from stator.runtime.views import reflog
from stator.store.port import StorePort

MAKES = ("created", "renamed")
"""Ops after which there may be a file that was not there before."""
COMMITS_MAX = 10_000
"""Commits of a session which are all read where a summary names the files that it changed."""
NEWEST, RECORDS = 2000, 1000
"""Commits, the newest, and records of files that are read instead where there are more."""


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A file touched in a range: its net op, and the turn and commit that last touched it."""

    path: str
    op: str
    turn: int
    seq: int
    root: str = "."
    edits: int = 1
    how: str = "recorded"
    session: str = ""


def files_touched(
    store: StorePort, session: str, *, after: int, upto: int, reads: bool = False
) -> list[FileChange]:
    """The net op of each file that a range of a log touched; what was rewound since does not count."""
    versions = store.versions(session, after=after, upto=upto, collections=("files",))
    known = reflog.rewinds(store, session)
    if known:
        stretches = visible(known, upto)
        versions = [version for version in versions if stands(stretches, version.seq)]
    return net_files(
        versions, there=files_before(store, session, versions), reads=reads, session=session
    )


def asks_changed(row: SessionRow) -> Iterator[Read]:
    """What `changed_by` reads of a session."""
    after = lent_upto(row.record.lineage)
    yield read("versions", row.id, after=after, upto=row.head, collections=("files",))
    yield read("entries", row.id, "tags")


def changed_by(store: StorePort, row: SessionRow) -> tuple[list[FileChange], bool]:
    """The net changes of files that a session made itself, and whether it made any change at all."""
    return _changed_after(store, row, lent_upto(row.record.lineage))


def asks_changed_lately(row: SessionRow) -> Iterator[Read]:
    """What `changed_lately` reads of a session."""
    if not is_long(row):
        yield from asks_changed(row)
        return
    yield read("versions", row.id, after=row.head - NEWEST, upto=row.head, collections=("files",))
    yield read("entries", row.id, "files", "tags", limit={"files": RECORDS})


def changed_lately(store: StorePort, row: SessionRow) -> tuple[list[FileChange], bool]:
    """As `changed_by`; of a long session the net changes of its newest commits, and before them the files whose newest
    records say that they were changed: it may have changed more, and each of these once more than is told."""
    if not is_long(row):
        return changed_by(store, row)
    own, recent = lent_upto(row.record.lineage), row.head - NEWEST
    found, edited = _changed_after(store, row, recent)
    before = [
        FileChange(
            path=record.path,
            op=record.op,
            turn=entry.turn,
            seq=entry.seq,
            root=record.root,
            how=record.how,
            session=row.id,
        )
        for entry in store.entries(row.id, "files", limit={"files": RECORDS})
        if own < entry.seq <= recent
        and isinstance(record := entry.record, FileRecord)
        and record.op not in LOOKS
    ]
    return [*found, *before], edited or bool(before)


def is_long(row: SessionRow) -> bool:
    """Whether a session has too many commits of its own to read them all for what it changed."""
    return row.head - lent_upto(row.record.lineage) > COMMITS_MAX


def _changed_after(store: StorePort, row: SessionRow, after: int) -> tuple[list[FileChange], bool]:
    versions = store.versions(row.id, after=after, upto=row.head, collections=("files",))
    if known := reflog.rewinds(store, row.id):
        stretches = visible(known, row.head)
        versions = [version for version in versions if stands(stretches, version.seq)]
    records = (getattr(version.op, "record", None) for version in versions)
    if not any(isinstance(r, FileRecord) and r.op not in LOOKS for r in records):
        return [], False
    there = files_before(store, row.id, versions)
    found = net_files(versions, there=there, session=row.id)
    return [change for change in found if change.op != "skipped"], True


def files_before(store: StorePort, session: str, versions: Sequence[Version]) -> set[str]:
    """The keys of files that were there before a range of versions touched them; only of files that it made or renamed,
    because any other was there if it could be changed."""
    made = {version.key for version in versions if _op(version) in MAKES}
    first = [op for op in first_ops(v.op for v in versions if v.key in made) if op.was]
    replaced = store.replaced(session, first) if first else []
    return {
        version.key
        for version in replaced
        if version is not None
        and isinstance(version.op, Put)
        and isinstance(record := version.op.record, FileRecord)
        and record.op != "deleted"
    }


def only_in_revisions(
    store: StorePort, session: str, *, after: int, upto: int
) -> dict[str, list[str]]:
    """The files that the revisions of a range name and that no recorded edit in it wrote, by revision: shell commands
    may have changed them. A file that several name is given once, for the first of them."""
    versions = store.versions(session, after=after, upto=upto, collections=("files", "revisions"))
    records = [getattr(version.op, "record", None) for version in versions]
    edited = [one for one in records if isinstance(one, FileRecord) and one.op not in LOOKS]
    paths = {name for one in edited for name in (one.path, one.from_path) if name}
    known = {end for path in paths for end in _ends(path)}
    found: dict[str, list[str]] = {}
    for revision in records:
        if not isinstance(revision, RevisionRecord):
            continue
        for name in revision.files:
            if name not in known and paths.isdisjoint(_ends(name)):
                found.setdefault(revision.sha, []).append(name)
                known.add(name)
    return found


def _ends(path: str) -> Iterator[str]:
    """A path and the ends of it that begin at a folder: a revision names files as they are called in its repository,
    which may be above or below the session's folder."""
    yield path
    while path:
        path = path.partition("/")[2]
        if path:
            yield path


def _op(version: Version) -> str:
    record = getattr(version.op, "record", None)
    return record.op if isinstance(record, FileRecord) else ""


def net_files(
    versions: Sequence[Version],
    *,
    there: Collection[str] = (),
    reads: bool = False,
    session: str = "",
) -> list[FileChange]:
    """The net op of each file a range of versions touched, last touched first.

    `there` are the keys of files that were there before.
    """
    found: dict[str, FileChange] = {}
    came: set[str] = set()
    """Files that were not there before."""
    seen: set[str] = set()
    for version in versions:
        record = getattr(version.op, "record", None)
        if not isinstance(record, FileRecord) or (record.op == "read" and not reads):
            continue
        known = found.pop(version.key, None)
        op = net_op(known.op if known else None, record.op)
        if known is None and op == "created" and version.key in there:
            op = "modified"
        if version.key not in seen and op in MAKES and version.key not in there:
            came.add(version.key)
        seen.add(version.key)
        if op == "modified" and version.key in came:
            op = "created"
        if op == "deleted" and version.key in came:
            continue  # it came and went
        found[version.key] = FileChange(
            path=record.path,
            op=op,
            turn=version.turn,
            seq=version.seq,
            root=record.root,
            edits=known.edits + 1 if known else 1,
            how=record.how,
            session=session,
        )
    return list(found.values())[::-1]


def net_op(before: str | None, op: str) -> str:
    """Two ops on one file as one."""
    if before == "created" and op != "deleted":
        return "created"
    if before == "renamed" and op == "modified":
        return "renamed"
    if before == "deleted" and op == "created":
        return "modified"
    if op == "read" and before is not None:
        return before
    return op


class ChangedFile(msgspec.Struct, kw_only=True):
    """A file that sessions changed: how often, and which of them."""

    path: str
    root: str
    project: str = ""
    edits: int = 0
    sessions: dict[str, SessionRow] = {}
    """Those that changed it, the one used last first."""
    op: str = ""
    """What the session that was used last did to it last."""
    turn: int = 0

    @property
    def last(self) -> SessionRow:
        """The session that was used last of those that changed it."""
        return next(iter(self.sessions.values()))


def most_changed(
    store: StorePort, rows: Sequence[SessionRow], *, commits: int
) -> list[ChangedFile]:
    """The files that these sessions changed, most changed first, from the newest `commits` of each: one call."""
    reads = [
        read(
            "versions",
            row.id,
            after=max(lent_upto(row.record.lineage), row.head - commits),
            upto=row.head,
            collections=("files",),
        )
        for row in rows
    ]
    found: dict[tuple[str, str], ChangedFile] = {}
    for row, versions in zip(rows, store.together(*reads) if reads else (), strict=True):
        for version in versions if isinstance(versions, list) else ():
            record = getattr(version.op, "record", None)
            if not isinstance(record, FileRecord) or record.op in LOOKS:
                continue
            project = row.record.project  # a path below a folder is another file in another project
            known = found.setdefault(
                (project, version.key),
                ChangedFile(path=record.path, root=record.root, project=project, sessions={}),
            )
            known.edits += 1
            if not known.sessions or row.id == next(iter(known.sessions)):
                known.op, known.turn = record.op, version.turn
            known.sessions.setdefault(row.id, row)
    return sorted(found.values(), key=lambda one: (-one.edits, -len(one.sessions), one.path))
