"""Checks the budgets that hold for a session, and changes them.

A child's spending counts against its own limits and those of every session above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from stator.errors import BudgetSpent, HeadMoved, NotFound
from stator.model.calls.budget import (
    Amount,
    Breach,
    apply,
    breach,
    total,
)
from stator.model.log.commit import Draft, Provenance, Upsert
from stator.model.values.ids import short
from stator.runtime.base.context import Context
from stator.runtime.views.spend import spent as spent
from stator.runtime.views.spend import spent_tree as spent_tree
from stator.store.port import StorePort

TRIES = 100
"""How often a change is tried again because another writer appended in between."""


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """A budget that holds for a session: its own, or that of a session above it."""

    session: str
    name: str
    budget: dict[str, int]


def limits(store: StorePort, session: str) -> list[Limit]:
    """The budgets that hold for a session: its own first, then those of the sessions above it."""
    found: list[Limit] = []
    seen: set[str] = set()
    above: str | None = session
    while above is not None and above not in seen:
        seen.add(above)
        try:
            record = store.session(above).record
        except NotFound:  # purged: it limits nothing any more
            break
        if record.budget:
            found.append(Limit(session=above, name=record.name, budget=record.budget))
        parent = record.parent
        above = parent.session if parent is not None and parent.kind == "child" else None
    return found


def check(
    store: StorePort,
    session: str,
    *,
    running: Mapping[str, int] | None = None,
    turns: bool = True,
) -> Breach | None:
    """The first limit that is used up, of the session or of one above it; None if work may continue.

    `running` is what is being spent and not recorded yet, such as the seconds of the open turn.
    Without `turns`, the limit on turns does not count: a turn that has begun may continue.
    """
    for limit in limits(store, session):
        used = total([spent_tree(store, limit.session), running or {}])
        holds = {unit: most for unit, most in limit.budget.items() if turns or unit != "turns"}
        found = breach(holds, used, limit.session)
        if found is not None:
            return found
    return None


def spent_up(store: StorePort, breach: Breach) -> BudgetSpent:
    """The error of a limit that is used up."""
    record = store.session(breach.session).record
    more = "+2" + breach.unit.removeprefix("money:") if ":" in breach.unit else f"{breach.unit}=…"
    return BudgetSpent(
        f"session {record.name!r:.80} has used up its budget: {breach}",
        breach=breach,
        hint=f"stator budget {short(breach.session)} {more} lets it go on",
        session=breach.session,
        unit=breach.unit,
    )


def change(
    store: StorePort, context: Context, session: str, amounts: Sequence[Amount], *, by: str
) -> dict[str, int]:
    """Change a session's limits, also while it is driven; the budget that holds then."""
    for _ in range(TRIES):
        try:
            return _change(store, context, session, amounts, by)
        except HeadMoved as error:
            moved = error
    raise moved


def _change(
    store: StorePort, context: Context, session: str, amounts: Sequence[Amount], by: str
) -> dict[str, int]:
    head = store.head(session)  # looked at first: what is read after it is at least as new
    record = store.session(session).record
    budget = apply(record.budget, amounts, spent_tree(store, session))
    if budget != record.budget:
        draft = Draft(
            id=context.mint("commit"),
            session=session,
            kind="budget",
            actor="user",
            principal=by,
            provenance=Provenance("user", "verified"),
            changes=(Upsert("session", msgspec.structs.replace(record, budget=budget)),),
        )
        store.append(session, [draft], if_head=head.hash, barrier=True)
    return budget
