"""Reads who touched a file, turn by turn, whose each of its lines is, and what one turn changed in it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stator.errors import InvalidInput, NotFound
from stator.model.log.query import KeyTouch, SessionRow, read
from stator.model.records.types import FileRecord, file_key
from stator.model.views.patch import FilePatch
from stator.runtime.base.context import Context
from stator.runtime.base.one_answer import ahead
from stator.runtime.base.pages import commit_at
from stator.runtime.views.as_read import for_one_answer
from stator.runtime.views.authors.blame import Blame, blame_file, on_disk
from stator.runtime.views.contents import range_patches
from stator.store.port import StorePort

TOUCHES = 200
"""Touches of a file that are listed, the newest."""


class TouchedIn(msgspec.Struct, frozen=True):
    """One touch of a file, by a turn of a session."""

    row: SessionRow
    turn: int
    seq: int
    when: int
    op: str


class FileAuthors(msgspec.Struct, frozen=True, kw_only=True):
    """Who touched a file, and whose its lines are."""

    touched: list[TouchedIn]
    """The newest first."""
    blame: Blame | None
    """None where it has no lines to show."""
    why_not: str = ""
    rows: dict[str, SessionRow]
    """The sessions that lines come from."""


def file_authors(
    store: StorePort, context: Context, path: str, root: str, *, project: str | None
) -> FileAuthors:
    """Who touched a file, and which turn each line comes from; the lines on disk where the project is the one that is
    here. Only files that are recorded are looked at on disk."""
    store = for_one_answer(store)
    touches = store.touches("files", file_key(root, path), project=project, limit=TOUCHES)
    _read_commits(store, touches)
    blame, why_not = None, ""
    try:
        now = _on_disk(store, context, touches, path, root)
        blame = blame_file(store, path, root, session=None, project=project, now=now)
    except InvalidInput as error:
        why_not = error.what
    found = (_touched(store, touch, root, path) for touch in touches)
    sessions = {line.session for line in blame.lines if line.session} if blame else set()
    return FileAuthors(
        touched=[one for one in found if one is not None],
        blame=blame,
        why_not=why_not,
        rows={session: store.session(session) for session in sessions},
    )


def turn_patch(store: StorePort, session: str, turn: int, path: str, root: str) -> list[FilePatch]:
    """What one turn changed in a file, in the end."""
    store = for_one_answer(store)
    turns = store.turns(session, after=turn - 1, upto=turn)
    if not turns:
        raise NotFound(f"session {session} has no turn {turn}", session=session)
    first = turns[0].first - 1
    versions = store.versions(session, after=first, upto=turns[0].last, collections=("files",))
    wanted = [version for version in versions if version.key == file_key(root, path)]
    return range_patches(store, session, wanted, first)


def _read_commits(store: StorePort, touches: Sequence[KeyTouch]) -> None:
    """Read the commits and sessions of these touches in one call."""
    seqs: dict[str, list[int]] = {}
    for touch in touches:
        seqs.setdefault(touch.session, []).append(touch.seq)
    ahead(
        store,
        *(read("commits", session, seqs=sorted(each)) for session, each in seqs.items()),
        *(read("session", session) for session in seqs),
    )


def _on_disk(
    store: StorePort, context: Context, touches: Sequence[KeyTouch], path: str, root: str
) -> str | None:
    here = touches and store.session(touches[0].session).record.project == context.project
    return on_disk(context.root, path, root) if here and root == "." else None


def _touched(store: StorePort, touch: KeyTouch, root: str, path: str) -> TouchedIn | None:
    commit = commit_at(store, touch.session, touch.seq)
    records = (getattr(op, "record", None) for op in commit.delta)
    ops = [
        record.op
        for record in records
        if isinstance(record, FileRecord) and (record.root, record.path) == (root, path)
    ]
    if not ops or commit.kind == "rewind":
        return None
    return TouchedIn(store.session(touch.session), touch.turn, touch.seq, commit.when, ops[-1])
