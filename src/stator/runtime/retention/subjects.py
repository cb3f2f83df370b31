"""Reads what retention must know of each session: when it was last active, what it is busy with, who needs it.

Most sessions are too young for any policy, which their newest commit shows; only the others are looked into.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from stator.errors import NotFound
from stator.model.log.commit import DATA, Commit, Gone
from stator.model.log.query import SessionQuery, SessionRow, read
from stator.model.records.tables import KEEPING, TRANSCRIPT
from stator.model.records.types import CallRecord
from stator.model.sessions import retention as model
from stator.model.sessions.lifecycle import lent_upto
from stator.model.sessions.retention import Subject
from stator.model.views import open_calls
from stator.runtime.base import project_flags
from stator.runtime.base.pages import counts_of, matching
from stator.runtime.runs import folder
from stator.store.port import StorePort

EXPIRED, DONE = "expired", "done"
"""Cause of an erasure that retention made, and its status where it was the last of them."""
NEVER, ALWAYS = -1, 2**63 - 1
"""Floors before and after every time."""
PAGE = 500
"""Newest commits that are looked at together."""
AT_ONCE = 500
"""Sessions that are listed, or whose newest commit is read, in one call."""

Marks = Mapping[tuple[str, str], project_flags.ProjectFlag]
"""Holds and the trash, by name of the mark and session."""


def subjects(
    store: StorePort, floor_of: Callable[[SessionRow], int] | None = None
) -> list[Subject]:
    """Every session that retention applies to; a project's own session is not one.

    One in which something happened after its floor, and that is not in the trash, is not looked into: when it was last
    active is then a time after the floor, at which something did happen, and what it is busy with is left out.
    """
    every = matching(store, SessionQuery(), limit=AT_ONCE)
    rows = [row for row in every if row.record.mode != "project"]
    heirs: dict[str, list[str]] = {}
    for row in rows:
        for part in row.record.lineage:
            heirs.setdefault(part.session, []).append(row.id)
        if row.record.adopted:
            heirs.setdefault(row.record.adopted, []).append(row.id)
    marks: Marks = {
        (mark.name, mark.session): mark
        for _, mark in project_flags.marks(store, project_flags.HOLD, project_flags.TRASH)
    }
    trash = {session for name, session in marks if name == project_flags.TRASH}
    young = {} if floor_of is None else _young(store, rows, floor_of, trash)
    old = [row for row in rows if row.id not in young]
    sizes = store.usage(by="session") if old else {}
    running = set(_running(store)) if old else set()
    return [
        _bare(row, heirs, marks, young[row.id])
        if row.id in young
        else _looked_into(store, row, heirs, marks, sizes.get(row.id, 0), running)
        for row in rows
    ]


def _young(
    store: StorePort,
    rows: Sequence[SessionRow],
    floor_of: Callable[[SessionRow], int],
    trash: set[str],
) -> dict[str, int]:
    """The sessions in which something happened after their floor, each with a time at which it did."""
    free = [row for row in rows if row.id not in trash]
    floors = {row.id: floor_of(row) for row in free}
    found = {row.id: row.record.created for row in free if row.record.created > floors[row.id]}
    left = [row for row in free if row.id not in found and row.updated > floors[row.id]]
    for start in range(0, len(left), AT_ONCE):
        part = left[start : start + AT_ONCE]
        newest = store.together(
            *(read("commits", row.id, newest_first=True, limit=1, load=False) for row in part)
        )
        for row, commits in zip(part, newest, strict=True):
            if not isinstance(commits, NotFound) and commits and not is_upkeep(commits[0]):
                found[row.id] = commits[0].at
    return {session: at for session, at in found.items() if at > floors[session]}


def _bare(
    row: SessionRow, heirs: Mapping[str, Sequence[str]], marks: Marks, active: int, size: int = 0
) -> Subject:
    """What the row of a session and the marks on it say."""
    trash = marks.get((project_flags.TRASH, row.id))
    return Subject(
        session=row.id,
        name=row.record.name,
        project=row.record.project,
        tenant=row.record.tenant,
        status=row.record.status,
        active=active,
        bytes=size,
        trashed=0 if trash is None else trash.at,
        returned=trash is not None and trash.head != row.head,
        held=(project_flags.HOLD, row.id) in marks,
        heirs=tuple(heirs.get(row.id, ())),
        depth=len(row.record.lineage),
    )


def _looked_into(
    store: StorePort,
    row: SessionRow,
    heirs: Mapping[str, Sequence[str]],
    marks: Marks,
    size: int,
    running: set[str],
) -> Subject:
    """A session with what its newest commits and its open calls say."""
    active, expired = activity(store, row)
    busy = "being run" if row.id in running else _busy(store, row)
    return replace(_bare(row, heirs, marks, active, size), busy=busy, expired=expired)


def activity(store: StorePort, row: SessionRow) -> tuple[int, bool]:
    """When something last happened in a session, and whether its transcript has expired since.

    The latest of its newest commits' times, for a clock that was set back must not make it older;
    what keeping itself appended does not count.
    """
    expired: bool | None = None
    own = lent_upto(row.record.lineage)
    times: list[int] = []
    upto = row.head
    while upto > own and not times:  # the expiry of a long transcript is many commits
        after = max(own, upto - PAGE)
        newest = store.commits(
            row.id, after=after, upto=upto, newest_first=True, limit=PAGE, load=False
        )
        for commit in newest:
            if expired is None and transcript_words(commit):
                expired = False
            if expired is None and (commit.cause, commit.status) == (EXPIRED, DONE):
                expired = True
            if not is_upkeep(commit):
                times.append(commit.at)
        upto = after
    nothing = upto <= own
    return max(row.record.created, *times), nothing if expired is None else expired


def is_upkeep(commit: Commit) -> bool:
    """Whether a commit says what keeping did, or what a driver that died had left."""
    return (commit.actor == "system" and commit.kind in KEEPING) or open_calls.left_by_dead(commit)


def _busy(store: StorePort, row: SessionRow) -> str:
    """What a session is in the middle of, or waits for."""
    if row.holder is not None and row.holder.live:
        return "driven"
    if not counts_of(store, row.id).open:
        return ""
    calls = [
        record
        for entry in store.entries(row.id, "calls")
        if isinstance(record := entry.record, CallRecord) and not record.elsewhere
    ]
    if any(call.status == "awaiting approval" for call in calls):
        return "waits for approval"
    return "a call in doubt" if any(map(open_calls.unknown, calls)) else ""


def _running(store: StorePort) -> Iterator[str]:
    """Sessions of detached runs that run now."""
    for files in folder.beside(store):
        with contextlib.suppress(NotFound):  # one that begins just now has said nothing yet
            if files.is_live():
                yield files.read().session


def transcript_words(commit: Commit) -> tuple[str, ...]:
    """What of a commit is transcript and still there."""
    if commit.kind not in TRANSCRIPT:
        return ()
    there = (name for name in commit.content if name in model.WORDS or name.startswith(DATA))
    return tuple(name for name in there if not isinstance(commit.content[name], Gone))
