"""A project's own session: what holds for all of its sessions, and outlives each of them.

Never driven and never purged. Grants for the whole project are in it, retention, holds, and what is
left of sessions that are gone.
"""

from __future__ import annotations

from stator.errors import Conflict
from stator.model.query import SessionQuery, SessionRow
from stator.model.state import SessionRecord
from stator.runtime.context import Context
from stator.runtime.opening import opening
from stator.store.port import Store

PROJECT_SESSION = "(project)"
"""What a project's own session is called."""


def own(store: Store, context: Context, record: SessionRecord) -> SessionRow:
    """The session that belongs to the project of another one, made when it is first needed."""
    found = known(store, record)
    if found is not None:
        return found
    made = SessionRecord(
        id=context.mint("session"),
        name=PROJECT_SESSION,
        project=record.project,
        tenant=record.tenant,
        mode="project",
        created=context.clock(),
    )
    row, _ = store.create([opening(context, made)])
    if row.record.mode != "project":
        raise Conflict(
            f"a session of this project is called {PROJECT_SESSION!r} and is not the project's own",
            hint="its name is in the way of what holds for the whole project",
            session=row.id,
        )
    return row


def known(store: Store, record: SessionRecord) -> SessionRow | None:
    """The same, if it is there."""
    query = SessionQuery(
        mode="project", project=record.project, tenant=record.tenant, name=PROJECT_SESSION
    )
    return next(iter(store.sessions(query, limit=1).rows), None)
