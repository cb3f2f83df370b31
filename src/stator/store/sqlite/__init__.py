"""The SQLite store. `SqliteStore` is the port, `create` makes a new file.

Each is loaded when it is first used: the process of a query needs neither, and has to start fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stator.store.sqlite.connection import create
    from stator.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "create"]


def __getattr__(name: str) -> Any:
    if name == "SqliteStore":
        from stator.store.sqlite.store import SqliteStore

        return SqliteStore
    if name == "create":
        from stator.store.sqlite.connection import create

        return create
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
