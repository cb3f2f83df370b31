"""The contract suite over the SQLite store: a real file, with rare and with constant flushes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stator import index_files
from stator.store.contract import *  # noqa: F403
from stator.store.contract import Capabilities, MakeStore
from stator.store.port import ProjectIndex, StorePort
from stator.store.sqlite import SqliteStore, create


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities(durable=True, sql=True)


@pytest.fixture(params=["lazy", "eager"])
def pace(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """`lazy` leaves everything in the tail; `eager` flushes each append and snapshots each flush."""
    if request.param == "eager":
        monkeypatch.setattr("stator.store.sqlite.projection.TAIL_MAX", 1)
        monkeypatch.setattr("stator.store.sqlite.projection.SNAP_MIN", 1)
    return str(request.param)


@pytest.fixture
def make_store(tmp_path: Path, pace: str) -> MakeStore:
    path = str(tmp_path / "store.db")

    def make(**options: Any) -> SqliteStore:
        create(path)
        return SqliteStore(path, durability="relaxed", **options)

    return make


@pytest.fixture
def project_index(store: StorePort) -> Iterator[ProjectIndex]:
    with index_files.project_index(store, True) as index:
        assert index is not None
        yield index
