"""A project's own session: what holds for all of its sessions, and outlives each of them.

Never driven and never purged. Grants for the whole project are in it, retention, holds, and what is
left of sessions that are gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from stator.errors import Conflict
from stator.model.log.chain import GENESIS
from stator.model.log.commit import Change, Commit, Draft
from stator.model.log.query import Head, Read, SessionQuery, SessionRow, read
from stator.model.records.types import Entry, SessionRecord
from stator.runtime.base.context import Context
from stator.runtime.base.first_commit import opening
from stator.runtime.base.pages import find_entry
from stator.store.port import StorePort

PROJECT_SESSION = "(project)"
"""What a project's own session is called."""
USER_PROJECT = "(user)"
"""The project that what is true of the user belongs to, in the user's own store."""


def own(store: StorePort, context: Context, record: SessionRecord) -> SessionRow:
    """The session that belongs to the project of another one, made when it is first needed."""
    found = known(store, record)
    if found is not None:
        return found
    row, _ = store.create([opening(context, _new(context, record))])
    if row.record.mode != "project":
        raise Conflict(
            f"a session of this project is called {PROJECT_SESSION!r} and is not the project's own",
            hint="that name is reserved for the records of the whole project",
            session=row.id,
        )
    return row


def _new(context: Context, record: SessionRecord) -> SessionRecord:
    return SessionRecord(
        id=context.mint("session"),
        name=PROJECT_SESSION,
        project=record.project,
        tenant=record.tenant,
        mode="project",
        created=context.clock(),
    )


def sealed(
    store: StorePort, context: Context, record: SessionRecord, kind: str, changes: Sequence[Change]
) -> list[Commit]:
    """Commits for a project's own session, preceded by the commit that begins it if it does not exist yet.

    Sealed and not appended: for `StorePort.ingest`, in one transaction with what they are about.
    """
    from stator.model.log.seal import Place, seal  # reading a project does without it

    found = known(store, record)
    session = _new(context, record) if found is None else found.record
    head = store.head(session.id) if found is not None else Head(0, GENESIS, 0)
    commits: list[Commit] = []
    drafts = [] if found is not None else [opening(context, session)]
    drafts.append(
        Draft(
            id=context.mint("commit"),
            session=session.id,
            kind=kind,
            actor="user",
            principal=context.principal,
            changes=tuple(changes),
        )
    )
    for draft in drafts:
        place = Place(head.seq + 1, head.turn, context.clock(), head.hash)
        view = _Standing(store, session.id if found is not None else "")
        commits.append(seal(draft, place, view, None, context.secret).commit)
        head = Head(place.seq, commits[-1].hash, place.turn)
    return commits


class _Standing:
    """The state of a session as the reducer asks for it; empty where there is no session yet."""

    def __init__(self, store: StorePort, session: str) -> None:
        self._store, self._session = store, session

    def find(self, collection: str, key: str) -> Entry | None:
        return find_entry(self._store, self._session, collection, key) if self._session else None

    def all(self, collection: str) -> Sequence[Entry]:
        return self._store.entries(self._session, collection) if self._session else ()

    def locate(self, identifier: str) -> int:
        return 0  # what a project's own session records was not made from other commits


def known(store: StorePort, record: SessionRecord) -> SessionRow | None:
    """The same, if it is there."""
    return next(iter(store.sessions(_query(record), limit=1).rows), None)


def asks_known(record: SessionRecord) -> Read:
    """What `known` reads."""
    return read("sessions", _query(record), limit=1)


def _query(record: SessionRecord) -> SessionQuery:
    return SessionQuery(
        mode="project", project=record.project, tenant=record.tenant, name=PROJECT_SESSION
    )
