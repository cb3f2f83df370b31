"""Detects commits that other processes append to a driven session (pause requests, budget changes).

Other processes contribute to a session while it is driven: a pause request, a budget, an approval.
The driver notices them without asking the store: every append returns the seq it got, and a seq
that is higher than the driver's own commits explain means that another process wrote.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from stator.errors import Paused
from stator.model.log.commit import Commit
from stator.store.port import StorePort

PAGE = 1000


class OutsideRequests:
    """Counts a driver's own commits, notices those of others and remembers their requests."""

    def __init__(self, store: StorePort, session: str, run: str, seq: int) -> None:
        self._store, self._session, self._run = store, session, run
        self._lock = threading.Lock()
        self._base = self._read = seq
        self._own = self._flying = self._foreign = 0
        self.asked: Paused | None = None
        """The request of another process that the run end here."""
        self.changed: Callable[[], None] = lambda: None
        """Called when another process changed what the session may spend."""
        self.planned: Callable[[], None] = lambda: None
        """Called when another process changed the plan, or recorded a run of a check."""

    def sending(self, count: int) -> None:
        """This many commits are being appended; which seqs they get is not known yet."""
        with self._lock:
            self._flying += count

    def failed(self, count: int) -> None:
        with self._lock:
            self._flying -= count

    def landed(self, commits: Sequence[Commit]) -> None:
        """These are in the log. Reads what others wrote, if their seqs show that others did."""
        with self._lock:
            count = len(commits)
            self._flying -= count
            self._own += count
            # Several threads of this driver may append at once. What the others have sent counts
            # as known, though it may not be in the log: at worst, a foreign commit is noticed at
            # the next append instead of this one.
            known = self._base + self._own + self._flying + self._foreign
            last = commits[-1].seq
        if last > known:
            self._look(last)

    def look(self) -> None:
        """Read what others wrote, also while this driver writes nothing."""
        self._look(self._store.head(self._session).seq)

    def _look(self, upto: int) -> None:
        with self._lock:
            after, self._read = self._read, max(self._read, upto)
        while after < upto:
            page = self._store.commits(
                self._session, after=after, upto=upto, limit=PAGE, load=False
            )
            for commit in page:
                if commit.run != self._run:
                    self._heard(commit)
            after = page[-1].seq if page else upto

    def _heard(self, commit: Commit) -> None:
        with self._lock:
            self._foreign += 1
        if commit.kind == "pause_request":
            reason = commit.cause or "user"
            self.asked = Paused(
                f"session {self._session} was asked to pause: {reason}",
                reason=reason,
                hint="run again to continue where it stopped",
                session=self._session,
            )
        elif commit.kind == "budget":
            self.changed()
        elif commit.kind in ("plan", "check"):
            self.planned()
