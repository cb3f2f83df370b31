"""A real store in a folder of its own, and a memory store where speed matters."""

from __future__ import annotations

import itertools
import secrets

import pytest

import stator
from stator.connect import mint
from stator.runtime.context import Context
from stator.runtime.stores import Store
from stator.store.memory import MemoryStore


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store in a file; the working folder is the project's root."""
    monkeypatch.chdir(tmp_path)
    with stator.connect(tmp_path / "agent.db", project="shop") as opened:
        yield opened


@pytest.fixture
def memory():
    """A store in memory, with a clock that moves by a second at each look."""
    return memory_store()


@pytest.fixture(params=["file", "memory"])
def either(request, tmp_path, monkeypatch):
    """A store of each kind."""
    monkeypatch.chdir(tmp_path)
    if request.param == "memory":
        yield memory_store()
        return
    with stator.connect(tmp_path / "agent.db", project="shop") as opened:
        yield opened


def memory_store() -> Store:
    ticks = itertools.count(1_750_000_000_000_000, 1_000_000)
    context = Context(
        clock=lambda: next(ticks),
        mint=mint,
        secret=secrets.token_bytes,
        host="here",
        pid=1,
        program="test",
        principal="local:test",
        project="shop",
        root="/project",
    )
    return Store(MemoryStore(clock=lambda: next(ticks)), context)
