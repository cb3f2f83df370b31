"""Reads what a list says of each session: what it was asked, the files it changed, what it spent, how it ended.

All sessions of a list are read in one call, because a store at a distance would take as long for each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from stator.model.calls.costs import Prices, added, is_computed, with_unpriced
from stator.model.log.commit import Commit
from stator.model.log.query import Read, SessionRow, read
from stator.model.records.types import CallRecord, RevisionRecord
from stator.runtime.base.costs import asks_cost, session_spend
from stator.runtime.base.one_answer import ahead
from stator.runtime.views.as_read import for_one_answer, to_settle
from stator.runtime.views.file_changes import asks_changed, changed_by
from stator.runtime.views.glance.calls import unanswered
from stator.store.port import StorePort

COMMITS_MAX = 5000
"""Of a session with more commits, the files that it changed are not counted: all of them would be read."""
BATCH = 50
"""Sessions of which is read at once how they ended."""
COLLECTIONS = ("spend", "calls", "revisions", "tags")
_STOPPED = {"error": "failed", "budget": "budget", "lease lost": "lease lost"}
"""How a session ended that was paused, by the reason for it: who left it without one is not said to have stopped it."""
_BROKEN_OFF = ("interrupted", "aborted", "cancelled")


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a session used, by unit."""

    spend: dict[str, int] = {}

    @property
    def is_computed(self) -> bool:
        """Whether a part of its money was worked out here, from tokens and prices."""
        return is_computed(self.spend)


class ListedSession(msgspec.Struct, frozen=True, kw_only=True):
    """One session, as a list shows it."""

    row: SessionRow
    cost: Cost
    began: Commit | None = None
    """The commit of its first turn, which holds the prompt."""
    newest: Commit | None = None
    """The commit of its last turn, where the reader asked for that."""
    files: int | None = None
    """Files that it changed, net; None: too much happened in it to count them for a list."""
    ended: str = ""
    """How it ended, in a word or two; what asks for a person first. Empty if its transcript does not say."""
    revision: str = ""
    """Its newest version-control commit."""


def listed(
    store: StorePort, rows: Sequence[SessionRow], prices: Prices | None = None
) -> list[ListedSession]:
    """What a list says of these sessions, in one call of the store."""
    store = for_one_answer(store)
    ahead(store, *(one for row in rows for one in asks_listed(row, prices)))
    return [_listed(store, row, prices) for row in rows]


def asks_listed(row: SessionRow, prices: Prices | None) -> Iterator[Read]:
    """What is read of every session of a list."""
    yield read("entries", row.id, *COLLECTIONS)
    if row.turns:
        yield read("turns", row.id, newest_first=True, limit=1)
        yield read("turns", row.id, limit=1, prompts=True)
    if row.head <= COMMITS_MAX:
        yield from asks_changed(row)
    yield from asks_cost(row.id, prices)


def _listed(store: StorePort, row: SessionRow, prices: Prices | None) -> ListedSession:
    first = store.turns(row.id, limit=1, prompts=True) if row.turns else []
    revisions = _revisions(store, row.id)
    return ListedSession(
        row=row,
        cost=cost(store, row, prices),
        began=first[0].began if first else None,
        files=len(changed_by(store, row)[0]) if row.head <= COMMITS_MAX else None,
        ended=_ended(store, row, revisions),
        revision=revisions[0].sha if revisions else "",
    )


# -- how it ended ---------------------------------------------------------------------------------

ENDS = ("ok", "committed", "pushed", "waiting", "in doubt", "failed", "budget", "lease lost")
"""Words for how a session ended, besides its statuses."""


def ended_so(
    store: StorePort, rows: Iterable[SessionRow], words: Collection[str]
) -> Iterator[SessionRow]:
    """Those of the sessions that ended in one of these words, or have such a status."""
    store = for_one_answer(store)
    left = iter(rows)
    while batch := list(islice(left, BATCH)):
        ahead(store, *(one for row in batch for one in _asks_ended(row)))
        yield from (row for row in batch if row.shown in words or ended(store, row) in words)


def ended(store: StorePort, row: SessionRow) -> str:
    """How one session ended, in the word by which a list says it; empty if its transcript does not say."""
    store = for_one_answer(store)
    ahead(store, *_asks_ended(row))
    return _ended(store, row, _revisions(store, row.id))


def _asks_ended(row: SessionRow) -> Iterator[Read]:
    yield read("entries", row.id, *COLLECTIONS)
    yield read("turns", row.id, newest_first=True, limit=1)


def _revisions(store: StorePort, session: str) -> list[RevisionRecord]:
    records = (entry.record for entry in store.entries(session, "revisions"))
    return [record for record in records if isinstance(record, RevisionRecord)]


def _ended(store: StorePort, row: SessionRow, revisions: Sequence[RevisionRecord]) -> str:
    entries = store.entries(row.id, "calls")
    if unanswered(store, row, (e.record for e in entries if isinstance(e.record, CallRecord))):
        return "waiting"
    if to_settle(store, row.id):
        return "in doubt"
    if row.shown in ("active", "silent", "interrupted"):
        return row.shown
    if row.record.status == "paused" and (
        stopped := _STOPPED.get(row.record.reason.partition(":")[0])
    ):
        return stopped
    last = store.turns(row.id, newest_first=True, limit=1) if row.turns else []
    status = last[0].status if last else ""
    if status in _BROKEN_OFF:
        return "interrupted"
    if status == "error":
        return "failed"
    if revisions:
        return "pushed" if revisions[0].pushed else "committed"
    if row.record.status in ("closed", "archived"):
        return row.record.status
    return status if row.record.mode == "recorded" else status or row.shown


# -- what it cost ---------------------------------------------------------------------------------


def cost(store: StorePort, row: SessionRow, prices: Prices | None = None) -> Cost:
    """What a session used, with its money if it names it, or as far as there are prices."""
    return Cost(spend=session_spend(store, row, prices))


def total(found: Sequence[Cost]) -> Cost:
    """The sum of what several sessions used. Tokens of a session without money have no price, so that the sum says
    that it lacks them."""
    return Cost(spend=added(*(with_unpriced(one.spend) for one in found)))
