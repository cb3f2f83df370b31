"""Has a query over a file answered in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stator.model.views.sql_views import ShownCall
from stator.store.sandbox import process

CHILD = "stator.store.sqlite.sandbox.child"


def run(
    path: str, query: str, *, row_limit: int, seconds: float, shown: Sequence[ShownCall] = ()
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The answer to one SELECT over the views of the store at a path."""
    return process.run(CHILD, path, path, query, row_limit=row_limit, seconds=seconds, shown=shown)
