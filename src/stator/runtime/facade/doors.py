"""Gives a store its four objects for work from outside: approvals, budgets, lifecycle and doubts.

Their code is loaded when one of them is first used: opening and reading a store does without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.runtime.base.context import Context
from stator.store import port

if TYPE_CHECKING:
    from stator.runtime.facade.outside import Approvals, Budgets, Doubts, Lifecycle


class OutsideDoors:
    """The part of a store for people and other programs: approvals, budgets, lifecycle and calls in doubt."""

    port: port.StorePort
    context: Context

    @property
    def approvals(self) -> Approvals:
        """Calls that wait for a person's approval, and the grants that answer them."""
        from stator.runtime.facade.outside import Approvals

        return Approvals(self.port, self.context)

    @property
    def budgets(self) -> Budgets:
        """What sessions have spent, and their limits."""
        from stator.runtime.facade.outside import Budgets

        return Budgets(self.port, self.context)

    @property
    def lifecycle(self) -> Lifecycle:
        """Pausing, closing, archiving and resuming sessions that this program does not drive."""
        from stator.runtime.facade.outside import Lifecycle

        return Lifecycle(self.port, self.context)

    @property
    def doubts(self) -> Doubts:
        """Calls in doubt, whose outcome was not recorded, and settling them."""
        from stator.runtime.facade.outside import Doubts

        return Doubts(self.port, self.context)
