"""Reads the turns that one page shows, with their commits: a bounded part of a session of any length.

A page is cut by commits and by turns, whichever comes first, and continues by the number of a turn or by a seq. Large
content stays in the store: a page fetches the few that are opened, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec

from stator.errors import NotFound
from stator.model.calls.costs import Prices
from stator.model.log.commit import Commit
from stator.model.log.delta import Op, Put, Version, first_ops
from stator.model.log.query import CallQuery, CallRow, Counts, Read, SessionRow, TurnRow, read
from stator.model.records.types import (
    CallRecord,
    ChildRecord,
    FileRecord,
    PlanRecord,
    RevisionRecord,
    SettingRecord,
)
from stator.model.views.open_calls import waits
from stator.runtime.base.costs import asks_cost, session_spend
from stator.runtime.base.one_answer import ahead
from stator.runtime.views.as_read import for_one_answer, prices_in, read_ahead, to_settle
from stator.runtime.views.glance.calls import list_calls
from stator.runtime.views.reflog import rewinds
from stator.store.port import StorePort

TURNS = 20
"""Turns of a page."""
COMMITS = 600
"""Commits of a page."""
OPEN_MAX = 200
"""Open calls and steps of a plan that are looked at."""
FILES_MAX = 201
"""Files that are looked at for the folder that a session works in; the steps of a plan are judged by as many."""
CHILDREN_MAX = 12
"""Sub-agents of a page that are looked into."""
WORDS = 8
"""Commits at the end of a sub-agent's log among which its last words are."""
HEAD = ("spend", "settings", "calls", "plan", "tags", "files", "revisions")


class SessionHead(msgspec.Struct, frozen=True, kw_only=True):
    """A session at a glance: the head of every page about it."""

    row: SessionRow
    counts: Counts
    spend: dict[str, int]
    """With its money, as far as it is named or there are prices."""
    prices: Prices | None
    settings: dict[str, object]
    open_calls: list[CallRecord]
    """Calls without an outcome, as readers see them."""
    doubts: int
    """Calls in doubt that a person is asked about."""
    steps: list[PlanRecord]
    revision: RevisionRecord | None
    """Its newest version-control commit."""
    paths: list[str]
    """Of the files that it touched last: they say in which folder it works."""

    @property
    def waits(self) -> bool:
        """Whether a call waits for a person's approval."""
        return any(map(waits, self.open_calls))


class ReadTurn(msgspec.Struct, kw_only=True):
    """A turn and those of its commits that were read, in order."""

    row: TurnRow
    commits: list[Commit]
    earlier: int = 0
    """Commits of it before those."""
    later: int = 0
    """Commits of it after those."""
    rewound: bool = False

    @property
    def number(self) -> int:
        return self.row.turn


class ReadChild(msgspec.Struct, frozen=True, kw_only=True):
    """A sub-agent, as far as it is here."""

    row: SessionRow
    counts: Counts
    spend: dict[str, int]
    newest: list[Commit]
    """Newest first."""


class ReadTurns(msgspec.Struct, frozen=True, kw_only=True):
    """What one page shows of a session."""

    head: SessionHead
    turns: list[ReadTurn]
    """Newest first."""
    older: int = 0
    """The turn before which the next page begins; 0 at the end."""
    replaced: dict[tuple[str, str, int], Version]
    """Versions that these turns replaced, by collection, record and seq."""
    unanswered: dict[str, CallRow]
    """Calls whose outcome is not among the commits, by id."""
    children: dict[str, ReadChild]


