"""Sums up what a range of commits did to each file."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from stator.model.log.delta import Put, Version
from stator.model.log.rewinds import stands, visible
from stator.model.records.types import FileRecord
from stator.model.views.diff import first_ops
from stator.runtime.views import reflog
from stator.store.port import StorePort


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


def files_before(store: StorePort, session: str, versions: Sequence[Version]) -> set[str]:
    """The keys of files that were there before a range of versions touched them."""
    first = [op for op in first_ops(version.op for version in versions) if op.was]
    replaced = store.replaced(session, first) if first else []
    return {
        version.key
        for version in replaced
        if version is not None
        and isinstance(version.op, Put)
        and isinstance(record := version.op.record, FileRecord)
        and record.op != "deleted"
    }


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
        op = _net_op(known.op if known else None, record.op)
        if known is None and op == "created" and version.key in there:
            op = "modified"
        if version.key not in seen and op in ("created", "renamed") and version.key not in there:
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


def _net_op(before: str | None, op: str) -> str:
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
