"""Reads what a list says of calls: when each was asked for, what it was given, why it ended so, what repaired it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from stator.model.log.commit import Commit
from stator.model.log.query import CallRow, Read, SessionRow, read
from stator.model.records.types import Entry, FileRecord
from stator.model.views.why import settled_by
from stator.runtime.base.one_answer import ahead
from stator.runtime.base.pages import commit_at
from stator.runtime.views.as_read import for_one_answer
from stator.runtime.views.reasons.repaired import repaired_by
from stator.surfaces.cli.render import documents, wire
from stator.surfaces.cli.render.turns.fold import NOT_FAILED, problem
from stator.surfaces.cli.render.turns.subject import base_of, end

if TYPE_CHECKING:
    from stator.runtime.facade.store import Store

TOLD_MAX = 200
"""Cells of why a call ended as it did."""
INPUT_MAX = 16_384
"""Bytes of what a call was given that JSON has; of more, their number."""
FILES_MAX = 100
"""Files of a session, those touched last, that say which folder its work is in."""


class ListedCall(msgspec.Struct, frozen=True):
    """A call of a list, with its intent and its session."""

    row: CallRow
    intent: Commit
    session: SessionRow
    base: str
    """The folder of its session's work, below which paths are shown without it."""
    told: str
    """Why it ended as it did, and which call repaired it."""

    @property
    def when(self) -> int | None:
        """When it was asked for; None if its session does not say."""
        return self.intent.when if self.session.has_times else None


def read_calls(opened: Store, rows: Sequence[CallRow], room: int = TOLD_MAX) -> list[ListedCall]:
    """The calls of a list, with what is shown of them: read in one call of the store. `room` for why each ended so."""
    store = for_one_answer(opened.as_read)
    places: dict[str, list[int]] = {}
    for row in rows:
        wanted = filter(None, (row.seq, _explained(row)))
        places.setdefault(row.session, []).extend(wanted)
    failed = {(row.session, row.turn) for row in rows if row.status not in NOT_FAILED}
    ahead(
        store,
        *(one for session, seqs in places.items() for one in _asks(session, seqs)),
        *(read("turns", session, after=turn - 1, upto=turn) for session, turn in failed if turn),
    )
    bases = {session: _base(store.entries(session, "files", limit=FILES_MAX)) for session in places}
    repaired = {turn: repaired_by(store, *turn) for turn in failed}
    return [
        ListedCall(
            row,
            commit_at(store, row.session, row.seq),
            store.session(row.session),
            bases[row.session],
            _told(
                row,
                commit_at(store, row.session, seq) if (seq := _explained(row)) else None,
                repaired.get((row.session, row.turn), {}).get(row.seq, 0),
                room,
            ),
        )
        for row in rows
    ]


def _told(row: CallRow, outcome: Commit | None, repaired: int, room: int) -> str:
    """Why a call ended as it did, in the words of `log`, and which call repaired it."""
    why = row.cause
    if outcome is not None:
        why = settled_by(outcome) if outcome.kind == "settlement" else problem(outcome)
    note = f"repaired by @{repaired}" if repaired else ""
    return " · ".join(filter(None, (end(why, room - len(note) - 3 if note else room), note)))


def _explained(row: CallRow) -> int:
    """The commit that says why a call did not end ok; or 0."""
    return 0 if row.status in NOT_FAILED else row.outcome


def _asks(session: str, seqs: list[int]) -> Iterator[Read]:
    yield read("session", session)
    yield read("commits", session, seqs=seqs)
    yield read("entries", session, "files", limit={"files": FILES_MAX})


def _base(entries: Iterable[Entry]) -> str:
    records = (entry.record for entry in entries)
    return base_of(record.path for record in records if isinstance(record, FileRecord))


def as_json(one: ListedCall) -> dict[str, Any]:
    """A call with when it was asked for, what it was given, and why it ended so."""
    given = wire.content_within(one.intent, "input", INPUT_MAX)
    told = {"happened": one.when, "input": given, "told": one.told}
    return {**documents.call(one.row), **told}