def read_head(store: StorePort, session: str) -> SessionHead:
    """A session at a glance. `store` is one for one answer."""
    row = store.session(session, counted=True)
    calls = [e.record for e in store.entries(session, "calls") if isinstance(e.record, CallRecord)]
    steps = [e.record for e in store.entries(session, "plan") if isinstance(e.record, PlanRecord)]
    made = (entry.record for entry in store.entries(session, "revisions", limit=1))
    settings = (entry.record for entry in store.entries(session, "settings"))
    return SessionHead(
        row=row,
        counts=row.counts or Counts(),
        spend=session_spend(store, row, prices_in(store)),
        prices=prices_in(store),
        settings={one.name: one.value for one in settings if isinstance(one, SettingRecord)},
        open_calls=calls,
        doubts=len(to_settle(store, session)),
        steps=sorted(steps, key=lambda step: step.order),
        revision=next((one for one in made if isinstance(one, RevisionRecord)), None),
        paths=[
            entry.record.path
            for entry in store.entries(session, "files", limit=FILES_MAX)
            if isinstance(entry.record, FileRecord)
        ],
    )


def head_of(store: StorePort, session: str) -> SessionHead:
    """A session at a glance, asked by itself."""
    store = for_one_answer(store)
    read_ahead_head(store, session)
    return read_head(store, session)


def newest_turns(store: StorePort, session: str, *, before: int = 0) -> ReadTurns:
    """The newest turns of a session, or those before a turn: as many as fit on a page, at least one."""
    store = for_one_answer(store)
    upto = before - 1 if before else None
    options: dict[str, Any] = {"newest_first": True, "limit": TURNS + 1, "prompts": True}
    asked = read("turns", session, after=0, upto=upto, **options)
    read_ahead_head(store, session, asked)
    head = read_head(store, session)
    rows = store.turns(session, after=0, upto=upto, **options) if upto != 0 else []
    chosen = _chosen(rows)
    if not chosen:
        return _assembled(store, head, [], 0)
    last = None if not before else chosen[0].last
    commits = store.commits(
        session, after=chosen[-1].first - 1, upto=last, newest_first=True, limit=COMMITS, load=False
    )[::-1]
    turns = [_turn(row, commits, head.row.head if row is chosen[0] else 0) for row in chosen]
    older = chosen[-1].turn if len(rows) > len(chosen) else 0
    return _assembled(store, head, turns, older)


def one_turn(store: StorePort, session: str, number: int, *, after: int = 0) -> ReadTurns:
    """One turn: its first commits, or those after a seq, as many as fit on a page."""
    store = for_one_answer(store)
    options: dict[str, Any] = {"after": number - 1, "upto": number, "prompts": True}
    read_ahead_head(store, session, read("turns", session, **options))
    head = read_head(store, session)
    rows = store.turns(session, **options) if number > 0 else []
    if not rows:
        raise NotFound(f"session {session} has no turn {number}", hint=f"it has {head.row.turns}")
    row = rows[0]
    start = max(row.first - 1, after)
    commits = store.commits(session, after=start, upto=row.last, limit=COMMITS, load=False)
    turn = _turn(row, commits, row.last)
    return _assembled(store, head, [turn], 0)


def range_of(store: StorePort, session: str, after: int, upto: int) -> ReadTurns:
    """The commits of a range, as the part of one turn that they are."""
    store = for_one_answer(store)
    read_ahead_head(store, session)
    head = read_head(store, session)
    upto = min(upto, after + COMMITS)
    commits = store.commits(session, after=after, upto=upto, limit=COMMITS, load=False)
    if not commits:
        raise NotFound(f"session {session} has no commits from @{after + 1} to @{upto}")
    row = TurnRow(turn=commits[-1].turn, first=after + 1, last=upto, at=commits[0].when)
    return _assembled(store, head, [_turn(row, commits, upto)], 0)


def read_ahead_head(store: StorePort, session: str, *also: Read) -> None:
    """Read in one call what every page about a session shows."""
    limits = {"calls": OPEN_MAX, "plan": OPEN_MAX, "files": FILES_MAX, "revisions": 1}
    prices = asks_cost(session, prices_in(store))
    more = [read("session", session, counted=True), *prices, *also]
    read_ahead(store, session, *HEAD, limit=limits, also=more)


