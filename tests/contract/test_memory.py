"""The contract suite over the memory store."""

import pytest

from stator.store.contract import *  # noqa: F403
from stator.store.contract import Capabilities, MakeStore
from stator.store.memory import MemoryStore


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities(durable=False, sql=False)


@pytest.fixture
def make_store() -> MakeStore:
    return MemoryStore
