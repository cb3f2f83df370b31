"""The process that answers a query over a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from stator.store.sandbox.query_answer import answer
from stator.store.sqlite.read_pool import ReadPool
from stator.store.sqlite.sandbox import views


@contextmanager
def opened(path: str) -> Iterator[views.SqliteRows]:
    """One snapshot of a store."""
    pool = ReadPool(path)
    with closing(pool), pool.snapshot() as store:
        views.prepare(store)
        yield views.SqliteRows(store, path)


if __name__ == "__main__":
    answer(opened)
