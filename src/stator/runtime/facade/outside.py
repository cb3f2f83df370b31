"""What a person or another program does to sessions that it does not drive.

A store has one object for each of these jobs: `store.approvals`, `store.budgets`, `store.lifecycle` and
`store.doubts`. They belong to the store and not to a session or a turn, because an agent holds those: what an agent
holds must not be able to approve what the agent asks for.

Sessions are named as everywhere: by name, id or the end of an id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from stator.model.calls.approval import Scope, Verdict
from stator.model.calls.budget import Breach, parse_amounts
from stator.runtime.base.context import Context
from stator.runtime.driving import approvals, budgets, lifecycle, settlement
from stator.runtime.driving.approvals import Grant, Waiting
from stator.runtime.driving.budgets import Limit
from stator.runtime.driving.lifecycle import Moved
from stator.runtime.driving.settlement import Doubt, Settled
from stator.runtime.driving.settlement import Verdict as Settlement
from stator.runtime.views.as_read import as_read, for_one_answer, prices_in
from stator.runtime.views.project_state import conflicts
from stator.runtime.views.refs import find_session
from stator.store import port

if TYPE_CHECKING:  # loaded for a person's page alone
    from stator.runtime.views.glance.needs import Needs


class _Outside:
    """A store, and the principal in whose name things are recorded unless a caller names another."""

    def __init__(self, store: port.StorePort, context: Context) -> None:
        self._store = store
        self._context = context

    def _by(self, by: str) -> str:
        return by or self._context.principal

    def _id(self, name: str) -> str:
        return find_session(self._store, name, project=self._context.project or None).id

    def _id_or_none(self, name: str | None) -> str | None:
        return None if name is None else self._id(name)


BEHIND_MAX = 200
"""Sessions that the index of projects may lack: reading more of them takes longer than a person waits."""


def person_needs(store: port.StorePort, context: Context, *, project: str | None = None) -> Needs:
    """What waits for a person in a store or a project, with the answers that no driver has seen yet; what runs there,
    and what ended lately."""
    from stator.runtime.views.glance.needs import needs

    now = context.clock()
    reading = for_one_answer(as_read(store, context))
    found = needs(reading, now, project=project, prices=prices_in(reading))
    answered = [
        replace(
            one, answer=approvals.waiting_call(reading, context, one.row, one.record, now).answer
        )
        for one in found.approvals
    ]
    projects = dict.fromkeys([context.project, *found.projects] if project is None else [project])
    disagreed = conflicts(store, context, projects, behind_max=BEHIND_MAX)
    return replace(found, approvals=answered, conflicts=disagreed)


class Approvals(_Outside):
    """Calls that wait for a person's approval, and the grants that answer them."""

    def waiting(self, session: str | None = None, *, project: str | None = None) -> list[Waiting]:
        """The calls of a session, a project or the whole store that wait for an answer, longest first."""
        now = self._context.clock()
        found = self._id_or_none(session)
        return approvals.waiting(
            self._store, now=now, session=found, project=project, context=self._context
        )

    def approve(
        self,
        call: str,
        *,
        by: str = "",
        scope: Scope = "once",
        pattern: str = "",
        expires: int = 0,
        why: str = "",
    ) -> Grant:
        """Let a waiting call run, by its id or the end of it; a wider scope or a pattern answers later calls too.

        Such a grant proves no person: a call whose rule demands a `proof` keeps waiting for `stator approve`.
        """
        return approvals.approve(
            self._store, self._context, call,
            by=self._by(by), scope=scope, pattern=pattern, expires=expires, why=why,
        )  # fmt: skip

    def deny(
        self,
        call: str,
        *,
        by: str = "",
        scope: Scope = "once",
        pattern: str = "",
        expires: int = 0,
        why: str = "",
    ) -> Grant:
        """Refuse a waiting call; `why` is shown to the agent."""
        return approvals.deny(
            self._store, self._context, call,
            by=self._by(by), scope=scope, pattern=pattern, expires=expires, why=why,
        )  # fmt: skip

    def grant(
        self,
        session: str,
        pattern: str,
        *,
        by: str = "",
        verdict: Verdict = "approved",
        scope: Scope = "session",
        expires: int = 0,
        why: str = "",
    ) -> Grant:
        """Approve or deny in advance every call that matches a pattern, in a session or in its project."""
        return approvals.grant(
            self._store, self._context, self._id(session), pattern,
            by=self._by(by), verdict=verdict, scope=scope, expires=expires, why=why,
        )  # fmt: skip

    def grants(self, session: str | None = None, *, project: str | None = None) -> list[Grant]:
        """Every grant of a session, a project or the whole store, also those that no longer answer a call."""
        now = self._context.clock()
        found = self._id_or_none(session)
        return approvals.grants(
            self._store, now=now, session=found, project=project, context=self._context
        )

    def revoke(self, grant: str, *, by: str = "", project: str | None = None) -> Grant:
        """Withdraw a grant, by its id or the end of it."""
        return approvals.revoke(self._store, self._context, grant, by=self._by(by), project=project)


