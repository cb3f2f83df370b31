"""Has a query over a tenant's part of a database answered in a process of its own."""

from __future__ import annotations

from typing import Any

from stator.model.views.sql_views import AS_IS, Shown
from stator.store.sandbox import process

CHILD = "stator.store.postgres.sandbox.child"


def run(
    url: str,
    part: str,
    named: str,
    query: str,
    *,
    row_limit: int,
    seconds: float,
    shown: Shown = AS_IS,
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The answer to one SELECT over the views of a part; `named` is the URL as errors may show it."""
    return process.run(
        CHILD, named, [url, part], query, row_limit=row_limit, seconds=seconds, shown=shown
    )
