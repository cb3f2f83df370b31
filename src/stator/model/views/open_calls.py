"""Decides what readers show of a call that has no outcome in the log, and whether it concerns a person; and
what they show of one that was settled. Pure.

Nothing about absence is written down: that no result came is no event. So readers work it out, each time, from
whether anything more is expected of the program that made the call.
"""

from __future__ import annotations

import msgspec

from stator.model.log.commit import Commit
from stator.model.log.query import SessionRow
from stator.model.records.types import CallRecord, CallStatus

DIED = "process died"
"""Cause of what the driver of a session left open."""
AGENT_ENDED = "the agent's program ended"
NO_RESULT = "no result was recorded"
REST_US = 600_000_000
"""A conversation in which nothing happened for this long, in µs, is at rest."""
HISTORY_US = 14 * 24 * 3600 * 1_000_000
"""How old an imported call in doubt is, at least, for which nobody is asked any more."""
IMPORTED = "import:"
"""What the principal of everything begins with that was imported."""


class SettledCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was in doubt, and how it was settled."""

    call: str
    text: str
    """The call with its arguments: `pay(amount=5)`."""
    verdict: str
    """done, not done or run again."""
    by: str = ""
    why: str = ""
    seq: int = 0
    """Where that is recorded."""


def is_running(record: CallRecord) -> bool:
    """Whether a call was begun here and has no outcome."""
    return record.status in ("requested", "started") and not record.elsewhere


def unknown(record: CallRecord) -> bool:
    """Whether a call without an outcome may have changed something."""
    return record.effect == "write"


def waits(record: CallRecord) -> bool:
    """Whether a call of this session waits for a person's word."""
    return record.status == "awaiting approval" and not record.elsewhere


def left_open(record: CallRecord, row: SessionRow) -> CallRecord:
    """A call that gets no outcome any more, as readers show it: a write may have happened, so it is in doubt; a read
    changed nothing, so it is cancelled and nobody has to find out more."""
    return msgspec.structs.replace(
        record, status=fate(record.effect), cause=record.cause or cause_of(row)
    )


def left_by_dead(commit: Commit) -> bool:
    """Whether a commit records what a program left open when it died. Another program wrote it, at any time later, so
    it does not say when an agent was at work."""
    return commit.actor == "system" and commit.cause == DIED


def fate(effect: str) -> CallStatus:
    """How a call is shown that gets no outcome any more."""
    return "in doubt" if effect == "write" else "cancelled"


def cause_of(row: SessionRow) -> str:
    """Why the open calls of a session get no outcome any more. Where no hook reports when an agent begins and ends,
    only that no result came is known."""
    if row.record.mode != "recorded":
        return DIED
    return NO_RESULT if row.record.status == "open" else AGENT_ENDED


def is_history(row: SessionRow, principal: str, when: int, now: int) -> bool:
    """Whether a call in doubt is too old to ask a person about: it was imported, or its session has no hooks, and it
    was made more than 14 days ago."""
    imported = principal.startswith(IMPORTED) or row.record.status == "open"
    return row.record.mode == "recorded" and imported and now - when > HISTORY_US


def is_cut_off(row: SessionRow) -> bool:
    """Whether the program of a session died and nobody took it up since: its driver is gone, or that was recorded."""
    if row.shown == "interrupted":
        return True
    record = row.record
    return record.mode == "driven" and record.status == "paused" and record.reason == DIED