class Budgets(_Outside):
    """What sessions have spent, and their limits."""

    def spent(self, session: str) -> dict[str, int]:
        """What a session itself has spent, by unit."""
        return budgets.spent(self._store, self._id(session))

    def spent_tree(self, session: str) -> dict[str, int]:
        """What a session and all its children have spent, each counted once."""
        return budgets.spent_tree(self._store, self._id(session))

    def limits(self, session: str) -> list[Limit]:
        """The budgets that hold for a session: its own first, then those of its parents."""
        return budgets.limits(self._store, self._id(session))

    def check(self, session: str) -> Breach | None:
        """The first limit that is used up; None if the session may continue."""
        return budgets.check(self._store, self._id(session))

    def change(self, session: str, *amounts: str, by: str = "") -> dict[str, int]:
        """Change a session's limits, also while it is driven: `change("shop", "+2usd", "turns=none")`."""
        wanted = parse_amounts(amounts)
        return budgets.change(
            self._store, self._context, self._id(session), wanted, by=self._by(by)
        )


class Lifecycle(_Outside):
    """Pausing, closing, archiving and resuming sessions from outside."""

    def pause(self, session: str, *, reason: str = "user", by: str = "") -> Moved:
        """Pause a session. A live driver is asked to stop, which it does at its next call."""
        return lifecycle.pause(
            self._store, self._context, self._id(session), reason=reason, by=self._by(by)
        )

    def close(self, session: str, *, reason: str = "done", by: str = "") -> Moved:
        """Close a session: it accepts no more turns until it is resumed. `Busy` while it is driven."""
        return lifecycle.close(
            self._store, self._context, self._id(session), reason=reason, by=self._by(by)
        )

    def archive(self, session: str, *, reason: str = "done", by: str = "") -> Moved:
        """Archive a closed session: it can be read and forked, and never driven again."""
        return lifecycle.archive(
            self._store, self._context, self._id(session), reason=reason, by=self._by(by)
        )

    def resume(self, session: str, *, reason: str = "user", by: str = "") -> Moved:
        """Reopen a closed session: it is paused, until a program drives it."""
        return lifecycle.resume(
            self._store, self._context, self._id(session), reason=reason, by=self._by(by)
        )


class Doubts(_Outside):
    """Calls in doubt, whose outcome was not recorded, and settling them."""

    def open(self, session: str | None = None, *, project: str | None = None) -> list[Doubt]:
        """The calls in doubt of a session, a project or the whole store."""
        found = self._id_or_none(session)
        return settlement.doubts(
            as_read(self._store, self._context), session=found, project=project
        )

    def settle(
        self,
        call: str,
        verdict: Settlement,
        value: Any = UNSET,
        *,
        by: str = "",
        why: str = "",
        session: str | None = None,
    ) -> Settled:
        """Record the outcome of a call: it was "done" (`value` is its result), "not done", or is to "run again".

        `session` names a fork that inherited the call, to settle the fork's own copy.
        """
        return settlement.settle(
            self._store, self._context, call, verdict,
            by=self._by(by), value=value, why=why, session=self._id_or_none(session),
        )  # fmt: skip
