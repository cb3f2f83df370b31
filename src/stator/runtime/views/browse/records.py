"""Reads what a page about one thing shows: a commit, a call with its outcome, the decisions of a session, its proof."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stator.errors import NotFound
from stator.model.log.commit import Commit
from stator.model.log.log_walk import Walked, walk
from stator.model.log.query import CallRow
from stator.model.records.types import DecisionRecord
from stator.runtime.base.pages import commits_at
from stator.runtime.views.as_read import for_one_answer
from stator.runtime.views.browse.turns import SessionHead, read_ahead_head, read_head
from stator.runtime.views.file_changes import FileChange, files_touched
from stator.runtime.views.refs import find_call, last_attempt
from stator.runtime.views.session import DecisionLine, SessionReader
from stator.store.port import StorePort

DECISIONS_MAX = 300
"""Decisions that a page lists, the newest."""
FILES_MAX = 300
WINDOW = 10_000
"""Commits of a log up to which all decisions are listed; and at its end, in which changed files are looked for."""


class ReadCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit, and the session around it."""

    head: SessionHead
    commit: Commit


class ReadCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call: what was asked for, and the last that is known of it."""

    head: SessionHead
    intent: Commit
    row: CallRow | None
    outcome: Commit | None


class ReadDecisions(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions of a session, newest first, each with the time it was made."""

    head: SessionHead
    lines: list[DecisionLine]
    times: dict[int, int]
    is_cut: bool = False
    """Whether there may be earlier ones."""


class ReadFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a session changed, last changed first."""

    head: SessionHead
    files: list[FileChange]
    is_cut: bool = False
    """Whether there may be more."""


def one_commit(store: StorePort, session: str, seq: int) -> ReadCommit:
    """One commit, with large content left where it is."""
    store = for_one_answer(store)
    read_ahead_head(store, session)
    head = read_head(store, session)
    found = commits_at(store, session, [seq], load=False)
    if not found:
        raise NotFound(
            f"session {session} has no commit @{seq}", hint=f"its head is @{head.row.head}"
        )
    return ReadCommit(head=head, commit=found[0])


def one_call(store: StorePort, session: str, call: str) -> ReadCall:
    """One call: its intent, how its last attempt ended, and the commit that says so."""
    store = for_one_answer(store)
    read_ahead_head(store, session)
    head = read_head(store, session)
    intent = find_call(store, call, session=session)
    row = last_attempt(store, session, intent)
    found = commits_at(store, session, [row.outcome]) if row is not None and row.outcome else []
    return ReadCall(head=head, intent=intent, row=row, outcome=found[0] if found else None)


def decisions(store: StorePort, session: str) -> ReadDecisions:
    """Decisions with what superseded them, newest first."""
    store = for_one_answer(store)
    read_ahead_head(store, session)
    head = read_head(store, session)
    is_long = head.row.head > WINDOW
    known = _in_force(store, session) if is_long else SessionReader(store, session).decisions()
    lines = known[::-1]
    shown = lines[:DECISIONS_MAX]
    commits = commits_at(store, session, [line.seq for line in shown], load=False) if shown else []
    times = {commit.seq: commit.when for commit in commits}
    return ReadDecisions(
        head=head, lines=shown, times=times, is_cut=is_long or len(shown) < len(lines)
    )


def _in_force(store: StorePort, session: str) -> list[DecisionLine]:
    """The newest decisions in force: of a long session, all that is known without reading its whole log."""
    return [
        DecisionLine(
            id=entry.id,
            record=entry.record,
            seq=entry.seq,
            turn=entry.turn,
            stands=True,
            session=session,
        )
        for entry in reversed(store.entries(session, "decisions", limit=DECISIONS_MAX))
        if isinstance(entry.record, DecisionRecord)
    ]


def files(store: StorePort, session: str) -> ReadFiles:
    """The files that a session changed, with what the changes amount to."""
    store = for_one_answer(store)
    read_ahead_head(store, session)
    head = read_head(store, session)
    after = max(0, head.row.head - WINDOW)
    found = files_touched(store, session, after=after, upto=head.row.head)
    is_cut = bool(after) or len(found) > FILES_MAX
    return ReadFiles(head=head, files=found[:FILES_MAX], is_cut=is_cut)


def walked(store: StorePort, session: str) -> Sequence[Walked]:
    """The logs of a session and of those it was forked from, each commit checked against its hash."""
    return [walk(log) for log in store.logs(session)]
