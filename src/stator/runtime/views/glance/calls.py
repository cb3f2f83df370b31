"""Lists calls of one session or of many, with whether those without an outcome wait for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from stator.errors import NotFound
from stator.model.log.query import PAGE_MAX, CallQuery, CallRow, Counts, Page, SessionRow
from stator.model.records.types import ApprovalRecord, CallRecord
from stator.model.sessions.lifecycle import ENDED, lent_upto
from stator.model.views.open_calls import waits
from stator.runtime.views.last_acts import by_last_act
from stator.store.port import StorePort

WAITS = "awaiting approval"
NEAR = 60
"""Sessions that are asked one by one before an index is."""
REACH = 500
"""How many sessions may be asked one by one, by what those that were asked had of what is wanted."""
FAILED = ("error", "timeout", "cancelled", "denied", "in doubt")


def list_calls(
    store: StorePort, query: CallQuery, cursor: tuple[int, ...] | None, limit: int
) -> Page[CallRow]:
    """Calls that match. An index knows a call without an outcome as started; whether it waits for a
    person is in the state, so that is looked up for those."""
    wanted = query.statuses
    if WAITS in wanted:
        query = msgspec.structs.replace(query, statuses=(*wanted, "started"))
    rows: list[CallRow] = []
    while True:
        page = store.calls(query, cursor=cursor, limit=limit - len(rows))
        found = precise(store, page.rows)
        rows += [row for row in found if not wanted or row.status in wanted]
        cursor = page.cursor
        if cursor is None or len(rows) >= limit:
            return Page(rows, cursor)


def newest_calls(
    store: StorePort,
    used: Iterable[SessionRow],
    query: CallQuery,
    limit: int,
    counts: Callable[[SessionRow], bool],
) -> list[CallRow]:
    """Calls that match in many sessions, of those first whose agents acted last. `used`: these sessions, in that order.
    Where the first of them have too few, an index says which others have any; `counts`: whether such a one is among
    the sessions that are meant."""
    found: list[CallRow] = []
    asked: set[str] = set()
    for row in used:
        asked.add(row.id)
        found += _own_calls(store, row, query, limit - len(found))
        if len(found) >= limit:
            return found
        if len(asked) >= NEAR and len(asked) * limit > REACH * len(found):
            break
    else:
        return found
    page = list_calls(store, query, None, PAGE_MAX)
    names = dict.fromkeys(row.session for row in page.rows if row.session not in asked)
    others = [row for row in _rows(store, names) if counts(row)]
    others.sort(key=lambda row: row.updated, reverse=True)
    for row in by_last_act(store, others):
        found += _own_calls(store, row, query, limit - len(found))
        if len(found) >= limit:
            break
    return found


def _own_calls(store: StorePort, row: SessionRow, query: CallQuery, limit: int) -> list[CallRow]:
    """Those of a session, without what it inherited."""
    own = msgspec.structs.replace(
        query, project=None, session=row.id, after=lent_upto(row.record.lineage)
    )
    return list_calls(store, own, None, limit).rows


def _rows(store: StorePort, sessions: Iterable[str]) -> Iterable[SessionRow]:
    """The rows of sessions, without those that were purged meanwhile."""
    for session in sessions:
        try:
            yield store.session(session)
        except NotFound:
            continue


def precise(store: StorePort, rows: Sequence[CallRow]) -> list[CallRow]:
    """Calls without an outcome, with whether they wait for a person: what each session has of them is read once."""
    waiting = {
        entry.key
        for session in {row.session for row in rows if row.status == "started"}
        for entry in store.entries(session, "calls")
        if getattr(entry.record, "status", "") == WAITS
    }
    return [
        msgspec.structs.replace(row, status=WAITS)
        if row.status == "started" and row.call in waiting
        else row
        for row in rows
    ]


def unanswered(
    store: StorePort, row: SessionRow, records: Iterable[CallRecord]
) -> list[CallRecord]:
    """The calls that wait for a person's word which no person has given. A closed session takes none."""
    waiting = [record for record in records if waits(record)]
    if not waiting or row.record.status in ENDED:
        return []
    grants = (entry.record for entry in store.entries(row.id, "approvals"))
    answered = {one.call for one in grants if isinstance(one, ApprovalRecord)}
    return [record for record in waiting if record.call not in answered]


def not_ok(store: StorePort, session: str, counts: Counts) -> int:
    """How many calls did not end ok, as is known now: one that was settled as done is not among them, although its
    session counted it when it was recorded."""
    most = counts.failed + counts.open
    if not most:
        return 0
    query = CallQuery(session=session, statuses=FAILED)
    return len(store.calls(query, limit=min(most, PAGE_MAX)).rows)


def statuses_of(status: str | None) -> tuple[str, ...]:
    """What a status asks for: itself, or every status that `failed` or `open` means; any, if none is given."""
    named = {"failed": FAILED, "open": (WAITS, "started", "in doubt")}
    return named.get(status or "", (status,) if status else ())
