"""Reads through what a store returns in pages."""

from __future__ import annotations

from collections.abc import Iterator

from stator.model.log.commit import Commit
from stator.model.log.query import SessionQuery, SessionRow
from stator.store.port import StorePort

SESSIONS, COMMITS = 100, 500


def matching(store: StorePort, query: SessionQuery) -> Iterator[SessionRow]:
    """Every session a query asks for."""
    cursor: tuple[int, ...] | None = None
    while True:
        page = store.sessions(query, cursor=cursor, limit=SESSIONS)
        yield from page.rows
        cursor = page.cursor
        if cursor is None:
            return


def commits(
    store: StorePort, session: str, *, after: int = 0, upto: int | None = None, load: bool = True
) -> Iterator[Commit]:
    """Every commit of a stretch of a log."""
    while page := store.commits(session, after=after, upto=upto, limit=COMMITS, load=load):
        yield from page
        after = page[-1].seq


def commit_at(store: StorePort, session: str, seq: int, *, load: bool = True) -> Commit:
    """The commit at a seq that is known to be there."""
    return store.commits(session, after=seq - 1, upto=seq, limit=1, load=load)[0]
