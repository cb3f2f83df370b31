"""Has a query over a file answered in a process of its own."""

from __future__ import annotations

from typing import Any

from stator.model.views.sql_views import AS_IS, Shown
from stator.store.sandbox import process

CHILD = "stator.store.sqlite.sandbox.child"


def run(
    path: str, query: str, *, row_limit: int, seconds: float, shown: Shown = AS_IS
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The answer to one SELECT over the views of the store at a path."""
    return process.run(CHILD, path, path, query, row_limit=row_limit, seconds=seconds, shown=shown)
