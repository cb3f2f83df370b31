"""The port stays small enough for a stranger to write a store."""

from __future__ import annotations

from stator.store.memory import MemoryStore
from stator.store.port import StorePort
from stator.store.sqlite import SqliteStore

METHODS_MAX = 28


def methods(port: type) -> list[str]:
    return [name for name, value in vars(port).items() if callable(value) and name[:1] != "_"]


def test_the_port_has_at_most_28_methods():
    assert len(methods(StorePort)) <= METHODS_MAX


def test_what_left_the_port_left_its_stores():
    for store in (MemoryStore, SqliteStore):
        assert [name for name in ("find", "keyed_turns", "counts") if hasattr(store, name)] == []
