"""Purges from the other store what was purged here since it was copied, and leaves the tombstone there.

Only a session goes that came with a copy from here and is as it was sent: its head has the hash that was noted then. It
is purged by a commit in the session that notes the copies: that belongs to the other store alone, while a project's own
session is a copy of the one here.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stator.errors import Busy, Conflict, InvalidInput, NotFound, WrongState
from stator.model.log.commit import Change, Draft, Purge, Upsert
from stator.model.log.query import SessionRow
from stator.model.records.types import FlagRecord, SessionRecord
from stator.model.sessions.lifecycle import COPIES
from stator.runtime.base import project_flags, project_session
from stator.runtime.base.arrivals import Arrival, arrivals
from stator.runtime.base.context import Context
from stator.runtime.base.project_flags import HOLD, PURGED, ProjectFlag
from stator.runtime.exchange.heads import hashes
from stator.runtime.exchange.sent import LeftThere
from stator.store.port import StorePort

REFUSALS = (Conflict, Busy, InvalidInput, NotFound, WrongState)
"""Errors that are about one session."""


def carry_purges(
    source: StorePort,
    target: StorePort,
    context: Context,
    left: Sequence[LeftThere],
    *,
    dry_run: bool,
) -> tuple[list[LeftThere], list[LeftThere]]:
    """Purge sessions from the other store: those that are gone there now, and those that stay, with the reason."""
    if not left:
        return [], []
    tombstones = {mark.session: mark for _, mark in project_flags.marks(source, PURGED)}
    arrived = arrivals(target)
    known = {mark.session for _, mark in project_flags.marks(target, PURGED)}
    gone: list[LeftThere] = []
    stay: list[LeftThere] = []
    rows = {one.session: target.session(one.session) for one in left}
    name = source.info().id
    # A fork goes before what it continues.
    for one in sorted(left, key=lambda one: -rows[one.session].record.created):
        row = rows[one.session]
        why = _kept(target, row, arrived.get(row.id), name)
        if not why and not dry_run:
            try:
                _purge(target, context, row, tombstones[row.id], marked=row.id in known)
            except REFUSALS as refusal:
                why = refusal.what
        if why:
            stay.append(msgspec.structs.replace(one, why=why))
        else:
            gone.append(one)
    return gone, stay


def _kept(target: StorePort, row: SessionRow, arrived: Arrival | None, source: str) -> str:
    """Why a session stays; empty if it goes."""
    if arrived is None:
        return "it did not come with a copy"
    if arrived.source != source:
        return "another store sent it there"
    if hashes(target, {row.id: row.head}).get(row.id) != arrived.hash:
        return "it was continued there" if row.head > arrived.upto else "it is not what was sent"
    if project_flags.has(target, row, HOLD):
        return "it is held there"
    if row.holder is not None and row.holder.live:
        return "it is driven there"
    return ""


def _purge(
    target: StorePort, context: Context, row: SessionRow, tombstone: ProjectFlag, *, marked: bool
) -> None:
    """Purge a session; `marked`: its tombstone came with the project's own session."""
    notes = SessionRecord(id="", name="", project=COPIES, tenant=row.record.tenant)
    own = project_session.own(target, context, notes)
    flag = FlagRecord(name=PURGED, on=row.id, why=tombstone.why, by=tombstone.by)
    changes: list[Change] = [Purge(row.id, row.head)]
    if not marked:
        changes.append(Upsert("flags", flag))
    draft = Draft(
        id=context.mint("commit"),
        session=own.id,
        kind="purge",
        actor="system",
        principal=context.principal,
        input=tombstone.commit.known("input", {}),
        why=tombstone.why,
        changes=tuple(changes),
    )
    target.append(own.id, [draft], barrier=True)
