"""A real store in a folder of its own, and a memory store where speed matters."""

from __future__ import annotations

import pytest

import stator
from stator import testing
from stator.runtime.facade.store import Store


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store in a file; the working folder is the project's root."""
    monkeypatch.chdir(tmp_path)
    with stator.connect(tmp_path / "agent.db", project="shop") as opened:
        yield opened


@pytest.fixture
def memory():
    """A store in memory, with a clock that advances by a second at each reading."""
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
    return testing.memory_store(project="shop", root="/project")
