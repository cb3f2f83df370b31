"""A store that loses answers, as a connection does: for the contract suite, and for tests of what uses a store.

It asks a real store, and fails at chosen calls with `StoreUnreachable`:

- `before`: the request never arrived, and nothing happened;
- `after`: it was carried out, and the answer was lost;
- `late`: it was on its way when the connection broke, and arrives only before the next write.

A store carries out an append whole or not at all. So a connection that breaks while a request is carried out shows
as one of the three.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from stator.errors import StatorError, StoreUnreachable
from stator.model.sessions.ownership import Ownership
from stator.store.port import StorePort

When = Literal["before", "after", "late"]
WRITES = frozenset({"create", "acquire", "release", "append", "ingest", "sync", "rebuild"})
NOT_ASKED = frozenset({"close", "logs", "audit"})
"""Methods that never fail here: what they give is read bit by bit, or nothing."""
FOREVER = 1_000_000_000


@dataclass
class FaultPlan:
    """Which calls fail: those from the `at`-th on that are counted, `faults` of them in a row. Calls are counted
    from 1; `methods` says which count (none named: all writes)."""

    at: int = 0
    when: When = "before"
    faults: int = 1
    methods: frozenset[str] = frozenset()
    left: int = field(init=False)
    counted: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.left = self.faults

    def fault(self, method: str) -> When | None:
        """Whether and how this call fails."""
        if method not in (self.methods or WRITES):
            return None
        self.counted += 1
        if not self.at or self.counted < self.at or not self.left:
            return None
        self.left -= 1
        return self.when

    def heal(self) -> None:
        """From now on every call is answered."""
        self.left = 0


class FaultyStore:
    """A store whose answers are lost where a plan says so. `store` is the one behind the connection; several
    connections, one after the other, may have the same."""

    remote = True
    needs_tenant = False

    def __init__(self, store: StorePort, plan: FaultPlan | None = None) -> None:
        self.behind = store
        self.plan = plan or FaultPlan()
        self.asked: list[str] = []
        """The writes that were asked for, in order."""
        self._late: list[Callable[[], Any]] = []

    @property
    def ownership(self) -> Ownership:
        return self.behind.ownership

    @ownership.setter
    def ownership(self, ownership: Ownership) -> None:
        self.behind.ownership = ownership

    @property
    def wrote(self) -> Callable[[], object]:
        return self.behind.wrote

    @wrote.setter
    def wrote(self, wrote: Callable[[], object]) -> None:
        self.behind.wrote = wrote

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.behind, name)
        if name in NOT_ASKED or not callable(found):
            return found

        @functools.wraps(found)
        def asked(*args: Any, **kwargs: Any) -> Any:
            return self._ask(name, lambda: found(*args, **kwargs))

        return asked

    def _ask(self, method: str, carry_out: Callable[[], Any]) -> Any:
        if method in WRITES:
            self.asked.append(method)
            self.deliver()
        when = self.plan.fault(method)
        if when == "after":
            carry_out()
        elif when == "late":
            self._late.append(carry_out)
        if when is None:
            return carry_out()
        raise StoreUnreachable(f"no answer to {method}")

    def deliver(self) -> None:
        """What was on its way arrives now; nobody hears the answer."""
        late, self._late = self._late, []
        for carry_out in late:
            with contextlib.suppress(StatorError):
                carry_out()


def faulty(store: StorePort, plan: FaultPlan | None = None) -> StorePort:
    """The same, as a store."""
    return cast("StorePort", FaultyStore(store, plan))
