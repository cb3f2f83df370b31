"""Reads that are asked for often: everything of what a store returns in pages, one of what it returns in sets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from stator.model.log.commit import Commit
from stator.model.log.query import PAGE_MAX, CallQuery, CallRow, Counts, SessionQuery, SessionRow
from stator.model.records.types import Entry
from stator.store.port import StorePort

SESSIONS, COMMITS = 100, 500
BARE = 5000
"""Commits of a page that leaves large content where it is."""


def matching(
    store: StorePort, query: SessionQuery, *, limit: int = SESSIONS
) -> Iterator[SessionRow]:
    """Every session a query asks for, `limit` a call."""
    cursor: tuple[int, ...] | None = None
    while True:
        page = store.sessions(query, cursor=cursor, limit=limit)
        yield from page.rows
        cursor = page.cursor
        if cursor is None:
            return


def each_call(store: StorePort, query: CallQuery) -> Iterator[CallRow]:
    """Every call a query asks for."""
    cursor: tuple[int, ...] | None = None
    while True:
        page = store.calls(query, cursor=cursor, limit=COMMITS)
        yield from page.rows
        cursor = page.cursor
        if cursor is None:
            return


def counts_of(store: StorePort, session: str) -> Counts:
    """How much a session holds."""
    return store.session(session, counted=True).counts or Counts()


def commits(
    store: StorePort, session: str, *, after: int = 0, upto: int | None = None, load: bool = True
) -> Iterator[Commit]:
    """Every commit of a stretch of a log."""
    limit = COMMITS if load else BARE
    while page := store.commits(session, after=after, upto=upto, limit=limit, load=load):
        yield from page
        after = page[-1].seq
        if after == upto:
            return


def commit_at(store: StorePort, session: str, seq: int, *, load: bool = True) -> Commit:
    """The commit at a seq that is known to be there."""
    return store.commits(session, after=seq - 1, upto=seq, limit=1, load=load)[0]


def commits_at(
    store: StorePort, session: str, seqs: Iterable[int], *, load: bool = True
) -> list[Commit]:
    """The commits at some seqs, in log order: one call, unless they are more than one may ask for."""
    return named_commits(store, session, seqs, load=load)


def named_commits(
    store: StorePort,
    session: str,
    seqs: Iterable[int] = (),
    *,
    ids: Collection[str] = (),
    rewinds: bool = False,
    upto: int | None = None,
    load: bool = True,
) -> list[Commit]:
    """The commits at some seqs, with some ids, and rewinds, in log order: one call, unless they are more than one may
    ask for."""
    wanted = sorted(set(seqs))
    if not wanted and not ids and not rewinds:
        return []
    more: dict[str, Any] = {"ids": ids} if ids else {}
    more |= {"rewinds": True} if rewinds else {}
    found: list[Commit] = []
    after = 0
    while True:
        page = store.commits(
            session, after=after, upto=upto, seqs=wanted, limit=PAGE_MAX, load=load, **more
        )
        found += page
        if len(page) < PAGE_MAX:
            return found
        after = page[-1].seq


def find_entry(
    store: StorePort, session: str, collection: str, key: str, *, at: int | None = None
) -> Entry | None:
    """The live record that answers to a key at a seq (default: head)."""
    for entry in store.entries(session, collection, at=at, keys=(key,)):
        return entry
    return None
