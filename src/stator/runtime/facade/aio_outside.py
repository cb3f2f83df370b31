"""The asynchronous twins of `runtime.facade.outside`: approvals, budgets, lifecycle and doubts, awaited."""

from __future__ import annotations

from stator.runtime.facade.aio_pool import Pool
from stator.runtime.facade.awaited import awaited
from stator.runtime.facade.doors import OutsideDoors
from stator.runtime.facade.outside import Approvals, Budgets, Doubts, Lifecycle


class AsyncApprovals:
    """`Approvals`, awaited."""

    def __init__(self, approvals: Approvals, pool: Pool) -> None:
        self._sync = approvals
        self._pool = pool

    waiting = awaited(Approvals.waiting)
    approve = awaited(Approvals.approve)
    deny = awaited(Approvals.deny)
    grant = awaited(Approvals.grant)
    grants = awaited(Approvals.grants)
    revoke = awaited(Approvals.revoke)


class AsyncBudgets:
    """`Budgets`, awaited."""

    def __init__(self, budgets: Budgets, pool: Pool) -> None:
        self._sync = budgets
        self._pool = pool

    spent = awaited(Budgets.spent)
    spent_tree = awaited(Budgets.spent_tree)
    limits = awaited(Budgets.limits)
    check = awaited(Budgets.check)
    change = awaited(Budgets.change)


class AsyncLifecycle:
    """`Lifecycle`, awaited."""

    def __init__(self, lifecycle: Lifecycle, pool: Pool) -> None:
        self._sync = lifecycle
        self._pool = pool

    pause = awaited(Lifecycle.pause)
    close = awaited(Lifecycle.close)
    archive = awaited(Lifecycle.archive)
    resume = awaited(Lifecycle.resume)


class AsyncDoubts:
    """`Doubts`, awaited."""

    def __init__(self, doubts: Doubts, pool: Pool) -> None:
        self._sync = doubts
        self._pool = pool

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
