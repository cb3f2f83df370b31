"""Reads what a list says of each session: what it was asked, the files it changed, what it spent, how it ended.

All sessions of a list are read in one call, because a store at a distance would take as long for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from stator.model.log.commit import Commit
from stator.model.log.query import Read, SessionRow, read
from stator.model.records.types import (
    UNPRICED,
    CallRecord,
    RevisionRecord,
    SettingRecord,
    SpendRecord,
)
from stator.model.sessions.lifecycle import lent_upto
from stator.model.views.open_calls import waits
from stator.runtime.base.one_answer import ahead
from stator.runtime.views.as_read import for_one_answer, to_settle
from stator.runtime.views.file_changes import asks_changed, changed_by
from stator.store.port import StorePort

COMMITS_MAX = 5000
"""Of a session with more commits, the files that it changed are not counted: all of them would be read."""
COLLECTIONS = ("spend", "calls", "revisions", "tags")
Prices = Mapping[str, Mapping[str, Any]]
_STOPPED = {"error": "failed", "budget": "budget", "lease lost": "lease lost"}
"""How a session ended that was paused, by the reason for it: who left it without one is not said to have stopped it."""
_BROKEN_OFF = ("interrupted", "aborted", "cancelled")


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a session used, by unit."""

    spend: dict[str, int] = {}
    is_computed: bool = False
    """Whether its money was worked out here, from tokens and prices; the session itself names none."""


class ListedSession(msgspec.Struct, frozen=True, kw_only=True):
    """One session, as a list shows it."""

    row: SessionRow
    cost: Cost
    began: Commit | None = None
    """The commit of its first turn, which holds the prompt."""
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
    ahead(store, *(one for row in rows for one in asks_listed(row, priced=bool(prices))))
    return [_listed(store, row, prices) for row in rows]


def asks_listed(row: SessionRow, *, priced: bool) -> Iterator[Read]:
    """What is read of every session of a list."""
    yield read("entries", row.id, *COLLECTIONS)
    if row.turns:
        yield read("turns", row.id, newest_first=True, limit=1)
        yield read("turns", row.id, limit=1, prompts=True)
    if row.head <= COMMITS_MAX:
        yield from asks_changed(row)
    yield from asks_cost(row, priced=priced)


def _listed(store: StorePort, row: SessionRow, prices: Prices | None) -> ListedSession:
    first = store.turns(row.id, limit=1, prompts=True) if row.turns else []
    records = [entry.record for entry in store.entries(row.id, "revisions")]
    revisions = [record for record in records if isinstance(record, RevisionRecord)]
    return ListedSession(
        row=row,
        cost=cost(store, row, prices),
        began=first[0].began if first else None,
        files=len(changed_by(store, row)[0]) if row.head <= COMMITS_MAX else None,
        ended=_ended(store, row, revisions),
        revision=revisions[0].sha if revisions else "",
    )


# -- how it ended ---------------------------------------------------------------------------------


def _ended(store: StorePort, row: SessionRow, revisions: Sequence[RevisionRecord]) -> str:
    calls = [entry.record for entry in store.entries(row.id, "calls")]
    if any(isinstance(record, CallRecord) and waits(record) for record in calls):
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
    """What a session used. Its money is computed if it names none, all of it was one model's, and that has prices."""
    records = (entry.record for entry in store.entries(row.id, "spend"))
    spend = {record.unit: record.amount for record in records if isinstance(record, SpendRecord)}
    if not prices or "tokens" not in spend or any(unit.startswith("money:") for unit in spend):
        return Cost(spend=spend)
    models = _models(store, row)
    if len(models) != 1:
        return Cost(spend=spend)
    from stator.model.calls.budget import price  # few projects have a table of prices

    used = {unit: amount for unit, amount in spend.items() if unit != UNPRICED}
    found = price(used, models.pop(), prices)
    has_money = any(unit.startswith("money:") for unit in found)
    return Cost(spend={**used, **found}, is_computed=True) if has_money else Cost(spend=spend)


def asks_cost(row: SessionRow, *, priced: bool) -> Iterator[Read]:
    """What `cost` reads of a session; `priced` if there are prices."""
    yield read("entries", row.id, "spend")
    if priced:
        yield _asks_models(row)


def _asks_models(row: SessionRow) -> Read:
    after = lent_upto(row.record.lineage)
    return read("versions", row.id, after=after, upto=row.head, collections=("settings",))


def _models(store: StorePort, row: SessionRow) -> set[str]:
    """The models that a session ran with."""
    asked = _asks_models(row)
    versions = store.versions(*asked.args, **asked.options)
    records = (getattr(version.op, "record", None) for version in versions)
    return {
        record.value
        for record in records
        if isinstance(record, SettingRecord)
        and record.name == "model"
        and isinstance(record.value, str)
    }


def total(found: Sequence[Cost]) -> Cost:
    """The sum of what several sessions used. Tokens of a session without money have no price, so that the sum of
    the money says that it lacks them."""
    spend: dict[str, int] = {}
    for one in found:
        for unit, amount in _with_unpriced(one.spend).items():
            spend[unit] = spend.get(unit, 0) + amount
    return Cost(spend=spend, is_computed=any(one.is_computed for one in found))


def _with_unpriced(spend: Mapping[str, int]) -> Mapping[str, int]:
    if not spend.get("tokens") or any(unit.startswith("money:") for unit in spend):
        return spend
    return {**spend, UNPRICED: spend["tokens"]}
