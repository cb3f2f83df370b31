"""Finds in a whole store what a person should look at: calls in doubt, and what no transcript contains."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from stator.model.exchange.item_commits import NOT_TOLD
from stator.model.log.query import CallQuery, CallRow, SessionQuery, SessionRow
from stator.model.sessions.lifecycle import split_cause
from stator.model.views.open_calls import HISTORY_US
from stator.runtime.base.pages import matching
from stator.runtime.views.as_read import is_history
from stator.store.port import StorePort

PAGE = 500
SESSIONS_MAX = 200
"""Recorded sessions that are searched, the most recently used."""
COMMITS_MAX = 1000
"""Commits of each that are searched: what no transcript contains lands at the end."""


def doubtful(store: StorePort) -> Iterator[CallRow]:
    """Calls in doubt that a person is asked about, the newest session first."""
    cursor: tuple[int, ...] | None = None
    while True:
        page = store.calls(CallQuery(statuses=("in doubt",)), cursor=cursor, limit=PAGE)
        for row in page.rows:
            if not is_history(store, row.session, row.outcome or row.seq):
                yield row
        cursor = page.cursor
        if cursor is None:
            return


class NotTold(msgspec.Struct, frozen=True, kw_only=True):
    """What a session holds that its agent did, as a hook reported, and that its transcript does not contain."""

    row: SessionRow
    seq: int
    """The newest such commit."""
    count: int


def not_told(store: StorePort, now: int) -> Iterator[NotTold]:
    """Sessions of the last 14 days with commits that no transcript contains, the most recently used first."""
    recent = (
        row
        for row in matching(store, SessionQuery(mode="recorded"))
        if now - row.updated <= HISTORY_US
    )
    for row in islice(recent, SESSIONS_MAX):
        commits = store.commits(row.id, newest_first=True, limit=COMMITS_MAX, load=False)
        found = [commit.seq for commit in commits if _is_not_told(commit.cause)]
        if found:
            yield NotTold(row=row, seq=found[0], count=len(found))


def _is_not_told(cause: str) -> bool:
    own = split_cause(cause)[1]
    return own == NOT_TOLD or own.startswith(f"{NOT_TOLD}: ")
