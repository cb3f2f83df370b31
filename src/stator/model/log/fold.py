"""Fold: state = fold(commits). Applies recorded deltas and decides nothing."""

from __future__ import annotations

from collections.abc import Iterable

from stator.errors import BadDelta
from stator.model.log.delta import Op, Put
from stator.model.records.tables import empty
from stator.model.records.types import State


def apply(state: State, delta: Iterable[Op]) -> State:
    """`state` with the delta applied, in place; dropping a missing record is an error."""
    for op in delta:
        records = state[op.collection]
        if isinstance(op, Put):
            records[op.id] = op.record
        elif op.id in records:
            del records[op.id]
        else:
            raise BadDelta(f"{op.collection}/{op.id} is removed but does not exist")
    return state


def fold(deltas: Iterable[Iterable[Op]], start: State | None = None) -> State:
    """The state after all deltas, from nothing or from a snapshot (which is not changed)."""
    state = empty() if start is None else {name: dict(records) for name, records in start.items()}
    for delta in deltas:
        apply(state, delta)
    return state
