"""Sessions: modes, the lifecycle and who may append what when.

Decisions only. A session is open → active ⇄ paused → closed → archived; "interrupted" is not a
status but how an active session without a live driver is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from stator.errors import (
    BadBudget,
    BadText,
    Busy,
    Conflict,
    InvalidInput,
    LeaseLost,
    WrongState,
)
from stator.model.records.tables import AFTER_THE_END, CONTRIBUTIONS
from stator.model.records.types import Mode, Segment, Status

TRANSITIONS: dict[str, dict[str, Status]] = {
    "run": {"open": "active", "active": "active"},
    "resume": {"paused": "active", "closed": "active", "active": "active"},
    "pause": {"open": "paused", "active": "paused", "paused": "paused"},
    "close": {"open": "closed", "active": "closed", "paused": "closed"},
    "archive": {"closed": "archived"},
}
"""The one table of legal transitions: commit kind → status before → status after."""

ENDED: frozenset[Status] = frozenset({"closed", "archived"})
AFTER_CLOSE = "after close"
"""The cause of what a witness brings to a session that was closed; its own cause follows it, after a colon."""
NOT_TOLD = "not in the transcript"
"""The cause of what a witness saw and the transcript of the session never mentions."""

SHOWN = (*get_args(Status), "interrupted", "silent")
"""The statuses that people see (`SessionRow.shown`)."""
REASONS = ("user", "done", "budget", "error", "lease lost", "process died")
"""Why a session was paused or closed."""

BUDGET_UNITS = ("tokens", "calls", "turns", "seconds")
"""Plain budget units; money is `money:usd` and the like, in micro-units."""
_BUDGET_MAX = 2**53 - 1


def lent_upto(lineage: Sequence[Segment]) -> int:
    """The last seq that others lend to a log of that lineage; its own begins after it."""
    return lineage[-1].upto if lineage else 0


def is_witnessed(mode: Mode, origin: tuple[str, str] | None, epoch: int) -> bool:
    """Whether a commit is what a witness saw: hooks, a transcript or the proxy.

    In a recorded session only they set an origin: contributors and agents that report over MCP have none.
    In a driven session a driver sets one too, for what its model asked for, so there it proves nothing.
    """
    return mode == "recorded" and origin is not None and not epoch


def is_after_close(kind: str, status: Status) -> bool:
    """Whether what a witness brings comes after the end of the session. An agent that starts again is no such
    thing: it resumes the session, unless that is archived."""
    return status in ENDED and (kind, status) != ("resume", "closed")


def cause_after_close(cause: str) -> str:
    """The cause that is recorded for what came after close."""
    return f"{AFTER_CLOSE}: {cause}" if cause else AFTER_CLOSE


def split_cause(cause: str) -> tuple[bool, str]:
    """Whether a commit came after close, and its own cause."""
    mark, _, own = cause.partition(": ")
    return (True, own) if mark == AFTER_CLOSE else (False, cause)


def _way_out(session: str, status: Status) -> str:
    """How work continues that a session does not take any more: an archived one is not opened again."""
    fork = f"stator fork {session}"
    return fork if status == "archived" else f"{fork}, or stator resume {session} --reopen"


def check_transition(
    kind: str, status: Status, session: str, *, witnessed: bool = False
) -> Status | None:
    """The status after a commit of that kind, None if it does not change, or `WrongState`.

    To close a session is a statement, not a gate: what witnesses bring is accepted after it, and changes no
    status.
    """
    if witnessed and is_after_close(kind, status):
        return None
    ended = status == "archived" or (status == "closed" and kind != "archive")
    if ended and kind not in AFTER_THE_END:
        raise WrongState(
            f"session {session} is {status}: it takes no {kind}",
            hint=_way_out(session, status),
            session=session,
            status=status,
        )
    table = TRANSITIONS.get(kind)
    if table is None:
        return None
    if status not in table:
        raise WrongState(
            f"session {session} cannot {kind} while {status}",
            hint=f"{kind} is possible from: {', '.join(table)}",
            session=session,
            status=status,
        )
    return table[status]


def check_lease(*, mode: Mode, kind: str, epoch: int, current: int, session: str) -> None:
    """Refuse what the lease does not cover: a displaced driver, or a driver's kind without one.

    `epoch` is what the appender claims (0 = none), `current` what the session's row says.
    """
    if epoch and epoch != current:
        raise LeaseLost(
            f"session {session} is now driven by another program (epoch {current}, not {epoch})",
            hint="open it again; the refused append was not written",
            session=session,
            epoch=epoch,
        )
    if mode != "driven" or epoch or kind in CONTRIBUTIONS:
        return
    raise LeaseLost(
        f"a {kind} in session {session} needs the lease",
        hint="open the session to drive it",
        session=session,
    )


def driven(record: Any, holder: Any) -> Busy:
    """The error for importing commits into a session with a live driver."""
    return Busy(
        f"session {record.name!r:.80} is driven by {holder.program or 'a program'}",
        holder=holder,
        hint="nothing was imported; try again when it is done",
        session=record.id,
    )


COPIES = "(copies)"
"""The project whose session notes what was copied into a store, and what was purged where it came from. It stays in its
store."""


def check_purge(record: Any, project: Any, heirs: Sequence[str], moved: bool = False) -> None:
    """Refuse a purge outside its own project, or one that would remove more than was decided. `record` is the
    session to be purged, `project` the project's own session or that which notes copies, `heirs` the sessions that
    continue its log; `moved` says whether commits were appended since the decision.
    """
    own = project.project in (record.project, COPIES) and project.tenant == record.tenant
    if record.mode == "project" or not own:
        raise InvalidInput(
            f"session {record.id} belongs to another project and cannot be purged here",
            hint="a project's own session purges that project's sessions, and never itself",
            session=record.id,
        )
    if heirs:
        raise Conflict(
            f"session {record.id} cannot be purged: {len(heirs)} forks continue from its log",
            hint="purge them first: " + ", ".join(heirs[:3]),
            session=record.id,
        )
    if moved:
        raise Conflict(
            f"session {record.id} cannot be purged: it has changed since that was decided",
            hint="make a new plan: stator gc",
            session=record.id,
        )


def check_budget(budget: dict[Any, Any]) -> dict[str, int]:
    """A budget with known units and positive whole limits, else `BadBudget`."""
    for unit, limit in budget.items():
        known = isinstance(unit, str) and (unit in BUDGET_UNITS or unit.startswith("money:"))
        if not known:
            raise BadBudget(
                f"unknown budget unit {unit!r}",
                path=f"$.{unit}",
                hint="use tokens, calls, turns, seconds or money:usd (in micro-units)",
            )
        if type(limit) is not int or not 0 < limit <= _BUDGET_MAX:
            raise BadBudget(
                f"a limit must be a whole number above 0, got {limit!r:.40}", path=f"$.{unit}"
            )
    return budget


NAME_MAX = 300


def check_name(name: object) -> str:
    """A session name: free text, but not empty, blank, huge or with a NUL."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidInput("a session needs a name", hint="any short text", path="$.name")
    if len(name) > NAME_MAX or "\0" in name:
        raise InvalidInput(
            f"a session name has at most {NAME_MAX} characters and no NUL", path="$.name"
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise BadText("a session name cannot hold a lone surrogate", path="$.name") from None
    return str.__str__(name)


def recorded_status(shown: str | None) -> str | None:
    """What sessions that are shown with this status may be recorded as; None if that says nothing: one that is
    recorded as active or open can be shown as interrupted or paused."""
    return {"interrupted": "active", "silent": "active", "paused": None}.get(shown or "", shown)
