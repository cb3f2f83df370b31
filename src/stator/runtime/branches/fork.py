"""Forks a session: a new one starts from a position of another, by reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stator.errors import Conflict, InvalidInput
from stator.model.log.check import encode_checked
from stator.model.log.commit import Draft, Upsert
from stator.model.log.query import SessionRow
from stator.model.records.types import Parent, ParentKind, Segment, SessionRecord
from stator.model.sessions.lifecycle import check_name, lent_upto
from stator.model.values.ids import short
from stator.runtime.base.context import Context
from stator.runtime.views.refs import Point
from stator.store.port import StorePort


def head_of(store: StorePort, row: SessionRow) -> Point:
    return Point(row.id, store.head(row.id).seq, "head")


def fork(
    store: StorePort,
    context: Context,
    point: Point,
    *,
    name: str = "",
    kind: ParentKind = "fork",
    labels: Mapping[str, str] | None = None,
    identifier: str = "",
    aliases: list[list[str]] | None = None,
    **said: Any,
) -> SessionRow:
    """A new session whose log continues another's at a position. Costs the same at any length.

    `labels`: instead of the parent's. `identifier` and `aliases`: of one that is made after another
    agent's fork. `said`: fields of the first commit that differ from the system's.
    """
    if point.seq == 0:
        raise InvalidInput(
            "there is nothing at t0 to fork from", hint="open a new session instead", path="$.at"
        )
    source = store.session(point.session).record
    parent = store.commits(point.session, after=point.seq - 1, upto=point.seq, load=False)[0]
    session = identifier or context.mint("session")
    record = msgspec.structs.replace(
        source,
        id=session,
        name=check_name(name) if name != "" else f"{source.name}~{short(session)[2:]}",
        adopted="",
        aliases=aliases or [],
        budget={},
        created=context.clock(),
        labels=source.labels if labels is None else dict(labels),
        lineage=lineage(source, point.seq),
        parent=Parent(session=point.session, seq=point.seq, hash=parent.hash, kind=kind),
        reason="",
        status="open",
    )
    encode_checked("session", record)
    fields = {"actor": "system", "principal": context.principal, **said}
    draft = Draft(
        id=context.mint("commit"),
        session=session,
        kind="fork",
        changes=(Upsert("session", record),),
        **fields,
    )
    row, made = store.create([draft])
    if not made:
        raise Conflict(
            f"a session {record.name!r:.80} exists already",
            hint="choose another name",
            session=row.id,
        )
    return row


def lineage(source: SessionRecord, seq: int) -> list[Segment]:
    """The stretches a fork at `seq` reads: its parent's, cut there, and the parent's own part."""
    inherited = [
        msgspec.structs.replace(part, upto=min(part.upto, seq))
        for part in source.lineage
        if part.after < seq
    ]
    low = lent_upto(source.lineage)
    if seq > low:
        inherited.append(Segment(session=source.id, after=low, upto=seq))
    return inherited
