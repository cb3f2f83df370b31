"""Reads a page of sessions: those at work first, then the others by when they were used, each with how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from stator.model.calls.costs import Prices
from stator.model.log.commit import Commit, Large
from stator.model.log.query import Counts, Read, SessionQuery, SessionRow, read
from stator.model.records.types import CallRecord, RevisionRecord
from stator.model.views.open_calls import waits
from stator.model.views.recap import SessionRecap, asked_in
from stator.model.views.why import words_of
from stator.runtime.base.costs import asks_cost, session_spend
from stator.runtime.base.one_answer import ahead
from stator.runtime.base.project_flags import Trash
from stator.runtime.base.project_session import asks_known, known
from stator.runtime.views.as_read import for_one_answer, prices_in, to_settle
from stator.runtime.views.last_acts import acted, asks_last_act
from stator.store.port import StorePort

ROWS = 30
"""Sessions of a page."""
LIVE_MAX = 40
"""Sessions at work that are listed."""
PAGES_MAX = 3
"""Pages that are read for one, where many of their sessions are sub-agents."""
NEWEST = 6
"""Commits at the end of a log among which the agent's last words are."""
SPEAKERS = ("model", "agent")
AT_WORK = ("active", "silent")


class PagedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session in a list."""

    row: SessionRow
    recap: SessionRecap
    spend: dict[str, int]
    doubts: int = 0
    waiting: int = 0
    failed: int = 0


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sessions, and where the next one begins."""

    live: list[PagedSession]
    rest: list[PagedSession]
    cursor: tuple[int, ...] | None = None


def session_page(
    store: StorePort,
    *,
    project: str | None = None,
    agent: str | None = None,
    cursor: tuple[int, ...] | None = None,
) -> SessionPage:
    """The sessions that people worked in, without sub-agents: those at work on the first page, then the others."""
    store = for_one_answer(store)
    query = SessionQuery(project=project, agent=agent)
    active = msgspec.structs.replace(query, status="active")
    live = [] if cursor is not None else _people(store.sessions(active, limit=LIVE_MAX).rows)
    live = [row for row in live if row.shown in AT_WORK]
    rest: list[SessionRow] = []
    for _ in range(PAGES_MAX):
        page = store.sessions(query, cursor=cursor, limit=ROWS)
        rest += [row for row in _people(page.rows) if row.shown not in AT_WORK]
        cursor = page.cursor
        if cursor is None or len(rest) >= ROWS // 2:
            break
    gone = _trashed(store, [*live, *rest])
    live, rest = ([row for row in rows if row.id not in gone] for rows in (live, rest))
    ahead(store, *(one for row in [*live, *rest] for one in _asks(row, prices_in(store))))
    # The store lists them by their newest commits, and a tag is one. People look for what an agent did last.
    rest = sorted(acted(store, rest), key=lambda row: (not row.has_times, -row.used))
    return SessionPage(
        live=[_listed(store, row) for row in live],
        rest=[_listed(store, row) for row in rest],
        cursor=cursor,
    )


def _people(rows: Iterable[SessionRow]) -> list[SessionRow]:
    """Sessions that people worked in: not a project's own, not replaced by another, not a sub-agent's."""
    return [
        row
        for row in rows
        if row.record.mode != "project"
        and not row.record.adopted
        and not (row.record.parent is not None and row.record.parent.kind == "child")
    ]


def _trashed(store: StorePort, rows: Sequence[SessionRow]) -> set[str]:
    """Those in the trash: a few calls, however many projects there are."""
    scopes = {(row.record.tenant, row.record.project): row.record for row in rows}
    ahead(store, *map(asks_known, scopes.values()))
    own = [found.id for one in scopes.values() if (found := known(store, one)) is not None]
    ahead(store, *(read("entries", one, "flags") for one in own))
    return Trash(store).among(rows)


def _asks(row: SessionRow, prices: Prices | None) -> Iterator[Read]:
    yield read("session", row.id, counted=True)
    yield read("entries", row.id, "calls", "revisions", limit={"calls": 50, "revisions": 1})
    yield read("turns", row.id, limit=1, prompts=True)
    yield read("turns", row.id, newest_first=True, limit=1)
    yield read("commits", row.id, newest_first=True, limit=NEWEST, load=False)
    yield asks_last_act(row.id)
    yield from asks_cost(row.id, prices)


def _listed(store: StorePort, row: SessionRow) -> PagedSession:
    counts = store.session(row.id, counted=True).counts or Counts()
    limits = {"calls": 50, "revisions": 1}
    entries = store.entries(row.id, "calls", "revisions", limit=limits)
    calls = [e.record for e in entries if isinstance(e.record, CallRecord)]
    records = [e.record for e in entries if isinstance(e.record, RevisionRecord)]
    first = store.turns(row.id, limit=1, prompts=True)
    last = store.turns(row.id, newest_first=True, limit=1)
    newest = store.commits(row.id, newest_first=True, limit=NEWEST, load=False)
    turn, asked = asked_in(
        [(1, _words(one.began, "input")) for one in first if one.began], row.record.name
    )
    answers = [
        c for c in newest if c.kind == "entry" and c.actor in SPEAKERS and _words(c, "output")
    ]
    recap = SessionRecap(
        session=row.id, name=row.record.name, agent=row.record.agent, project=row.record.project,
        at=row.used, times_known=row.has_times, status=row.shown, turns=row.turns,
        asked=asked, asked_turn=turn, revisions=[one.sha for one in records],
        pushed=bool(records and records[0].pushed), calls=counts.calls,
        said=_words(answers[0], "output") if answers else "",
        last_turn=last[0].status if last else "",
    )  # fmt: skip
    return PagedSession(
        row=row,
        recap=recap,
        spend=session_spend(store, row, prices_in(store)),
        doubts=len(to_settle(store, row.id)),
        waiting=sum(map(waits, calls)),
        failed=counts.failed,
    )


def _words(commit: Commit | None, field: str) -> str:
    if commit is None or isinstance(commit.content.get(field), Large):
        return ""
    return words_of(commit, field).strip()
