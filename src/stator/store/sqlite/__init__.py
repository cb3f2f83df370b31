"""The SQLite store. `SqliteStore` is the port, `create` makes a new file."""

from stator.store.sqlite.connection import create
from stator.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "create"]
