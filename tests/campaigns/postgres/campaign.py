"""Rounds of a campaign: sessions are driven, something breaks, it is repaired, and the laws are checked."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from campaigns.postgres.laws import doubled, unequal
from campaigns.postgres.ledger import Ledger
from campaigns.postgres.pair import Pair
from campaigns.postgres.story import Fate, Story
from reliability.support import Worker, Zygote

FATES: tuple[Fate, ...] = ("stays", "killed", "stopped")
SILENT_EVERY = 8
"""Every so many rounds the stopped driver is not taken from: another waits until it counts as silent (15 s)."""
TURNS, PAYS = 5, 3
FAULT_S_MAX = 0.8
TIME_S = float(os.environ.get("STATOR_FAILOVERS_S", "1500"))
"""How long a campaign may begin new rounds."""


@dataclass
class Tally:
    """What a campaign counted."""

    rounds: int = 0
    acks: int = 0
    paid: int = 0
    doubts: int = 0
    displaced: int = 0
    drivers: Counter[str] = field(default_factory=Counter)
    recovered_s: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def line(self) -> str:
        times = sorted(self.recovered_s) or [0.0]
        median, most = times[len(times) // 2], times[-1]
        return (
            f"{self.rounds} rounds, {self.acks} acknowledged, {self.paid} paid, {self.doubts} in doubt,"
            f" {self.displaced} displaced, drivers {dict(self.drivers)},"
            f" fault to acknowledgement {median:.2f} s median, {most:.2f} s at most;"
            f" {len(self.violations)} violations"
        )


class Campaign:
    """Drives sessions over a pair of servers while faults happen."""

    def __init__(
        self, pair: Pair, zygote: Zygote, folder: Path, *, kind: str, urls: Sequence[str], look: str,
        seed: int = 1, namespace: str = "", beside: Callable[[], str] = str,
    ) -> None:  # fmt: skip
        """`urls` are those of the drivers, by turns; `look` is the one that checks use. Drivers run in `namespace`;
        the first of a session that is to stay, in the one that `beside` names."""
        self.pair, self.zygote, self.kind = pair, zygote, kind
        self._urls, self._look = urls, look
        self._namespace, self._beside = namespace, beside
        self._ledger_path = folder / "ledger"
        self.ledger = Ledger(self._ledger_path)
        self.random = random.Random(seed)
        self._lock = threading.Lock()
        self._started = 0
        self._broke_s = 0.0
        self.tally = Tally()

    def numbers(self, rounds: int) -> Iterator[int]:
        """So many rounds, or as many as are begun in the time there is."""
        end = time.monotonic() + TIME_S
        for number in range(rounds):
            if time.monotonic() > end:
                return
            yield number

    def round(self, fault: Callable[[], object], repair: Callable[[], object]) -> None:
        """One round. `fault` breaks something and makes the store usable again; `repair` happens after all sessions
        have ended, and leaves both servers whole."""
        number = self.tally.rounds = self.tally.rounds + 1
        stories = [self._story(number, fate) for fate in self._fates(number)]
        threads = [threading.Thread(target=story.run) for story in stories]
        for thread in threads:
            thread.start()
        for story in stories:
            story.opened.wait(60)
        time.sleep(self.random.random() * FAULT_S_MAX)
        self._broke_s = time.monotonic()
        try:
            with self._breaking(stories):
                fault()
        finally:
            for story in stories:
                story.over.set()
            for thread in threads:
                thread.join()
        self._count(stories)
        try:
            repair()
        except TimeoutError as error:
            error.add_note(f"{self.tally.line()}: {self.tally.violations}")
            raise
        self.tally.violations += [f"round {number}: {what}" for what in unequal(self.pair)]

    def broke(self) -> None:
        """The fault happened now: from here on time is counted until a session is written again."""
        self._broke_s = time.monotonic()

    @contextlib.contextmanager
    def _breaking(self, stories: list[Story]) -> Iterator[None]:
        """The fates of drivers happen a little before or after the fault."""
        timers = [
            threading.Timer(self.random.random() * 0.1, story.broken.set) for story in stories
        ]
        for timer in timers:
            timer.start()
        try:
            yield
        finally:
            for timer in timers:
                timer.join()

    def _fates(self, number: int) -> list[Fate]:
        if number % SILENT_EVERY == 0:
            return ["stays", "killed", "silent"]
        return list(FATES)

    def _story(self, number: int, fate: Fate) -> Story:
        name = f"r{number}-{fate}"
        wanted = {f"{name}/{n}/{k}" for n in range(TURNS) for k in range(PAYS)}

        def start(busy: str) -> Worker:
            with self._lock:
                at = self._started = self._started + 1
                own = self._beside() if fate == "stays" and busy == "fail" else ""
                # The pooler is on the machine of the other drivers.
                url = self._urls[0 if own else at % len(self._urls)]
                return self.zygote.start(
                    "drive", self.kind, url, self._ledger_path, name,
                    TURNS, PAYS, busy, own or self._namespace,
                )  # fmt: skip

        return Story(name, fate, start, self.kind, self._look, self.ledger, wanted)

    def _count(self, stories: list[Story]) -> None:
        tally = self.tally
        paid = self.ledger.paid()
        for story in stories:
            promises = story.promises
            tally.acks += len(promises.acks)
            tally.doubts += promises.doubts
            tally.displaced += sum(1 for lease in promises.leases if lease[3])
            tally.drivers += promises.ends
            tally.errors.update(error for error in promises.errors)
            tally.violations += story.violations
            later = [at - self._broke_s for at in story.acked_s if at > self._broke_s]
            tally.recovered_s += later[:1]
        tally.paid = sum(paid.values())
        # Each is reported once, in the round in which it happened.
        tally.violations += [what for what in doubled(paid) if what not in tally.violations]
