"""Pulls a session of another store into this one, as a bundle of it would be imported.

A session that is not here is new, one that is the beginning of the other is continued, and where both have new commits
the other one becomes a fork. All that came is marked as imported: the texts count as imported, and approvals must be
given again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stator.errors import Conflict, InvalidInput, NotFound
from stator.model.exchange.bundle import Bundled
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.sessions.lifecycle import check_name
from stator.runtime.base.context import Context
from stator.runtime.branches.fork import fork, head_of
from stator.runtime.bundles.report import Erasures, Imported, ImportedSession
from stator.runtime.bundles.selection import bundled, family
from stator.runtime.bundles.transfer import admit
from stator.runtime.exchange.fetched import FetchedSessions
from stator.runtime.exchange.heads import hashes
from stator.runtime.exchange.send import Progress, is_same
from stator.runtime.views.refs import find_session
from stator.store.port import StorePort


class Pulled(msgspec.Struct, frozen=True, kw_only=True):
    """What pulling a session did, or with `dry_run` would do."""

    session: str
    """Where its commits are now."""
    name: str
    forked: str = ""
    """The fork at its head that was asked for, if one was made or is there."""
    imported: Imported


def pull(
    source: StorePort,
    target: StorePort,
    context: Context,
    session: str,
    *,
    as_name: str = "",
    project: str | None = None,
    erasures: Erasures = "refuse",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Pulled:
    """Copy a session of another store into this one, with its children and what it was forked from."""
    if source is target or is_same(source, target):
        raise InvalidInput("both are the same store", hint="name another store")
    if as_name:
        check_name(as_name)
    listed = bundled(source, family(source, [session], frozenset({"child"})))
    imported = _all_here(source, target, listed, dry_run)
    if imported is None:
        with FetchedSessions(source, listed, progress) as fetched:
            imported = admit(
                target,
                context,
                fetched,
                project=project,
                erasures=erasures,
                dry_run=dry_run,
                names={session: as_name} if as_name else {},
            )
    brought = next(one for one in imported.sessions if one.session == session)
    forked = ""
    if as_name and brought.name != as_name and not dry_run:
        forked = _forked(target, context, brought.into, as_name).id
    return Pulled(session=brought.into, name=brought.name, forked=forked, imported=imported)


def find(store: StorePort, name: str, project: str) -> str:
    """The session of another store that is meant: in the project of that id, else in any. Two users' projects for one
    repository have two ids."""
    try:
        return find_session(store, name, project=project or None).id
    except NotFound:
        return find_session(store, name, project=None).id


def _all_here(
    source: StorePort, target: StorePort, listed: Sequence[Bundled], dry_run: bool
) -> Imported | None:
    """What there is to say if every commit is here already: then nothing is fetched."""
    found = hashes(target, {one.id: one.seq for one in listed})
    if any(found.get(one.id) != one.hash for one in listed):
        return None
    rows = [target.session(one.id) for one in listed]
    return Imported(
        path=source.info().url,
        bytes=0,
        commits=0,
        sessions=[
            ImportedSession(
                session=one.id,
                name=row.record.name,
                fate="longer here" if row.head > one.seq else "same",
                into=row.id,
                project=row.record.project,
                commits=0,
                head=target.head(row.id).hash,
                seq=row.head,
            )
            for one, row in zip(listed, rows, strict=True)
        ],
        dry_run=dry_run,
    )


def _forked(store: StorePort, context: Context, session: str, name: str) -> SessionRow:
    """The fork of a session that has a name: made now, or by an earlier pull."""
    row = store.session(session)
    record = row.record
    query = SessionQuery(name=name, project=record.project, tenant=record.tenant)
    for known in store.sessions(query, limit=1).rows:
        parent = known.record.parent
        if parent is not None and parent.session == session:
            return known
        raise Conflict(
            f"there is another session {name!r:.80} in project {record.project!r:.200}",
            hint=f"{record.name!r:.80} was pulled; fork it under another name with stator fork",
            session=known.id,
        )
    return fork(store, context, head_of(store, row), name=name)
