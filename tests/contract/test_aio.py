"""The contract suite through `stator.aio`: every method awaited, and run by its thread pool."""

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from postgres_server import new_tenant, shared_database
from stator import index_files
from stator.runtime.facade.aio_pool import Pool
from stator.store.contract import *  # noqa: F403
from stator.store.contract import Capabilities, MakeStore
from stator.store.memory import MemoryStore
from stator.store.port import ProjectIndex, StorePort
from stator.store.postgres import PostgresStore
from stator.store.sqlite import SqliteStore, create


class Awaited:
    """A store that awaits every method, as `stator.aio` does."""

    def __init__(self, store: Any) -> None:
        vars(self).update(_store=store, _pool=Pool(4))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._store, name, value)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if not callable(method):
            return method

        def call(*args: Any, **kwargs: Any) -> Any:
            found = asyncio.run(self._pool.run(method, *args, **kwargs))
            return list(found) if inspect.isgenerator(found) else found

        return call

    def close(self) -> None:
        if not self._pool.closed:
            asyncio.run(self._pool.run(self._store.close))
            self._pool.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def capabilities(kind: str) -> Capabilities:
    return Capabilities(durable=kind != "memory", sql=kind != "memory")


@pytest.fixture
def make_store(tmp_path: Path, kind: str) -> MakeStore:
    path = str(tmp_path / "store.db")
    part = new_tenant()

    def make(**options: Any) -> Any:
        if kind == "memory":
            return Awaited(MemoryStore(**options))
        if kind == "postgres":
            return Awaited(PostgresStore(shared_database(), part=part, **options))
        create(path)
        return Awaited(SqliteStore(path, durability="relaxed", **options))

    return make


@pytest.fixture
def project_index(store: StorePort) -> Iterator[ProjectIndex]:
    with index_files.project_index(store, True) as index:
        assert index is not None
        yield index
