"""The contract suite over the PostgreSQL store: a real server, a tenant of its own for each test."""

from collections.abc import Iterator

import pytest

from postgres_server import new_tenant, shared_database
from stator import index_files
from stator.store.contract import *  # noqa: F403
from stator.store.contract import Capabilities, MakeStore
from stator.store.port import ProjectIndex, StorePort
from stator.store.postgres import PostgresStore


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities(durable=True, sql=True)


@pytest.fixture
def make_store() -> MakeStore:
    part = new_tenant()
    return lambda **options: PostgresStore(shared_database(), part=part, **options)


@pytest.fixture
def project_index(store: StorePort) -> Iterator[ProjectIndex]:
    with index_files.project_index(store, True) as index:
        assert index is not None
        yield index
