"""Keeps what a driver appended without an answer, and sends it again before anything else.

A run whose append was given up begins nothing more: neither the program nor the runtime can know what is on record.
What ended is still sent, after what is kept. Opened again, the session continues from its record.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

from stator.errors import StoreUnreachable
from stator.model.calls.unanswered import ends_something, to_send_again, to_send_now
from stator.model.log.commit import Commit, Draft


class Append(Protocol):
    def __call__(
        self, drafts: Sequence[Draft], if_head: str | None, fresh: bool
    ) -> list[Commit]: ...


class UnansweredAppends:
    """The appends of one run: those without an answer, and those that come after."""

    def __init__(self, session: str, append: Append) -> None:
        self._session = session
        self._append = append
        self._lock = threading.RLock()
        self.lost: StoreUnreachable | None = None
        """The answer that never came; from then on nothing begins."""
        self._waiting: list[Draft] = []

    def keep(self, drafts: Sequence[Draft], lost: StoreUnreachable) -> StoreUnreachable:
        """No answer came to the append of these drafts. The error that says so."""
        with self._lock:
            self._waiting += to_send_again(drafts)
            self.lost = lost
        return self._cut_off(lost)

    def keep_unsent(self, ending: Draft, lost: StoreUnreachable) -> StoreUnreachable:
        """A read that comes before the append of a call's end got no answer: the end, which is known here, is kept as
        if it had been sent; what ends nothing is not kept. The error that says so."""
        if not ends_something([ending]):
            return lost
        unsent = StoreUnreachable(
            f"{lost.what}; how {ending.tool or 'a call'} ended is kept, and sent before the run ends",
            commits=(ending.id,),
        )
        return self.keep([ending], unsent)

    def send(self, drafts: Sequence[Draft]) -> list[Commit]:
        """Append drafts after an answer was lost: what ends something, after what is kept; else `StoreUnreachable`."""
        assert self.lost is not None
        with self._lock:
            if not ends_something(drafts):
                raise self._cut_off(self.lost) from self.lost
            self._waiting = to_send_now(self._waiting, drafts)
            try:
                commits = self._append(self._waiting, None, fresh=False)
            except StoreUnreachable as lost:
                raise self._cut_off(lost) from lost
            self._waiting = []
            return commits[-len(drafts) :]

    def _cut_off(self, lost: StoreUnreachable) -> StoreUnreachable:
        return StoreUnreachable(
            lost.what,
            landed=lost.landed,
            commits=lost.commits,
            hint="nothing more begins in this run: leave the session and open it again, then it continues"
            " from its record; a write that has no outcome there is in doubt",
            session=self._session,
        )
