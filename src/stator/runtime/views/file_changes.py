"""Sums up what a range of commits did to each file."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stator.model.log.delta import Version
from stator.model.records.types import FileRecord


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


def net_files(
    versions: Sequence[Version], *, reads: bool = False, session: str = ""
) -> list[FileChange]:
    """The net op of each file a range of versions touched, last touched first."""
    found: dict[str, FileChange] = {}
    for version in versions:
        record = getattr(version.op, "record", None)
        if not isinstance(record, FileRecord) or (record.op == "read" and not reads):
            continue
        known = found.pop(version.key, None)
        op = _net_op(known.op if known else None, record.op)
        if op is None:
            continue
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


def _net_op(before: str | None, op: str) -> str | None:
    """Two ops on one file as one; None when the file came and went."""
    if before == "created":
        return None if op == "deleted" else "created"
    if before == "deleted" and op == "created":
        return "modified"
    if op == "read" and before is not None:
        return before
    return op
