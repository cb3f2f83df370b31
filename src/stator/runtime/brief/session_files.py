"""The files of a brief: those that a session touched, and how they differ from what was recorded of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from stator.model.brief.story import CHANGED, LOOKED_AT, NetFile, SessionStory
from stator.model.brief.working_tree import as_git_shows
from stator.model.records.types import Entry, FileRecord
from stator.runtime.files import disk_check

DISK_BYTES = 8 * 1024 * 1024
"""Bytes of files that are read to see whether they changed; for more, a brief takes too long."""
GONE = "gone from disk"
DIFFERS = {GONE: GONE, "changed on disk since": "changed since"}


def touched_files(
    story: SessionStory, known: Iterable[Entry], counts: Callable[[int], bool]
) -> list[NetFile]:
    """The files that the newest commits touched, those whose seq counts; then what the state knows of others."""
    found = [one for one in story.files if counts(one.seq)]
    seen = {(one.root, one.path) for one in story.files}
    for entry in known:
        record = entry.record
        if isinstance(record, FileRecord) and (record.root, record.path) not in seen:
            found.append(
                NetFile(
                    path=record.path,
                    root=record.root,
                    op=CHANGED if record.op == "modified" else record.op,
                    edits=int(record.op not in LOOKED_AT),
                    seq=entry.seq,
                    after=record.after,
                    first=entry.seq,
                )
            )
    return as_git_shows(found, story.deeds)


def differences(files: Sequence[NetFile], root: str) -> Callable[[NetFile], str]:
    """How each file below a root differs from what was recorded of it; empty where it does not, or that is not known.

    A limited number of bytes is read for all of them together.
    """
    left = DISK_BYTES
    found: dict[tuple[str, str], str] = {}
    for one in files:
        how = ""
        if root and one.root == "." and one.op not in ("deleted", "skipped"):
            compared = disk_check.compare(root, one.path, one.after, left)
            left -= compared.read
            how = DIFFERS.get(compared.said, "")
        found[one.root, one.path] = how
    if len(found) > 1 and all(how == GONE for how in found.values()):  # the folder is not here
        return lambda one: ""
    return lambda one: found[one.root, one.path]
