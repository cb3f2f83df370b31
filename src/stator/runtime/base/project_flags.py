"""Reads what the projects' own sessions record of others: held, in the trash, or purged.

A mark is a flag there, on the session's id, with who put it on and why. What is left of a purged
session is its tombstone: the input of the commit that purged it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from stator.errors import NotFound, Removed
from stator.model.log.commit import (
    Commit,
    Draft,
    Remove,
    Upsert,
)
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.records.types import FlagRecord, SessionRecord
from stator.model.values.ids import short
from stator.runtime.base import project_session
from stator.runtime.base.context import Context
from stator.runtime.base.pages import commit_at, commits_at, find_entry, matching
from stator.store.port import StorePort

HOLD, TRASH, PURGED = "hold", "trash", "purged"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ProjectFlag(msgspec.Struct, frozen=True, kw_only=True):
    """A flag that a project's own session has on another one."""

    name: str
    session: str
    by: str
    why: str
    at: int
    commit: Commit

    @property
    def head(self) -> int:
        """The head of the session then."""
        return stood_at(self.commit)


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of a purged session."""

    session: str
    name: str
    project: str
    by: str
    policy: str
    at: int
    about: dict[str, Any]


def project_sessions(store: StorePort) -> Iterator[SessionRow]:
    """Every project's own session."""
    return matching(store, SessionQuery(mode="project"))


def marks(store: StorePort, *names: str) -> Iterator[tuple[SessionRow, ProjectFlag]]:
    """The flags of those names, each with the project's session that it is in."""
    for row in project_sessions(store):
        wanted = [
            (entry.seq, record)
            for entry in store.entries(row.id, "flags")
            if isinstance(record := entry.record, FlagRecord) and record.on and record.name in names
        ]
        commits = {one.seq: one for one in commits_at(store, row.id, (seq for seq, _ in wanted))}
        for seq, record in wanted:
            yield (
                row,
                ProjectFlag(
                    name=record.name,
                    session=record.on,
                    by=record.by,
                    why=record.why,
                    at=commits[seq].at,
                    commit=commits[seq],
                ),
            )


def marked(store: StorePort, name: str) -> dict[str, ProjectFlag]:
    """Sessions with that mark."""
    return {mark.session: mark for _, mark in marks(store, name)}


def in_trash(store: StorePort) -> dict[str, ProjectFlag]:
    """Sessions in the trash. A session that was used since it was put there is no longer in it."""
    return {
        session: mark
        for session, mark in marked(store, TRASH).items()
        if _head(store, session) == mark.head
    }


class Trash:
    """Answers whether a session is in the trash, without reading the whole trash."""

    def __init__(self, store: StorePort) -> None:
        self._store = store
        self._own: dict[tuple[str, str], str | None] = {}

    def __contains__(self, row: SessionRow) -> bool:
        own = self._project_of(row.record)
        commit = None if own is None else trashed(self._store, own, row.id)
        return commit is not None and stood_at(commit) == row.head

    def _project_of(self, record: SessionRecord) -> str | None:
        scope = (record.tenant, record.project)
        if scope not in self._own:
            known = project_session.known(self._store, record)
            self._own[scope] = known.id if known is not None else None
        return self._own[scope]

    def among(self, rows: Iterable[SessionRow]) -> set[str]:
        """Which of these sessions are in the trash: two calls for each project, however many they are."""
        asked: dict[str, dict[str, SessionRow]] = {}
        for row in rows:
            own = self._project_of(row.record)
            if own is not None:
                asked.setdefault(own, {})[key(TRASH, row.id)] = row
        found: set[str] = set()
        for own, by_key in asked.items():
            flags = self._store.entries(own, "flags", keys=list(by_key))
            heads = {
                one.seq: stood_at(one)
                for one in commits_at(self._store, own, (entry.seq for entry in flags))
            }
            rows_in_it = ((by_key[entry.key], heads.get(entry.seq)) for entry in flags)
            found |= {row.id for row, head in rows_in_it if row.head == head}
        return found


