"""The process that answers a query over a tenant's part of a database: it reads one snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from stator.errors import NotAStore
from stator.store.postgres import schema
from stator.store.postgres.connection import READ, Connections
from stator.store.postgres.sandbox.view_rows import PostgresRows
from stator.store.sandbox.query_answer import answer


@contextmanager
def opened(given: Sequence[str]) -> Iterator[PostgresRows]:
    """One snapshot of a part."""
    url, part = given
    connections = Connections(url)
    with closing(connections):
        if schema.tenant(connections, part) is None:
            raise NotAStore("this database holds no store of this tenant")
        with connections.transaction(READ) as db:
            yield PostgresRows(db)


if __name__ == "__main__":
    answer(opened)
