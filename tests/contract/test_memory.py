"""The contract suite over the memory store."""

from collections.abc import Iterator

import pytest

from stator import index_files
from stator.store.contract import *  # noqa: F403
from stator.store.contract import Capabilities, MakeStore
from stator.store.memory import MemoryStore
from stator.store.port import ProjectIndex, StorePort


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities(durable=False, sql=False)


@pytest.fixture
def make_store() -> MakeStore:
    return MemoryStore


@pytest.fixture
def project_index(store: StorePort) -> Iterator[ProjectIndex]:
    with index_files.project_index(store, True) as index:
        assert index is not None
        yield index
