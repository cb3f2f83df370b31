"""A store as one tenant sees it: nothing is read, named or written outside of that tenant.

The tenant is the connection's. A session of another tenant and one that does not exist look the same. What cannot be
confined to a tenant (queries in SQL, making the projections again) is refused. A store that knows tenants
by itself says so (`tenant`) and is used as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

import msgspec

from stator.errors import BadQuery, InvalidInput, NotFound
from stator.model.exchange.bookmark import Bookmark
from stator.model.log import chain
from stator.model.log.commit import Commit, Draft, Purge, Upsert
from stator.model.log.delta import Put, from_plain
from stator.model.log.query import (
    GONE,
    CallQuery,
    CallRow,
    Finding,
    Holder,
    KeyTouch,
    Lease,
    Page,
    Read,
    SessionQuery,
    SessionRow,
    StoreInfo,
    UsageBy,
)
from stator.model.records.types import SessionRecord
from stator.model.sessions.ownership import Ownership
from stator.model.values import canon
from stator.store.port import StorePort
from stator.store.reads_together import answered

if TYPE_CHECKING:
    from stator.model.log.log_walk import SessionLog

OF_A_SESSION = frozenset("bookmark head commits packed turns entries versions replaced".split())
"""Methods that read one session, which they are given first."""
PLAIN = frozenset({"close", "sync"})
LOCATED_MAX = 10
PAGE = 1000
HINT = "the tenant is the connection's: connect(url, tenant=…)"


class OneTenant:
    """The sessions of one tenant in a store that holds several."""

    def __init__(self, store: StorePort, tenant: str) -> None:
        self._below = store
        self.tenant = tenant
        self.remote = getattr(store, "remote", False)
        self.needs_tenant = False
        self._ours: set[str] = set()
        """Sessions that were found to be of this tenant: none ever moves to another."""

    @property
    def ownership(self) -> Ownership:
        return self._below.ownership

    @ownership.setter
    def ownership(self, ownership: Ownership) -> None:
        self._below.ownership = ownership

    @property
    def wrote(self) -> Callable[[], object]:
        return self._below.wrote

    @wrote.setter
    def wrote(self, wrote: Callable[[], object]) -> None:
        self._below.wrote = wrote

    def __getattr__(self, name: str) -> Any:
        if name in PLAIN:
            return getattr(self._below, name)
        if name not in OF_A_SESSION:
            raise AttributeError(f"a connection of one tenant has no {name!r}")
        asked = getattr(self._below, name)

        @functools.wraps(asked)
        def of_ours(session: str, *args: Any, **kwargs: Any) -> Any:
            self._check(session)
            return asked(session, *args, **kwargs)

        return of_ours

    def info(self) -> StoreInfo:
        """As the store's, without what would show how much others keep in it."""
        return msgspec.structs.replace(self._below.info(), detail={})

    # -- which sessions there are -----------------------------------------------------------------

    def _check(self, session: str) -> None:
        """`NotFound` unless the session is of this tenant."""
        if session not in self._ours:
            self.session(session)

    def _is_ours(self, session: str) -> bool:
        try:
            self._check(session)
        except NotFound:
            return False
        return True

    def session(self, session: str, *, counted: bool = False) -> SessionRow:
        try:
            row = self._below.session(session, counted=counted)
        except NotFound:
            raise _absent(session) from None
        if row.record.tenant != self.tenant:
            raise _absent(session)
        self._ours.add(session)
        return row

    def sessions(
        self, query: SessionQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[SessionRow]:
        if query.tenant not in (None, "", self.tenant):
            raise BadQuery("this connection sees one tenant only", hint=HINT)
        ours = msgspec.structs.replace(query, tenant=self.tenant)
        page = self._below.sessions(ours, cursor=cursor, limit=limit)
        self._ours.update(row.id for row in page.rows)
        return page

    def _all(self) -> Iterator[SessionRow]:
        cursor = None
        while True:
            page = self.sessions(SessionQuery(), cursor=cursor, limit=PAGE)
            yield from page.rows
            cursor = page.cursor
            if cursor is None:
                return

    def together(self, *reads: Read) -> list[Any]:
        """The answers of this connection; those that need no look at whose they are from one snapshot."""
        found: list[Any] = [None] * len(reads)
        plain = [n for n, read in enumerate(reads) if self._is_plain(read)]
        below = self._below.together(*(reads[n] for n in plain)) if plain else []
        for n, answer in zip(plain, below, strict=True):
            found[n] = answer
        for n in sorted({*range(len(reads))} - {*plain}):
            (found[n],) = answered(self, [reads[n]])
        return found

    def _is_plain(self, read: Read) -> bool:
        """Whether a read is about one session, which is this tenant's."""
        about = read.args[:1] if read.method in OF_A_SESSION else read.args[1:2]
        is_about_one = read.method in OF_A_SESSION or read.method == "locate"
        return is_about_one and bool(about) and about[0] is not None and self._is_ours(about[0])

    # -- writing ----------------------------------------------------------------------------------

    def create(
        self, drafts: Sequence[Draft], *, bookmark: Bookmark | None = None
    ) -> tuple[SessionRow, bool]:
        """A session that names no tenant gets the connection's; one that names another is refused."""
        return self._below.create(owned(drafts, self._owned), bookmark=bookmark)

    def _owned(self, record: SessionRecord) -> SessionRecord:
        record = owned_record(record, self.tenant)
        for part in record.lineage:
            self._check(part.session)
        return record

    def acquire(self, session: str, holder: Holder, **how: Any) -> Lease:
        self._check(session)
        return self._below.acquire(session, holder, **how)

    def release(self, lease: Lease) -> None:
        self._check(lease.session)
        self._below.release(lease)

    def append(self, session: str, drafts: Sequence[Draft], **how: Any) -> list[Commit]:
        self._check(session)
        for draft in drafts:
            for change in draft.changes:
                if isinstance(change, Purge):
                    self._check(change.session)
                elif isinstance(change, Upsert) and isinstance(change.record, SessionRecord):
                    self._owned(change.record)
        return self._below.append(session, drafts, **how)

    def ingest(
        self, commits: Iterable[Commit], *, projects: Mapping[str, str] | None = None
    ) -> int:
        return self._below.ingest(_Checked(commits, self._check_arriving), projects=projects)

    def _check_arriving(self, commit: Commit, begun: set[str]) -> None:
        """Refuse a commit of a session that is neither here nor begun by what arrives."""
        check_sealed(commit, {self.tenant})
        if commit.session in begun:
            return
        if commit.kind in ("open", "fork") and not self._is_anothers(commit.session):
            for part in self._lineage(commit):
                if part not in begun:
                    self._check(part)
        else:
            self._check(commit.session)
        begun.add(commit.session)

    def _is_anothers(self, session: str) -> bool:
        try:
            return self._below.session(session).record.tenant != self.tenant
        except NotFound:
            return False

    @staticmethod
    def _lineage(first: Commit) -> list[str]:
        records = (op.record for op in first.delta if isinstance(op, Put))
        found = next((r for r in records if isinstance(r, SessionRecord)), None)
        return [part.session for part in found.lineage] if found is not None else []

    # -- over all sessions ------------------------------------------------------------------------

    def locate(self, text: str, session: str | None = None) -> list[tuple[str, int]]:
        if session is not None:
            self._check(session)
            return self._below.locate(text, session)
        found = self._below.locate(text)
        ours = [place for place in found if self._is_ours(place[0])]
        if len(found) < LOCATED_MAX or len(ours) == len(found):
            return ours
        # What others have may have taken the places of what this tenant has.
        each = (self._below.locate(text, row.id) for row in self._all())
        places = dict.fromkeys(place for some in each for place in some)
        return [place for place in places if self._is_ours(place[0])][:LOCATED_MAX]

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
            self._check(session)
        asked = limit
        while True:
            found = self._below.touches(
                collection, key, session=session, project=project, limit=asked
            )
            ours = [touch for touch in found if self._is_ours(touch.session)]
            if len(ours) >= limit or len(found) < asked:
                return ours[:limit]
            asked *= 4

    def calls(
        self, query: CallQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[CallRow]:
        if query.session is not None:
            self._check(query.session)
        rows: list[CallRow] = []
        while True:
            page = self._below.calls(query, cursor=cursor, limit=limit - len(rows))
            rows += [row for row in page.rows if self._is_ours(row.session)]
            cursor = page.cursor
            if cursor is None or len(rows) >= limit:
                return Page(rows, cursor)

    def heads(
        self, known: Mapping[str, int], *, project: str | None = None, others: bool = False
    ) -> dict[str, int]:
        ours = {session: seq for session, seq in known.items() if self._is_ours(session)}
        moved = {s: GONE for s, seq in known.items() if s not in ours and seq != GONE}
        found = self._below.heads(ours, project=project, others=others)
        return moved | {s: seq for s, seq in found.items() if self._is_ours(s)}

    def usage(self, *, by: UsageBy = "content", session: str | None = None) -> dict[str, int]:
        """Of this tenant's sessions; what belongs to no session is nobody's here."""
        if session is not None:
            self._check(session)
            return self._below.usage(by=by, session=session)
        if by in ("session", "recorded"):
            known = self._below.usage(by=by)
            return {row.id: known[row.id] for row in self._all() if row.id in known}
        total: dict[str, int] = {}
        for row in self._all():
            for name, size in self._below.usage(by=by, session=row.id).items():
                total[name] = total.get(name, 0) + size
        return total

    def logs(self, session: str | None = None) -> Iterator[SessionLog]:
        if session is not None:
            self._check(session)
        return (log for log in self._below.logs(session) if self._is_ours(log.session))

    def audit(self, *, skip: Collection[str] = ()) -> Iterator[Finding]:
        return (
            found
            for found in self._below.audit(skip=skip)
            if found.session and self._is_ours(found.session)
        )

    def rebuild(self) -> NoReturn:
        raise InvalidInput(
            "the projections are those of every tenant", hint="connect without tenant= to do it"
        )

    def sql(self, query: str, **limits: Any) -> NoReturn:
        raise BadQuery(
            "SQL is not confined to one tenant, so this connection has none",
            hint="connect without tenant= where the file is yours",
        )


def owned(
    drafts: Sequence[Draft], owned_by: Callable[[SessionRecord], SessionRecord]
) -> list[Draft]:
    """Drafts of a new session, with its record as the tenant's own."""
    first = drafts[0]
    changes = tuple(
        Upsert("session", owned_by(change.record))
        if isinstance(change, Upsert) and isinstance(change.record, SessionRecord)
        else change
        for change in first.changes
    )
    return [msgspec.structs.replace(first, changes=changes), *drafts[1:]]


def owned_record(record: SessionRecord, tenant: str) -> SessionRecord:
    """A session's record as one of a tenant; refused if it names another."""
    if record.tenant not in ("", tenant):
        raise _other_tenant(record.id)
    return msgspec.structs.replace(record, tenant=tenant)


def check_sealed(commit: Commit, tenants: Collection[str]) -> None:
    """Refuse what makes a session another tenant's."""
    for n, op in enumerate(commit.delta):
        item = commit.content.get(chain.put_item(n))
        if not isinstance(op, Put) or op.collection != "session":
            continue
        # As it is hashed. One that is missing could be anything.
        record = from_plain(op.collection, canon.decode(item)) if isinstance(item, bytes) else None
        if not isinstance(record, SessionRecord) or record.tenant not in tenants:
            raise _other_tenant(commit.session)


class _Checked:
    """Commits that are checked as they are gone through, however often that is."""

    def __init__(
        self, commits: Iterable[Commit], check: Callable[[Commit, set[str]], None]
    ) -> None:
        self._commits, self._check = commits, check

    def __iter__(self) -> Iterator[Commit]:
        begun: set[str] = set()
        for commit in self._commits:
            self._check(commit, begun)
            yield commit


def _absent(session: str) -> NotFound:
    return NotFound(f"no session {session}", hint="stator ls lists sessions", session=session)


def _other_tenant(session: str) -> InvalidInput:
    return InvalidInput(
        f"session {session} names a tenant that is not this connection's",
        path="$.tenant",
        hint=HINT,
        session=session,
    )


def one_tenant(store: StorePort, tenant: str | None) -> StorePort:
    """The store as a tenant sees it; without one, as it is."""
    if tenant is None or getattr(store, "tenant", None) == tenant:
        return store
    return cast("StorePort", OneTenant(store, tenant))
