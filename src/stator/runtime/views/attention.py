"""Finds in a whole store what a person should look at: calls in doubt, and what no transcript contains."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from stator.model.log.query import CallQuery, CallRow, SessionQuery, SessionRow
from stator.model.sessions.lifecycle import NOT_TOLD, split_cause
from stator.model.views.open_calls import HISTORY_US
from stator.runtime.base.pages import each_call, find_entry, matching
from stator.runtime.views.as_read import is_history
from stator.store.port import StorePort


class NotToldBounds(NamedTuple):
    """How much is searched for what no transcript contains."""

    sessions: int
    """Recorded sessions, the most recently used."""
    commits: int
    """Commits of each: what no transcript contains lands at the end."""


NARROW, WIDE = NotToldBounds(20, 20), NotToldBounds(200, 1000)


class Unresolved(NamedTuple):
    """Calls that ended in no known way and that nothing is going to end by itself, the newest session first."""

    doubtful: list[CallRow]
    """In doubt, and a person is asked about them."""
    lost: list[CallRow]
    """Started, in a session whose driver is gone."""


def unresolved(store: StorePort, *, most: int) -> Unresolved:
    """At most so many of each, found in one pass over the calls without a known outcome."""
    found = Unresolved([], [])
    for row in each_call(store, CallQuery(statuses=("in doubt", "started"))):
        if row.status == "in doubt":
            kept, fits = found.doubtful, not is_history(store, row.session, row.outcome or row.seq)
        else:
            kept, fits = found.lost, _is_lost(store, row)
        if fits and len(kept) < most:
            kept.append(row)
        if len(found.doubtful) == len(found.lost) == most:
            break
    return found


def _is_lost(store: StorePort, row: CallRow) -> bool:
    """Whether a call without an outcome has started, rather than waits for approval, and no program runs that could
    bring its outcome. The agent of a recorded session may."""
    session = store.session(row.session)
    if session.record.mode == "recorded" or (session.holder is not None and session.holder.live):
        return False
    entry = find_entry(store, row.session, "calls", row.call)
    return getattr(entry and entry.record, "status", "started") == "started"


class NotTold(msgspec.Struct, frozen=True, kw_only=True):
    """What a session holds that its agent did, as a hook reported, and that its transcript does not contain."""

    row: SessionRow
    seq: int
    """The newest such commit."""
    count: int


def not_told(store: StorePort, now: int, bounds: NotToldBounds = WIDE) -> Iterator[NotTold]:
    """Sessions of the last 14 days with commits that no transcript contains, the most recently used first."""
    recent = (
        row
        for row in matching(store, SessionQuery(mode="recorded"))
        if now - row.updated <= HISTORY_US
    )
    for row in islice(recent, bounds.sessions):
        commits = store.commits(row.id, newest_first=True, limit=bounds.commits, load=False)
        found = [commit.seq for commit in commits if _is_not_told(commit.cause)]
        if found:
            yield NotTold(row=row, seq=found[0], count=len(found))


def _is_not_told(cause: str) -> bool:
    own = split_cause(cause)[1]
    return own == NOT_TOLD or own.startswith(f"{NOT_TOLD}: ")
