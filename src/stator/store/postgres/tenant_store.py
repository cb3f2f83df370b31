"""The PostgreSQL store as a program connects to it: as one tenant, whose part of the database it is.

The tables already show that part alone. What is left to check is that nothing in it names another tenant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec

from stator.errors import BadQuery, InvalidInput
from stator.model.exchange.bookmark import Bookmark
from stator.model.log.commit import Commit, Draft, Upsert
from stator.model.log.query import Page, Read, SessionQuery, SessionRow
from stator.model.records.types import SessionRecord
from stator.store.one_tenant import HINT, check_sealed, owned, owned_record
from stator.store.postgres.queries.question import Question
from stator.store.postgres.store import PostgresStore


class TenantStore(PostgresStore):
    """The sessions of one tenant."""

    def __init__(self, url: str, *, tenant: str, **options: Any) -> None:
        super().__init__(url, part=tenant, owner=tenant, **options)
        self.tenant = tenant
        self.index_path = ""
        """Beside which the indexes of this machine are kept; `connect` sets it."""
        self.address = ""
        """The URL by which another process opens the same; `connect` sets it."""
        self.holds_password = False
        """Whether that URL holds a password, so that it is not written down; `connect` sets it."""
        self.spool = ""
        """The folder in which hooks of this machine queue for it; `connect` sets it."""

    def create(
        self, drafts: Sequence[Draft], *, bookmark: Bookmark | None = None
    ) -> tuple[SessionRow, bool]:
        ours = owned(drafts, lambda record: owned_record(record, self.tenant))
        return super().create(ours, bookmark=bookmark)

    def append(self, session: str, drafts: Sequence[Draft], **how: Any) -> list[Commit]:
        for draft in drafts:
            for change in draft.changes:
                if isinstance(change, Upsert) and isinstance(change.record, SessionRecord):
                    owned_record(change.record, self.tenant)
        return super().append(session, drafts, **how)

    def ingest(
        self, commits: Iterable[Commit], *, projects: Mapping[str, str] | None = None
    ) -> int:
        """As the store's; a log that names no tenant, as one from a file does, becomes this tenant's."""
        arriving = list(commits)
        for commit in arriving:
            check_sealed(commit, ("", self.tenant))
        return super().ingest(arriving, projects=projects)

    def sessions(
        self, query: SessionQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[SessionRow]:
        return super().sessions(self._ours(query), cursor=cursor, limit=limit)

    def _question(self, read: Read) -> Question[Any]:
        if read.method == "sessions":
            query, *rest = read.args
            read = Read(read.method, (self._ours(query), *rest), read.options)
        return super()._question(read)

    def _ours(self, query: SessionQuery) -> SessionQuery:
        if query.tenant not in (None, "", self.tenant):
            raise BadQuery("this connection sees one tenant only", hint=HINT)
        return msgspec.structs.replace(query, tenant=None)


def open_store(url: str, *, tenant: str | None, **options: Any) -> TenantStore:
    """The store of a URL."""
    server, name = tenant_in(url, tenant)
    return TenantStore(server, tenant=name, **options)


def tenant_in(url: str, tenant: str | None) -> tuple[str, str]:
    """The URL of the server, and the tenant: as given, or part of the URL, as `?tenant=`, for programs that are given
    a URL alone."""
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    named = [value for name, value in pairs if name == "tenant"]
    if named and tenant not in (None, named[-1]):
        raise InvalidInput("the URL names another tenant than tenant=", path="$.tenant")
    tenant = tenant or (named[-1] if named else None)
    if not tenant:
        raise InvalidInput(
            "a PostgreSQL store holds the sessions of several tenants",
            hint="name yours: connect(url, tenant=…), or ?tenant=… in the URL",
            path="$.tenant",
        )
    kept = [(name, value) for name, value in pairs if name != "tenant"]
    rest = urlencode(kept, quote_via=quote)  # the driver takes a plus for a plus
    return urlunsplit(parts._replace(query=rest)), tenant


def names_several_hosts(url: str) -> bool:
    """Whether a URL names several servers, of which one may take over from another."""
    parts = urlsplit(url)
    hosts = [value for name, value in parse_qsl(parts.query) if name in ("host", "hostaddr")]
    return any("," in text for text in (parts.netloc.rpartition("@")[2], *hosts))
