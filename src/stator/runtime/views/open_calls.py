"""Finds the calls of a session without a final outcome: running, in doubt, or waiting for a person."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stator.model.log.query import SessionRow
from stator.model.records.types import CallRecord, Entry

DIED = "process died"


def is_running(record: CallRecord) -> bool:
    """Whether a call was begun here and has no outcome."""
    return record.status in ("requested", "started") and not record.elsewhere


def unknown(record: CallRecord) -> bool:
    """Whether a call without an outcome may have changed something."""
    return record.effect == "write"


def waits(record: CallRecord) -> bool:
    """Whether a call of this session waits for a person's word."""
    return record.status == "awaiting approval" and not record.elsewhere


def in_doubt(row: SessionRow, calls: Sequence[Entry]) -> list[CallRecord]:
    """Those of a session's calls that are in doubt and its own to settle, oldest first."""
    found = [entry.record for entry in calls if isinstance(entry.record, CallRecord)]
    left = row.shown == "interrupted"
    doubted = [
        msgspec.structs.replace(record, status="in doubt", cause=record.cause or DIED)
        for record in found
        if not record.elsewhere
        and (record.status == "in doubt" or (left and is_running(record) and unknown(record)))
    ]
    return sorted(doubted, key=lambda record: (record.since, record.call))
