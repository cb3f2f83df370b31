"""The PostgreSQL store: the port over one tenant's part of a database."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit, urlunsplit

from stator.errors import BadQuery, NotAStore, StoreReadOnly
from stator.model.exchange.bookmark import Bookmark
from stator.model.exchange.packed import Packed
from stator.model.log.commit import Commit, Draft
from stator.model.log.delta import Op, Version
from stator.model.log.query import (
    TOGETHER,
    CallQuery,
    CallRow,
    Finding,
    Head,
    Holder,
    KeyTouch,
    Lease,
    Page,
    Read,
    SessionQuery,
    SessionRow,
    StoreInfo,
    TurnRow,
    UsageBy,
)
from stator.model.records.types import Entry
from stator.model.sessions.ownership import OWN
from stator.model.views.sql_views import AS_IS, Shown
from stator.store.port import Durability
from stator.store.postgres import schema
from stator.store.postgres.append import PostgresAppender, taken_error
from stator.store.postgres.bookmark_rows import bookmark_get, bookmark_in
from stator.store.postgres.connection import Connections, Taken
from stator.store.postgres.ingest import ingest
from stator.store.postgres.leases import PostgresLeases
from stator.store.postgres.patience import LONG_S
from stator.store.postgres.queries import calls as call_rows
from stator.store.postgres.queries import commits as log
from stator.store.postgres.queries import question, state
from stator.store.postgres.queries import sessions as rows
from stator.store.postgres.roles import check_appends, check_drives
from stator.store.postgres.session_row import by_id, must_find

if TYPE_CHECKING:
    from stator.model.log.log_walk import SessionLog
    from stator.store.postgres.checks import ServerChecks

ASKED: dict[str, Callable[..., Any]] = {
    "session": rows.session,
    "sessions": rows.sessions,
    "head": rows.head,
    "commits": log.commits,
    "locate": log.locate,
    "turns": state.turns,
    "entries": state.entries,
    "versions": state.versions,
    "calls": call_rows.calls,
}
"""The questions that can be asked together."""


class PostgresStore:
    """See `store.port` for what each method promises."""

    remote = True
    needs_tenant = True

    def __init__(
        self,
        url: str,
        *,
        part: str,
        owner: str = "",
        durability: Durability = "full",
        create: bool = True,
        read_only: bool = False,
        redact: bool = True,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
        salts: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """Open one tenant's part of a database; `create` makes the tables and the part where they are missing. Sessions
        that name no tenant are `owner`'s."""
        self.ownership = OWN
        self.wrote: Callable[[], object] = lambda: None
        self.url = url
        self._durability = durability
        self._read_only = read_only
        self._part = part
        self._connections = Connections(url, writes=not read_only)
        try:
            self._tenant = self._prepared(url, part, create=create and not read_only)
        except BaseException:
            self._connections.close()
            raise
        self._appender = PostgresAppender(
            self._connections,
            self._tenant,
            durability,
            redact=redact,
            clock=clock,
            salts=salts,
            owner=owner,
        )
        self._leases = PostgresLeases(self._connections)

    def _prepared(self, url: str, part: str, *, create: bool) -> schema.Tenant:
        found = schema.tenant(self._connections, part)
        if found is None and not create:
            raise NotAStore(
                "this database holds no store of this tenant",
                absent=True,
                hint="look at the tenant's name; stator init --store URL makes a new one",
            )
        if found is None:
            schema.prepare(url)
            found = schema.add_tenant(self._connections, part)
        return found

    # -- life -------------------------------------------------------------------------------------

    @property
    def round_trips(self) -> int:
        """How often the server was asked so far."""
        return self._connections.trips

    def info(self) -> StoreInfo:
        return StoreInfo(
            id=self._tenant.id,
            url=without_password(self.url),
            kind="postgresql",
            schema=schema.SCHEMA,
            durability=self._durability,
            read_only=self._read_only or self._tenant.right == "read",
        )

    def server(self, clock: Callable[[], int]) -> ServerChecks:
        """What `doctor` asks: the server in a line, and what is to be done about it; `clock` is this machine's."""
        from stator.store.postgres.checks import checked

        self._connections.check()
        return checked(self._connections, clock)

    def close(self) -> None:
        if not self._connections.closed:
            if self._connections.is_ours:
                self._leases.close()
            self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def sync(self) -> None:
        """One synchronous commit makes everything before it durable."""
        self._check_drives()
        self._connections.write(self._appender.barrier)

    def _check_writable(self) -> None:
        self._connections.check()
        if self._read_only:
            raise StoreReadOnly("this store was opened to read only")

    def _check_drives(self) -> None:
        self._check_writable()
        check_drives(self._tenant.right)

    # -- sessions ---------------------------------------------------------------------------------

    def create(
        self, drafts: Sequence[Draft], *, bookmark: Bookmark | None = None
    ) -> tuple[SessionRow, bool]:
        self._check_drives()
        found, made = self._appender.create(drafts, bookmark)
        if made:
            self.wrote()
        return found.row, made

    def session(self, session: str, *, counted: bool = False) -> SessionRow:
        return self._ask(rows.session(session, counted=counted))

    def sessions(
        self, query: SessionQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[SessionRow]:
        return self._ask(rows.sessions(query, cursor=cursor, limit=limit))

    # -- the lease --------------------------------------------------------------------------------

    def acquire(
        self, session: str, holder: Holder, *, take: bool = False, over: int = 0, newest: int = 0
    ) -> Lease:
        self._check_drives()
        lease, opened = self._leases.acquire(
            session,
            holder,
            take=take,
            over=over,
            newest=newest,
            opening=self._appender.opening(session),
        )
        self._appender.prime(session, opened)
        return lease

    def release(self, lease: Lease) -> None:
        self._check_drives()
        try:
            self._leases.release(lease)
        finally:
            self._appender.forget(lease.session)

    # -- the log ----------------------------------------------------------------------------------

    def append(
        self,
        session: str,
        drafts: Sequence[Draft],
        *,
        if_head: str | None = None,
        barrier: bool = False,
        fresh: bool = False,
        bookmark: Bookmark | None = None,
    ) -> list[Commit]:
        self._check_writable()
        check_appends(self._tenant.right, drafts, noted=bookmark is not None)
        if not drafts and bookmark is None:
            return []
        commits = self._appender.append(
            session, drafts, if_head=if_head, barrier=barrier, bookmark=bookmark
        )
        self.wrote()
        return commits

    def bookmark(self, session: str, name: str) -> Bookmark | None:
        there, notes = self._connections.read(by_id(session), bookmark_get(session, name))
        must_find(there, session)
        return bookmark_in(name, notes)

    def ingest(
        self, commits: Iterable[Commit], *, projects: Mapping[str, str] | None = None
    ) -> int:
        self._check_drives()
        # All of them first: what makes them may ask this store, and a transaction may have to be begun again.
        arriving = list(commits)
        try:
            new = self._connections.write(
                lambda db: ingest(self._appender, db, arriving, projects or {})
            )
        except Taken as taken:
            raise taken_error(taken, arriving[0].session) from taken
        finally:
            self._appender.forget_all()
        self.wrote()
        return new

    def head(self, session: str) -> Head:
        return self._ask(rows.head(session))

    def heads(
        self, known: Mapping[str, int], *, project: str | None = None, others: bool = False
    ) -> dict[str, int]:
        return self._ask(rows.heads(known, project=project, others=others))

    def commits(
        self,
        session: str,
        *,
        after: int = 0,
        upto: int | None = None,
        newest_first: bool = False,
        limit: int = 1000,
        load: bool = True,
        seqs: Collection[int] | None = None,
        ids: Collection[str] | None = None,
        rewinds: bool = False,
        origins: Collection[tuple[str, str]] | None = None,
    ) -> list[Commit]:
        return self._ask(
            log.commits(
                session,
                after=after,
                upto=upto,
                newest_first=newest_first,
                limit=limit,
                load=load,
                seqs=seqs,
                ids=ids,
                rewinds=rewinds,
                origins=origins,
            )
        )

    def packed(
        self, session: str, *, after: int = 0, upto: int | None = None, limit: int = 1000
    ) -> list[Packed]:
        return self._ask(log.packed_commits(session, after=after, upto=upto, limit=limit))

    def locate(self, text: str, session: str | None = None) -> list[tuple[str, int]]:
        return self._ask(log.locate(text, session))

    def turns(
        self,
        session: str,
        *,
        after: int = 0,
        upto: int | None = None,
        newest_first: bool = False,
        limit: int = 1000,
        keys: Collection[str] | None = None,
        prompts: bool = False,
        ends: bool = False,
        standing: bool = False,
    ) -> list[TurnRow]:
        return self._ask(
            state.turns(
                session,
                after=after,
                upto=upto,
                newest_first=newest_first,
                limit=limit,
                keys=keys,
                prompts=prompts,
                ends=ends,
                standing=standing,
            )
        )

    # -- state ------------------------------------------------------------------------------------

    def entries(
        self,
        session: str,
        *collections: str,
        at: int | None = None,
        limit: int | Mapping[str, int] | None = None,
        keys: Collection[str] | None = None,
        prefix: str = "",
    ) -> list[Entry]:
        return self._ask(
            state.entries(session, *collections, at=at, limit=limit, keys=keys, prefix=prefix)
        )

    def versions(
        self, session: str, *, after: int, upto: int, collections: Sequence[str] = ()
    ) -> list[Version]:
        return self._ask(state.versions(session, after=after, upto=upto, collections=collections))

    def replaced(self, session: str, ops: Sequence[Op]) -> list[Version | None]:
        return self._ask(state.replaced(session, ops))

    def touches(
        self,
        collection: str,
        key: str,
        *,
        session: str | None = None,
        project: str | None = None,
        limit: int = 100,
    ) -> list[KeyTouch]:
        return self._ask(
            call_rows.touches(collection, key, session=session, project=project, limit=limit)
        )

    def calls(
        self, query: CallQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[CallRow]:
        return self._ask(call_rows.calls(query, cursor=cursor, limit=limit))

    def _ask(self, asked: question.Question[question.Answer]) -> question.Answer:
        self._connections.check()
        return question.answer(self._connections, asked)

    def together(self, *reads: Read) -> list[Any]:
        self._connections.check()
        for read in reads:
            if read.method not in ASKED:
                raise BadQuery(
                    f"{read.method!r:.40} cannot be asked together with other reads",
                    hint=f"one of: {', '.join(sorted(TOGETHER))}",
                )
        questions = [self._question(read) for read in reads]
        return question.answer_all(self._connections, questions)

    def _question(self, read: Read) -> question.Question[Any]:
        asked: question.Question[Any] = ASKED[read.method](*read.args, **read.options)
        return asked

    # -- keeping ----------------------------------------------------------------------------------

    def logs(self, session: str | None = None) -> Iterator[SessionLog]:
        from stator.store.postgres import upkeep

        self._connections.check()
        yield from upkeep.logs(self._connections, session)

    def audit(self, *, skip: Collection[str] = ()) -> Iterator[Finding]:
        from stator.store.postgres import upkeep

        self._connections.check()
        yield from upkeep.audit(self._connections, skip)

    def rebuild(self) -> None:
        from stator.store.postgres import upkeep

        self._check_drives()
        self._connections.write(partial(upkeep.rebuild, self._connections), patience_s=LONG_S)
        self._appender.forget_all()

    def usage(self, *, by: UsageBy = "content", session: str | None = None) -> dict[str, int]:
        from stator.store.postgres import upkeep

        if session is not None:
            self.session(session)
        return upkeep.usage(self._connections, by, session)

    def sql(
        self, query: str, *, row_limit: int = 1000, seconds: float = 5.0, shown: Shown = AS_IS
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        from stator.store.postgres.sandbox import process  # few programs ask in SQL

        self._connections.check()
        return process.run(
            self.url,
            self._part,
            without_password(self.url),
            query,
            row_limit=row_limit,
            seconds=seconds,
            shown=shown,
        )


def without_password(url: str) -> str:
    """A URL as it may be shown."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    shown = f"{user.partition(':')[0]}{at}{host}"
    return urlunsplit((parts.scheme, shown, parts.path, "", ""))
