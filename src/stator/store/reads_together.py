"""Answers several reads of a store one after the other: what `StorePort.together` is where nothing is sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stator.errors import BadQuery, NotFound
from stator.model.log.query import TOGETHER, Read


def answered(store: Any, reads: Iterable[Read]) -> list[Any]:
    """The answers, in order; in the place of one to what is not found, that error."""
    return [_answer(store, read) for read in reads]


def _answer(store: Any, read: Read) -> Any:
    if read.method not in TOGETHER:
        raise BadQuery(
            f"{read.method!r:.40} cannot be asked together with other reads",
            hint=f"one of: {', '.join(sorted(TOGETHER))}",
        )
    try:
        return getattr(store, read.method)(*read.args, **read.options)
    except NotFound as error:
        return error
