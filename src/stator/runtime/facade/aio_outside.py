"""The asynchronous twins of `runtime.facade.outside`: approvals, budgets, lifecycle and doubts, awaited."""

from __future__ import annotations

from stator.runtime.facade.aio_pool import Pool
from stator.runtime.facade.awaited import AsyncTwin, awaited
from stator.runtime.facade.doors import OutsideDoors
from stator.runtime.facade.outside import Approvals, Budgets, Doubts, Lifecycle


class AsyncApprovals(AsyncTwin[Approvals]):
    """`Approvals`, awaited."""

    waiting = awaited(Approvals.waiting)
    approve = awaited(Approvals.approve)
    deny = awaited(Approvals.deny)
    grant = awaited(Approvals.grant)
    grants = awaited(Approvals.grants)
    revoke = awaited(Approvals.revoke)


class AsyncBudgets(AsyncTwin[Budgets]):
    """`Budgets`, awaited."""

    spent = awaited(Budgets.spent)
    spent_tree = awaited(Budgets.spent_tree)
    limits = awaited(Budgets.limits)
    check = awaited(Budgets.check)
    change = awaited(Budgets.change)


class AsyncLifecycle(AsyncTwin[Lifecycle]):
    """`Lifecycle`, awaited."""

    pause = awaited(Lifecycle.pause)
    close = awaited(Lifecycle.close)
    archive = awaited(Lifecycle.archive)
    resume = awaited(Lifecycle.resume)


class AsyncDoubts(AsyncTwin[Doubts]):
    """`Doubts`, awaited."""

    open = awaited(Doubts.open)
    settle = awaited(Doubts.settle)


class AsyncOutsideDoors:
    """`OutsideDoors`: getting one of these objects asks nothing of the store, so it is not awaited."""

    _sync: OutsideDoors
    _pool: Pool

    @property
    def approvals(self) -> AsyncApprovals:
        """Calls that wait for a person's approval, and the grants that answer them."""
        return AsyncApprovals(self._sync.approvals, self._pool)

    @property
    def budgets(self) -> AsyncBudgets:
        """What sessions have spent, and their limits."""
        return AsyncBudgets(self._sync.budgets, self._pool)

    @property
    def lifecycle(self) -> AsyncLifecycle:
        """Pausing, closing, archiving and resuming sessions that this program does not drive."""
        return AsyncLifecycle(self._sync.lifecycle, self._pool)

    @property
    def doubts(self) -> AsyncDoubts:
        """Calls in doubt, whose outcome was not recorded, and settling them."""
        return AsyncDoubts(self._sync.doubts, self._pool)