def _chosen(rows: Sequence[TurnRow]) -> list[TurnRow]:
    """The newest turns that fit on a page, at least one."""
    found: list[TurnRow] = []
    left = COMMITS
    for row in rows[:TURNS]:
        if found and left < COMMITS // 4 and left < row.last - row.first + 1:
            break
        found.append(row)
        left -= row.last - row.first + 1
        if left <= 0:
            break
    return found


def _turn(row: TurnRow, commits: Sequence[Commit], upto: int) -> ReadTurn:
    own = [
        commit for commit in commits if commit.seq >= row.first and commit.seq <= (upto or row.last)
    ]
    if upto:  # what follows a turn is shown with it
        own = [commit for commit in own if commit.turn == row.turn]
    return ReadTurn(
        row=row,
        commits=own,
        earlier=own[0].seq - row.first if own else 0,
        later=max(0, row.last - own[-1].seq) if own else 0,
    )


def _assembled(store: StorePort, head: SessionHead, turns: list[ReadTurn], older: int) -> ReadTurns:
    session = head.row.id
    commits = [commit for turn in turns for commit in turn.commits]
    known = rewinds(store, session)
    if known:
        from stator.model.log.rewinds import stands, visible

        in_force = visible(known, head.row.head)
        for turn in turns:
            turn.rewound = not stands(in_force, turn.row.first)
    ops = [op for _, group in groupby(commits, lambda c: c.turn) for op in _replacing(group)]
    versions = store.replaced(session, ops) if ops else []
    return ReadTurns(
        head=head,
        turns=turns,
        older=older,
        replaced={
            (op.collection, op.id, op.was): version
            for op, version in zip(ops, versions, strict=True)
            if version is not None
        },
        unanswered=_unanswered(store, session, commits, head),
        children=_children(store, commits),
    )


def _replacing(commits: Iterable[Commit]) -> Iterator[Op]:
    """The first op of a turn on each record whose change is shown with what was there before."""
    ops = (
        op for commit in commits for op in commit.delta if op.collection in ("decisions", "files")
    )
    yield from (op for op in first_ops(ops) if op.was)


def _unanswered(
    store: StorePort, session: str, commits: Sequence[Commit], head: SessionHead
) -> dict[str, CallRow]:
    """How calls ended whose outcome is not among the commits: one more call, where there are any."""
    ended = {one.call for one in commits if one.kind in ("outcome", "settlement", "entry")}
    found = [one for one in commits if one.kind == "call" and one.call not in ended]
    if not found:
        return {}
    wanted = {one.call for one in found}
    tools = {one.tool for one in found}
    tool = next(iter(tools)) if len(tools) == 1 else None
    query = CallQuery(session=session, tool=tool, after=found[0].seq - 1)
    page = list_calls(store, query, None, COMMITS)
    return {row.call: row for row in page.rows if row.call in wanted}


def _children(store: StorePort, commits: Sequence[Commit]) -> dict[str, ReadChild]:
    """The sub-agents that commits report on, as far as they are here: one call for all of them."""
    ids = [
        op.record.session
        for commit in commits
        if commit.kind == "child"
        for op in commit.delta
        if isinstance(op, Put) and isinstance(op.record, ChildRecord)
    ]
    wanted = list(dict.fromkeys(ids))[-CHILDREN_MAX:]
    if not wanted:
        return {}
    newest = {"newest_first": True, "limit": WORDS, "load": False}
    prices = prices_in(store)
    ahead(
        store,
        *(read("session", one, counted=True) for one in wanted),
        *(each for one in wanted for each in asks_cost(one, prices)),
        *(read("commits", one, **newest) for one in wanted),
    )
    found: dict[str, ReadChild] = {}
    for one in wanted:
        try:
            row = store.session(one, counted=True)
        except NotFound:  # it is not in this store
            continue
        found[one] = ReadChild(
            row=row,
            counts=row.counts or Counts(),
            spend=session_spend(store, row, prices),
            newest=store.commits(one, newest_first=True, limit=WORDS, load=False),
        )
    return found
