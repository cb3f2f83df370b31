"""Decides what a turn with a key is: new, answered from the record, continued, or tried again.

A key belongs to a session. Under it there are attempts; an attempt has several parts if it was
continued after later turns had begun. The last attempt decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from stator.model.calls.known import Known
from stator.model.log.commit import CONTINUED, CONTINUES, Commit
from stator.model.log.query import TurnRow
from stator.model.records.tables import ONCE

Fate = Literal["new", "reused", "continued"]
WAITS = (
    "ApprovalNeeded",
    "BudgetSpent",
    "InDoubt",
    "KeyboardInterrupt",
    "LeaseLost",
    "Paused",
    "SystemExit",
    "left",
)
"""Causes of an interruption that a later run may find gone: what was recorded is not to blame."""
WAITING = ("awaiting approval", "in doubt")
"""Statuses of a call that a person has to do something about."""
RECORDED = frozenset({"call", "outcome", "entry", "settlement", "approval"}) | ONCE
"""Kinds of commits by which a turn gets further."""


class TurnPart(msgspec.Struct, frozen=True):
    """A recorded turn number of an attempt, and the commit that began it."""

    row: TurnRow
    first: Commit


class Attempt(msgspec.Struct, frozen=True):
    """One attempt at the turn of a key."""

    parts: list[TurnPart]

    @property
    def first(self) -> Commit:
        """The commit that began it: the turn's id is this one's."""
        return self.parts[0].first

    @property
    def row(self) -> TurnRow:
        """Where it was last worked on."""
        return self.parts[-1].row


def attempts(parts: Iterable[TurnPart]) -> list[Attempt]:
    """The attempts that these parts make, in the order of the log."""
    found: dict[int, Attempt] = {}
    for part in parts:
        begun = part.first.inputs[0] if part.first.inputs else 0
        if part.first.status == CONTINUES and isinstance(begun, int) and begun in found:
            found[begun].parts.append(part)
        else:
            found[part.first.seq] = Attempt([part])
    return list(found.values())


def fate(tried: Sequence[Attempt], *, new: bool) -> Fate:
    """What a turn is whose key has these attempts; `new`: its program asks for another attempt."""
    if new or not tried or tried[-1].row.status == "aborted":
        return "new"
    return "reused" if tried[-1].row.status == "ok" else "continued"


def is_stuck(log: Sequence[Commit]) -> bool:
    """Whether the attempt with these commits was continued and interrupted again without getting any further:
    what is on record makes its program fail. One with a call that waits for a person does not; one that opened a
    sub-agent is never begun again, because a new attempt would not know what that one wrote."""
    begun = [n for n, commit in enumerate(log) if commit.kind == "turn"]
    again = [n for n in begun if log[n].status in (CONTINUED, CONTINUES)]
    ends = [commit for commit in log if commit.kind == "turn_end"]
    waits = any(call.status in WAITING for call in Known(log).calls)
    opened = any(commit.kind == "child" for commit in log)
    if waits or opened or not again or not ends or ends[-1].cause.partition(":")[0] in WAITS:
        return False
    return not any(commit.kind in RECORDED and _own(commit) for commit in log[again[-1] :])


def _own(commit: Commit) -> bool:
    """Whether a commit is of the turn's own work, or about a call of it."""
    return bool(commit.epoch) or commit.kind in ("settlement", "approval")
