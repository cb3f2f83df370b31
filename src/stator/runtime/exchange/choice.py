"""Chooses the sessions that go to another store, and how far each of them goes.

What a fork continues comes before the fork. A session that is driven goes up to its last ended turn, or stays: what
the open one does is not known yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from stator.model.log.query import SessionQuery, SessionRow
from stator.model.records.types import SessionRecord
from stator.model.sessions.lifecycle import COPIES, lent_upto
from stator.runtime.base.pages import matching
from stator.runtime.base.project_flags import Trash
from stator.store.port import StorePort

PAGE = 500
"""Rows of sessions that are read at a time."""


class SessionToSend(msgspec.Struct, frozen=True, kw_only=True):
    """A session that is to go to another store: its own commits up to `seq`."""

    record: SessionRecord
    """As it is in the store that it comes from."""
    seq: int
    known: int
    """The last seq that a log elsewhere can be compared with."""
    held_back: int = 0
    """Commits of a turn that a driver has not ended yet. They stay."""
    whole: bool = True
    """False of one that only goes because others were forked from it, up to the last of these forks."""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def after(self) -> int:
        return lent_upto(self.record.lineage)


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions that go, and those that stay."""

    going: list[SessionToSend] = []
    busy: list[SessionRecord] = []
    """Sessions that are driven and have not ended a turn."""
    trashed: list[SessionRecord] = []


def everything(store: StorePort) -> list[SessionToSend]:
    """Every session of a store as it is now. What holds for whole projects comes first: it says which sessions were
    imported, and must not come after them."""
    order = store.heads({}, others=True)
    rows = {row.id: row for row in matching(store, SessionQuery(), limit=PAGE)}
    found = [
        SessionToSend(record=rows[session].record, seq=seq, known=seq)
        for session, seq in order.items()
        if session in rows and rows[session].record.project != COPIES
    ]
    return sorted(found, key=lambda one: one.record.mode != "project")


def of_projects(store: StorePort, projects: Collection[str]) -> Chosen:
    """The sessions of some projects, and what they were forked from. Projects' own sessions stay where they are."""
    order = store.heads({}, others=True)
    going: dict[str, SessionToSend] = {}
    busy: list[SessionRecord] = []
    trashed: list[SessionRecord] = []
    trash = Trash(store)
    for row in _rows(store, projects):
        if row in trash:
            trashed.append(row.record)
        elif one := _as_far_as_ended(store, row):
            going[row.id] = one
        else:
            busy.append(row.record)
    for one in list(going.values()):
        _add_ancestors(store, one, going)
    place = {session: n for n, session in enumerate(order)}
    ordered = sorted(going.values(), key=lambda one: place.get(one.id, len(place)))
    return Chosen(going=ordered, busy=busy, trashed=trashed)


def _rows(store: StorePort, projects: Collection[str]) -> Iterator[SessionRow]:
    for project in dict.fromkeys(projects):
        for row in matching(store, SessionQuery(project=project), limit=PAGE):
            if row.record.mode != "project":
                yield row


def _as_far_as_ended(store: StorePort, row: SessionRow) -> SessionToSend | None:
    """The session up to its last ended turn, if it is driven; None if there is none."""
    head = store.head(row.id)
    if row.holder is None or not row.holder.live or not head.turn_open:
        return SessionToSend(record=row.record, seq=head.seq, known=head.seq)
    turns = store.turns(row.id, newest_first=True, limit=2)
    seq = turns[0].first - 1
    if len(turns) < 2 or seq <= lent_upto(row.record.lineage):
        return None
    return SessionToSend(record=row.record, seq=seq, known=head.seq, held_back=head.seq - seq)


def _add_ancestors(store: StorePort, one: SessionToSend, going: dict[str, SessionToSend]) -> None:
    for part in one.record.lineage:
        above = going.get(part.session)
        if above is None:
            record = store.session(part.session).record
            above = SessionToSend(record=record, seq=part.upto, known=part.upto, whole=False)
        elif above.seq < part.upto:
            # A fork of the turn that is open: what it continues has ended for the fork.
            above = msgspec.structs.replace(
                above,
                seq=part.upto,
                known=max(above.known, part.upto),
                held_back=max(above.held_back - (part.upto - above.seq), 0),
            )
        going[part.session] = above
