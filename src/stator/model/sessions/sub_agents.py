"""Tells the session of a sub-agent from others, also where the session that started it was never recorded."""

from __future__ import annotations

from stator.model.records.types import SessionRecord


def is_sub_agent(record: SessionRecord) -> bool:
    """Whether another session started it."""
    if record.parent is not None:
        return record.parent.kind == "child"
    return is_stray(record)


def is_stray(record: SessionRecord) -> bool:
    """Whether it is a sub-agent's whose parent is not known: its own agent calls it a part of another session."""
    if record.mode != "recorded" or record.parent is not None:
        return False
    return any(all(foreign.partition("/")[::2]) for _, foreign in record.aliases)