def trashed(store: StorePort, own: str, session: str) -> Commit | None:
    """The commit of a project's own session that put another in the trash, if it is there."""
    entry = find_entry(store, own, "flags", key(TRASH, session))
    return None if entry is None else commit_at(store, own, entry.seq)


def stood_at(commit: Commit) -> int:
    """The head of a session when it was put in the trash: unlike a clock, this is never wrong."""
    found = commit.known("input", {})
    return int(found.get("head", 0)) if isinstance(found, dict) else 0


def find_in_trash(store: StorePort, text: str) -> str | None:
    """The session in the trash that is called so, or has that id; no other answers to a name there."""
    trash = marked(store, TRASH)
    named = [session for session in trash if _name(store, session) == text]
    return text if text in trash else named[0] if len(named) == 1 else None


def _name(store: StorePort, session: str) -> str:
    try:
        return store.session(session).record.name
    except NotFound:  # a mark from elsewhere
        return ""


def _head(store: StorePort, session: str) -> int:
    try:
        return store.session(session).head
    except NotFound:  # a mark from elsewhere, on a session that never came here
        return -1


def tombstones(store: StorePort) -> list[Tombstone]:
    """What is left of sessions that were purged, the newest first."""
    found = []
    for row, mark in marks(store, PURGED):
        about = mark.commit.known("input", {})
        found.append(
            Tombstone(
                session=mark.session,
                name=str(about.get("name", "")),
                project=row.record.project,
                by=mark.by,
                policy=mark.why,
                at=mark.at,
                about=about,
            )
        )
    return sorted(found, key=lambda one: -one.at)


def purged(store: StorePort, text: str) -> Removed | None:
    """What to say of a session that is asked for and was purged, by its id, the end of one, or its name."""
    for one in tombstones(store):
        if text in (one.session, one.name) or (len(text) >= 8 and one.session.endswith(text)):
            day = (EPOCH + timedelta(microseconds=one.at)).date()
            return Removed(
                f"session {one.name!r:.80} ({short(one.session)}) was purged on {day} by {one.by} "
                f"({one.policy})",
                hint="stator ls --trash shows what is left of it",
                session=one.session,
                purged=one.at,
                policy=one.policy,
                by=one.by,
            )
    return None


def put(
    store: StorePort, context: Context, row: SessionRow, name: str, *, by: str, why: str
) -> None:
    """Put a mark on a session."""
    record = FlagRecord(name=name, on=row.id, by=by, why=why)
    _say(store, context, row, by, Upsert("flags", record), input={"head": row.head})


def put_all(
    store: StorePort, context: Context, of: SessionRecord, flags: Sequence[FlagRecord]
) -> None:
    """Put several marks, on sessions that may not be there yet, into the session of a project: that of a record."""
    own = project_session.own(store, context, of)
    draft = Draft(
        id=context.mint("commit"),
        session=own.id,
        kind="flag",
        actor="user",
        principal=context.principal,
        changes=tuple(Upsert("flags", flag) for flag in flags),
    )
    store.append(own.id, [draft], barrier=True)


def take_off(store: StorePort, context: Context, row: SessionRow, name: str, *, by: str) -> bool:
    """Take a mark off a session; False if there was none."""
    if not has(store, row, name):
        return False
    _say(store, context, row, by, Remove("flags", key(name, row.id)))
    return True


def has(store: StorePort, row: SessionRow, name: str) -> bool:
    """Whether a session has a mark."""
    known = project_session.known(store, row.record)
    return known is not None and find_entry(store, known.id, "flags", key(name, row.id)) is not None


def key(name: str, session: str) -> str:
    """What such a flag is found by."""
    return f"{name}\n{session}"


def _say(
    store: StorePort,
    context: Context,
    row: SessionRow,
    by: str,
    change: Upsert | Remove,
    **fields: Any,
) -> None:
    own = project_session.own(store, context, row.record)
    draft = Draft(
        id=context.mint("commit"),
        session=own.id,
        kind="flag",
        actor="user",
        principal=by,
        changes=(change,),
        **fields,
    )
    store.append(own.id, [draft], barrier=True)
