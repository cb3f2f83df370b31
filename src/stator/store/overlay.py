"""An overlay: a store whose appends go to a second store, so that the first stays unchanged.

Read-only programs use it: the hook queue is applied to the overlay, and every question is answered as if the
store had recorded it. A session is copied when it is first added to; those that are not answer from below.
Sessions come newest first, from both; where the calls of all of them are asked, those of sessions that
were added to come first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from stator.errors import Conflict, NotFound, TooLarge
from stator.model.log.commit import Commit, Draft, Upsert
from stator.model.log.delta import Op, Version
from stator.model.log.query import (
    CallQuery,
    CallRow,
    Counts,
    Finding,
    Head,
    Holder,
    KeyTouch,
    Lease,
    Page,
    SessionQuery,
    SessionRow,
    StoreInfo,
    TurnRow,
    UsageBy,
)
from stator.model.records.types import Entry, SessionRecord
from stator.model.sessions.ownership import Ownership
from stator.store.port import StorePort

if TYPE_CHECKING:  # loaded only by `verify`
    from stator.model.log.log_walk import SessionLog

COPY_MAX = 20_000
"""Commits of a session that is copied; of a longer one what is laid over it is not shown."""
LOCATED_MAX = 10
PAGE = 1000


class Overlay:
    """See `store.port.StorePort` for what each method promises."""

    def __init__(self, below: StorePort, above: StorePort) -> None:
        """`above` is an empty store that no other object uses."""
        self._below = below
        self._above = above
        self._own: set[str] = set()
        self._copied: set[str] = set()
        self._is_done = False

    def freeze(self) -> None:
        """From here on it is asked only: what would be written goes to the store below, which says no."""
        self._is_done = True

    def _of(self, session: str) -> StorePort:
        return self._above if session in self._own else self._below

    # -- writing, until it is frozen --------------------------------------------------------------

    def create(self, drafts: Sequence[Draft]) -> tuple[SessionRow, bool]:
        if self._is_done:
            return self._below.create(drafts)
        record = _opening(drafts)
        known = self.sessions(
            SessionQuery(name=record.name, project=record.project, tenant=record.tenant), limit=1
        )
        if known.rows:
            return known.rows[0], False
        if self._is_below(record.id):
            raise Conflict(f"session {record.id} exists under another name", session=record.id)
        for part in record.lineage:
            self._copy(part.session)
        row, created = self._above.create(drafts)
        self._own.add(row.id)
        return row, created

    def _is_below(self, session: str) -> bool:
        try:
            self._below.session(session)
        except NotFound:
            return False
        return True

    def append(
        self,
        session: str,
        drafts: Sequence[Draft],
        *,
        if_head: str | None = None,
        barrier: bool = False,
        fresh: bool = False,
    ) -> list[Commit]:
        if self._is_done:
            return self._below.append(
                session, drafts, if_head=if_head, barrier=barrier, fresh=fresh
            )
        self._copy(session)
        self._own.add(session)
        return self._above.append(session, drafts, if_head=if_head, barrier=barrier, fresh=fresh)

    def _copy(self, session: str) -> None:
        """A session as it is below, and what it was forked from."""
        if session in self._own or session in self._copied:
            return
        for part in self._below.session(session).record.lineage:
            self._copy(part.session)
        if self._below.head(session).seq > COPY_MAX:
            raise TooLarge(f"session {session} is too long for an overlay", session=session)
        self._above.ingest([c for c in self._all(session) if c.session == session])
        self._copied.add(session)

    def _all(self, session: str) -> Iterator[Commit]:
        after = 0
        while page := self._below.commits(session, after=after, limit=PAGE):
            yield from page
            after = page[-1].seq

    def ingest(
        self, commits: Iterable[Commit], *, projects: Mapping[str, str] | None = None
    ) -> int:
        return self._below.ingest(commits, projects=projects)

    def acquire(self, session: str, holder: Holder, *, take: bool = False) -> Lease:
        return self._below.acquire(session, holder, take=take)

    def release(self, lease: Lease) -> None:
        self._below.release(lease)

    def sync(self) -> None:
        self._below.sync()

    def rebuild(self) -> None:
        self._below.rebuild()

    def close(self) -> None:
        self._above.close()
        self._below.close()

    # -- asking one session -----------------------------------------------------------------------

    def session(self, session: str) -> SessionRow:
        return self._of(session).session(session)

    def head(self, session: str) -> Head:
        return self._of(session).head(session)

    def commits(
        self,
        session: str,
        *,
        after: int = 0,
        upto: int | None = None,
        newest_first: bool = False,
        limit: int = 1000,
        load: bool = True,
    ) -> list[Commit]:
        return self._of(session).commits(
            session, after=after, upto=upto, newest_first=newest_first, limit=limit, load=load
        )

    def turns(
        self,
        session: str,
        *,
        after: int = 0,
        upto: int | None = None,
        newest_first: bool = False,
        limit: int = 1000,
    ) -> list[TurnRow]:
        return self._of(session).turns(
            session, after=after, upto=upto, newest_first=newest_first, limit=limit
        )

    def keyed_turns(self, session: str, keys: Sequence[str]) -> list[TurnRow]:
        return self._of(session).keyed_turns(session, keys)

    def entries(
        self, session: str, collection: str, *, at: int | None = None, limit: int | None = None
    ) -> list[Entry]:
        return self._of(session).entries(session, collection, at=at, limit=limit)

    def find(
        self, session: str, collection: str, key: str, *, at: int | None = None
    ) -> Entry | None:
        return self._of(session).find(session, collection, key, at=at)

    def versions(
        self, session: str, *, after: int, upto: int, collections: Sequence[str] = ()
    ) -> list[Version]:
        return self._of(session).versions(session, after=after, upto=upto, collections=collections)

    def replaced(self, session: str, ops: Sequence[Op]) -> list[Version | None]:
        return self._of(session).replaced(session, ops)

    def counts(self, session: str) -> Counts:
        return self._of(session).counts(session)

    # -- asking all of them -----------------------------------------------------------------------

    @property
    def ownership(self) -> Ownership:
        return self._below.ownership

    @ownership.setter
    def ownership(self, found: Ownership) -> None:
        self._below.ownership = found

    def info(self) -> StoreInfo:
        return self._below.info()

    def sessions(
        self, query: SessionQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[SessionRow]:
        """Merges both stores, newest first: a hook may have queued something older than the store's newest
        commit. The cursor holds how many rows of the upper store were given, whether the lower store is
        exhausted, and where it continues."""
        told, ended, *place = cursor or (0, 0)
        above = self._rows(query)
        page = self._below.sessions(query, cursor=tuple(place) or None, limit=limit)
        below, used = ([], 0) if ended else (page.rows, 0)
        rows: list[SessionRow] = []
        while len(rows) < limit:
            if used < len(below) and below[used].id in self._own:
                used += 1
            elif used == len(below) and not ended and page.cursor is not None:
                place = list(page.cursor)
                page = self._below.sessions(query, cursor=page.cursor, limit=limit)
                below, used = page.rows, 0
            elif told < len(above) and (
                used == len(below) or above[told].updated >= below[used].updated
            ):
                rows.append(above[told])
                told += 1
            elif used < len(below):
                rows.append(below[used])
                used += 1
            else:
                return Page(rows, None)
        if used and used < len(below):
            page = self._below.sessions(query, cursor=tuple(place) or None, limit=used)
        if used:
            place = list(page.cursor or ())
        ended = int(ended or (used == len(below) and page.cursor is None))
        if ended and told == len(above):
            return Page(rows, None)
        return Page(rows, (told, ended, *(place if not ended else ())))

    def _rows(self, query: SessionQuery) -> list[SessionRow]:
        """The sessions above that were added to."""
        rows: list[SessionRow] = []
        cursor = None
        while True:
            page = self._above.sessions(query, cursor=cursor, limit=PAGE)
            rows += [row for row in page.rows if row.id in self._own]
            cursor = page.cursor
            if cursor is None:
                return rows

    def calls(
        self, query: CallQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[CallRow]:
        """First what is above, then what is below and not above; a cursor says in which it is."""
        if query.session is not None:
            return self._of(query.session).calls(query, cursor=cursor, limit=limit)
        rows: list[CallRow] = []
        layer, *place = cursor or (0,)
        while True:
            store = self._below if layer else self._above
            left = limit - len(rows) if limit > 0 else limit
            page = store.calls(query, cursor=tuple(place) or None, limit=left)
            rows += [row for row in page.rows if (row.session in self._own) is not bool(layer)]
            if page.cursor is None and layer:
                return Page(rows, None)
            layer, place = (layer, list(page.cursor)) if page.cursor is not None else (1, [])
            if len(rows) >= limit:
                return Page(rows, (layer, *place))

    def locate(self, text: str, session: str | None = None) -> list[tuple[str, int]]:
        if session is not None:
            return self._of(session).locate(text, session)
        found = [hit for hit in self._above.locate(text) if hit[0] in self._own]
        found += [hit for hit in self._below.locate(text) if hit[0] not in self._own]
        return found[:LOCATED_MAX]

    def touches(
        self,
        collection: str,
        key: str,
        *,
        session: str | None = None,
        project: str | None = None,
        limit: int = 100,
    ) -> list[KeyTouch]:
        if session is not None:
            return self._of(session).touches(collection, key, session=session, limit=limit)
        above = self._above.touches(collection, key, project=project, limit=limit)
        below = self._below.touches(collection, key, project=project, limit=limit)
        found = [touch for touch in above if touch.session in self._own]
        found += [touch for touch in below if touch.session not in self._own]
        return list(islice(found, limit))

    def logs(self, session: str | None = None) -> Iterator[SessionLog]:
        return self._below.logs(session)

    def audit(self, *, skip: Collection[str] = ()) -> Iterator[Finding]:
        return self._below.audit(skip=skip)

    def usage(self, *, by: UsageBy = "content", session: str | None = None) -> dict[str, int]:
        return self._below.usage(by=by, session=session)

    def sql(
        self, query: str, *, row_limit: int = 1000, seconds: float = 5.0
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        return self._below.sql(query, row_limit=row_limit, seconds=seconds)


def _opening(drafts: Sequence[Draft]) -> SessionRecord:
    """What the session is that begins with these drafts."""
    return next(
        change.record
        for change in drafts[0].changes
        if isinstance(change, Upsert) and isinstance(change.record, SessionRecord)
    )
