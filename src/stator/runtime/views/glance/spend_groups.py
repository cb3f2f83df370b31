"""Sums up what sessions spent: by day, week or month, by agent, project or model, or each session for itself.

The page Cost and `stator cost` show these sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, timedelta

import msgspec

from stator.model.calls.costs import MONEY, added, with_unpriced
from stator.runtime.views.spend_ledger import SessionSpend, SpendPart

_CACHED = "tokens:cache_read"

GroupName = Callable[[SessionSpend, SpendPart | None], str]
"""Names the group that a part of what a session spent belongs to; without a part, a session that spent nothing."""


class SpendGroup(msgspec.Struct, kw_only=True):
    """What one day, agent, project, model or session cost."""

    name: str
    sessions: int = 0
    """Sessions with recorded usage."""
    silent: int = 0
    """Sessions of which nothing is known: they report no usage."""
    spend: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, spend: dict[str, int]) -> None:
        """Add what a part cost. If it has no money, its tokens have no price, and the sum shows that it lacks them."""
        self.spend = added(self.spend, with_unpriced(spend))

    @property
    def money(self) -> int:
        return sum(amount for unit, amount in self.spend.items() if unit.startswith(MONEY))

    @property
    def tokens(self) -> int:
        """Tokens without those that were read from a cache."""
        return max(0, self.spend.get("tokens", 0) - self.spend.get(_CACHED, 0))


def grouped(spent: Iterable[SessionSpend], name: GroupName) -> list[SpendGroup]:
    """Groups by name, the one that cost most first. A session that belongs to several counts in each of them."""
    found: dict[str, SpendGroup] = {}
    for one in spent:
        parts = {name(one, part) for part in one.parts} or {name(one, None)}
        for each in parts:
            group = found.setdefault(each, SpendGroup(name=each))
            group.sessions += bool(one.parts)
            group.silent += not one.parts
        for part in one.parts:
            found[name(one, part)].add(part.spend)
    return sorted(found.values(), key=lambda one: (-one.money, -one.tokens, one.name))


def summed(spent: Iterable[SessionSpend]) -> SpendGroup:
    """What all of them cost."""
    whole = SpendGroup(name="")
    for one in spent:
        whole.sessions += bool(one.parts)
        whole.silent += not one.parts
        for part in one.parts:
            whole.add(part.spend)
    return whole


def day_of(part: SpendPart | None) -> str:
    """2026-11-15; empty where it is not known."""
    return part.day if part is not None else ""


def week_of(part: SpendPart | None) -> str:
    """The Monday of its week."""
    day = day_of(part)
    if not day:
        return ""
    found = date.fromisoformat(day)
    return (found - timedelta(days=found.weekday())).isoformat()


def month_of(part: SpendPart | None) -> str:
    """2026-11"""
    return day_of(part)[: len("2026-11")]
