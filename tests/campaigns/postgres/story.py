"""One session of a round: driven by one process after the other until all is paid, through whatever breaks.

The first driver has a fate at the moment of the fault. Others continue its session with the same program. A person
settles what is in doubt by what is true, after every driver of the session has ended.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from campaigns.postgres.laws import Promises, broken_in, log_of
from campaigns.postgres.ledger import Ledger
from campaigns.postgres.stores import open_store
from reliability.support import Worker
from stator.errors import StoreUnreachable
from stator.runtime.facade.store import Store

Fate = Literal["stays", "killed", "stopped", "silent"]
"""What happens to the first driver: nothing; it is killed, and another takes its session; it is stopped, another takes
its session, and it continues; it is stopped, and another waits until it counts as silent."""
DRIVERS_MAX = 12
STORY_S = 180.0


@dataclass
class Story:
    """One session. `start` starts a driver with a busy mode; `url` is where a person looks."""

    name: str
    fate: Fate
    start: Callable[[str], Worker]
    kind: str
    url: str
    ledger: Ledger
    wanted: set[str]
    promises: Promises = field(default_factory=Promises)
    violations: list[str] = field(default_factory=list)
    opened: threading.Event = field(default_factory=threading.Event)
    broken: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    """Set when one server leads again. Before that a person could look at an old primary that still runs."""
    acked_s: list[float] = field(default_factory=list)
    """When commits were acknowledged, on the test's clock."""

    def run(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.violations.append(f"{self.name}: {type(error).__name__}: {error}")
        finally:
            self.opened.set()

    def _run(self) -> None:
        end = time.monotonic() + STORY_S
        first = self.start("fail")
        listening = threading.Thread(target=self._listen, args=[first])
        listening.start()
        self.broken.wait(STORY_S)
        if self.fate == "stays":
            listening.join()
        elif self.fate == "killed":
            first.kill()
            listening.join()
            self._take_over("take")
        else:
            _signal(first, signal.SIGSTOP)
            # It continues while the other is in the middle of its work.
            self._take_over(
                "take" if self.fate == "stopped" else "wait",
                opened=lambda: _signal(first, signal.SIGCONT),
            )
            _signal(first, signal.SIGCONT)
            listening.join()
        first.close()
        for _ in range(DRIVERS_MAX):
            if self._looked_after(end):
                return
            if time.monotonic() > end:
                break
            self._drive("take")
        self.violations.append(f"{self.name} does not end: {dict(self.promises.ends)}")

    def _take_over(self, busy: str, opened: Callable[[], object] = lambda: None) -> None:
        """Another driver continues, started again by its supervisor while the store cannot be reached."""
        has_opened = threading.Event()

        def open_then() -> None:
            has_opened.set()
            opened()

        for _ in range(DRIVERS_MAX):
            self._drive(busy, open_then)
            if has_opened.is_set():
                return
            time.sleep(0.5)

    def _looked_after(self, end: float) -> bool:
        """A person looks at the session, as soon as the store can be reached: whether it has ended."""
        self.over.wait(STORY_S)
        while True:
            try:
                with open_store(self.kind, self.url) as store:
                    self._examine(store)
                    self._settle(store)
                    return self._has_ended(store)
            except StoreUnreachable:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)

    def _drive(self, busy: str, opened: Callable[[], object] = lambda: None) -> None:
        """Start a driver and wait for its end; `opened` is called when it has the session."""
        worker = self.start(busy)
        try:
            self._listen(worker, opened)
        finally:
            worker.close()

    def _listen(self, worker: Worker, opened: Callable[[], object] = lambda: None) -> None:
        while (report := worker.hear()) is not None:
            self.promises.take(report)
            if "open" in report:
                self.opened.set()
                opened()
            if "acks" in report:
                self.acked_s.append(time.monotonic())
            if "done" in report or "error" in report:
                ended = report.get("done") or report["error"]
                self.promises.ends[ended] += 1
                if "error" in report:
                    self.promises.errors.append(report["what"])
                self.opened.set()

    # -- while nobody drives it -------------------------------------------------------------------

    def _examine(self, store: Store) -> None:
        self.violations += [f"{self.name}: {what}" for what in self._broken(store)]

    def _broken(self, store: Store) -> Iterator[str]:
        yield from broken_in(store, self.promises, self.ledger.paid())

    def _settle(self, store: Store) -> None:
        """A person settles what is in doubt, by what is true. What is ordered again did not happen, and every driver
        that could still do it has ended: it must happen once all the same."""
        if not self.promises.session:
            return
        paid = self.ledger.paid()
        for doubt in store.doubts.open(self.promises.session):
            what = doubt.arguments["what"]
            self.promises.doubts += 1
            if paid[what]:
                store.doubts.settle(doubt.call, "done", what)
            else:
                store.doubts.settle(doubt.call, "run again")

    def _has_ended(self, store: Store) -> bool:
        """Whether a run ended in order, which it may have without an answer; then all must be paid."""
        if not self.promises.session:
            return False
        log = log_of(store.port, self.promises.session)
        if not any(commit.kind == "run_end" and commit.status == "ok" for commit in log):
            return False
        for what in self.wanted - self.ledger.paid().keys():
            self.violations.append(f"ended, and not paid: {what}")
        return True


def _signal(worker: Worker, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended by itself
        worker.signal(number)
