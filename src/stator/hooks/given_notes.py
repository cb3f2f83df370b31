"""What hooks gave to agents and what of it arrived, for each recorded session.

A hook that answered adds a line to the spool that names what it gave. Taken in, it is part of the hook note of the
session (`hooks.hook_note`); what arrived is in the log (`deliveries`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from stator.hooks.hook_note import hook_note
from stator.hooks.spool import SpoolLine
from stator.importers.reading.fields import records, text
from stator.model.brief.received import GAVE, GivenNote, not_received
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.records.types import DeliveryRecord
from stator.model.views.open_calls import HISTORY_US
from stator.runtime.base.pages import matching
from stator.runtime.views.words import last_words
from stator.store.port import StorePort

SESSIONS_MAX = 200
"""Recorded sessions that are searched, the most recently used."""


class Undelivered(msgspec.Struct, frozen=True, kw_only=True):
    """A session whose agent did not receive what it was given."""

    row: SessionRow
    agent: str
    missed: list[GivenNote]
    cut: int = 0
    """How many texts arrived otherwise than they were given."""


def given_in(line: SpoolLine) -> list[GivenNote]:
    """The texts that a line of a hook says were given."""
    if line.payload.get("hook_event_name") != GAVE:
        return []
    notes = records(line.payload.get("given"))
    return [GivenNote(text(note.get("kind")), text(note.get("id")), line.at) for note in notes]


def undelivered(store: StorePort, now: int) -> Iterator[Undelivered]:
    """Sessions of the last 14 days with a text that did not arrive as it was given."""
    recent = (
        row
        for row in matching(store, SessionQuery(mode="recorded"))
        if now - row.updated <= HISTORY_US
    )
    for row in islice(recent, SESSIONS_MAX):
        given = hook_note(store, row.id).given
        answer = last_words(store, row.id) if given and row.record.aliases else None
        if answer is None:
            continue
        agent = row.record.aliases[0][0]
        arrived = {
            record.note: record.whole
            for entry in store.entries(row.id, "deliveries")
            if isinstance(record := entry.record, DeliveryRecord)
        }
        missed = not_received(agent, given, arrived, answer.at)
        cut = sum(arrived.get(note.id) is False for note in given)
        if missed or cut:
            yield Undelivered(row=row, agent=agent, missed=missed, cut=cut)
