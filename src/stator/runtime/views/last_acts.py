"""Finds when agents last did something, and orders sessions by it.

A store lists sessions by their newest commits. A tag, a settlement, a score, the end of an import or what was found of
a program that died is a commit too, and no act of an agent: it must not make a session of March the last one, nor say
that it was used today.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from stator.model.log.commit import EXTRACTED, Commit
from stator.model.log.query import Read, SessionRow, read
from stator.model.records.tables import OUTSIDE
from stator.model.views.open_calls import left_by_dead
from stator.runtime.base import provenance
from stator.runtime.base.one_answer import ahead
from stator.store.port import StorePort

NEWEST = 3
"""Commits of a session that are read with those of others: what its agent did last is nearly always among them."""
LOOKED_AT = 64
"""Commits that are read at once where it is not."""
FIRST_BATCH, BATCH = 8, 128
"""Sessions whose newest commits are read in one call: few at first, because most questions need only the first."""


def by_last_act(
    store: StorePort, rows: Iterable[SessionRow], *, distrust: bool = False
) -> Iterator[SessionRow]:
    """Sessions that a store listed, newest first by what their agents did, each with when that was. Those of which no
    time is known come last. Reads no more of the rows than are needed for what is taken. With `distrust`, what came
    from a bundle counts as made when it was imported, if not before: its maker chose its times."""
    marked: dict[tuple[str, str], dict[str, int]] | None = {} if distrust else None
    waiting: list[tuple[int, int, SessionRow]] = []
    untimed: list[SessionRow] = []
    count = 0
    for batch in _batches(rows):
        for row in acted(store, [one for one in batch if one.has_times], marked):
            count += 1
            heapq.heappush(waiting, (-row.used, count, row))
        untimed += (row for row in batch if not row.has_times)
        # The rows that follow were listed behind these, and no agent acted later than its session's newest commit.
        while waiting and -waiting[0][0] >= batch[-1].updated:
            yield heapq.heappop(waiting)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]
    yield from untimed


def acted(
    store: StorePort,
    rows: Sequence[SessionRow],
    marked: dict[tuple[str, str], dict[str, int]] | None = None,
) -> list[SessionRow]:
    """These sessions, each with when its agent last did something. `marked`, where bundles are distrusted, is kept
    from one call to the next: which sessions of each project came from one."""
    ahead(store, *(asks_last_act(row.id) for row in rows))
    return [_acted(store, row, marked) for row in rows]


def _acted(
    store: StorePort, row: SessionRow, marked: dict[tuple[str, str], dict[str, int]] | None
) -> SessionRow:
    seq, at = _last_act(store, row)
    scope = (row.record.tenant, row.record.project)
    if marked is None:
        return msgspec.structs.replace(row, acted=at)
    if scope not in marked:
        marked[scope] = provenance.marks_in(store, row.record)
    if row.id in marked[scope]:
        at = provenance.known_time(store, row.record, seq, at)
    return msgspec.structs.replace(row, acted=at)


def _batches(rows: Iterable[SessionRow]) -> Iterator[list[SessionRow]]:
    left, size = iter(rows), FIRST_BATCH
    while batch := list(islice(left, size)):
        yield batch
        size = BATCH


def _is_act(commit: Commit) -> bool:
    """Whether a commit records what an agent did, or was asked to do."""
    is_found = commit.origin is not None and commit.origin[0] == EXTRACTED
    return not (is_found or commit.kind in OUTSIDE or left_by_dead(commit))


def asks_last_act(session: str) -> Read:
    """What is read of a session to know when its agent last did something, nearly always."""
    return read("commits", session, newest_first=True, limit=NEWEST, load=False)


def _last_act(store: StorePort, row: SessionRow) -> tuple[int, int]:
    """The newest commit of a session that tells of its agent, and when that happened; of a session in which no agent
    did anything, its first commit."""
    asked = asks_last_act(row.id)
    page = store.commits(*asked.args, **asked.options)
    while page:
        for commit in page:
            if commit.seq == 1 or _is_act(commit):
                return commit.seq, commit.used
        upto = page[-1].seq - 1
        page = store.commits(row.id, upto=upto, newest_first=True, limit=LOOKED_AT, load=False)
    return row.head, row.updated
