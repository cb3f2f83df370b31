"""Sums up what a session, or a session and its children, have spent.

A child's spending counts for itself and for every session above it. A fork is no child: it begins
with nothing spent, and what it inherited stays counted where it was spent.
"""

from __future__ import annotations

from collections.abc import Iterator

from stator.model.calls.budget import total
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.records.types import ChildRecord, SpendRecord
from stator.runtime.base.pages import counts_of, matching
from stator.runtime.base.provenance import imported_upto
from stator.store.port import StorePort


def spent(store: StorePort, session: str) -> dict[str, int]:
    """What a session itself has spent, by unit; what it inherited from a fork is not its own."""
    counts = counts_of(store, session)
    used = {
        record.unit: record.amount
        for entry in store.entries(session, "spend")
        if isinstance(record := entry.record, SpendRecord)
    }
    return {**used, "calls": counts.calls, "turns": counts.turns}


def spent_tree(store: StorePort, session: str) -> dict[str, int]:
    """What a session and all its children have spent, each counted once."""
    return total([spent(store, found) for found in tree(store, session)])


def tree(store: StorePort, session: str) -> list[str]:
    """A session and its children, and theirs."""
    found, todo = [session], [session]
    while todo:
        children = [row.id for row in _children(store, todo.pop()) if row.id not in found]
        found += children
        todo += children
    return found


def _children(store: StorePort, session: str) -> Iterator[SessionRow]:
    """Its children. One that came from a bundle counts only if the session itself names it: anyone can write a
    session that calls another its parent."""
    for row in matching(store, SessionQuery(parent=session)):
        if row.record.parent is None or row.record.parent.kind != "child":
            continue
        if not imported_upto(store, row.record) or row.id in _named(store, session):
            yield row


def _named(store: StorePort, session: str) -> set[str]:
    return {
        entry.record.session
        for entry in store.entries(session, "children")
        if isinstance(entry.record, ChildRecord)
    }
