"""Runs histories by their seeds, and makes the shortest history that still fails of one that failed.

A history is told twice, to a store in a file and to one in memory; the laws at the end are checked on
one of them, mostly the file, and both must give the same answers. From a shell:

    python -m laws.campaign FIRST COUNT        (in the folder tests)
"""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from laws.histories import Step, history
from laws.laws_at_the_end import Counted, check_all, check_same_answers
from laws.teller import telling

LONG_EVERY = 150
"""One history of so many has hundreds of turns and more than a megabyte of content."""
LONG_STEPS = 300
MEMORY_EVERY = 8
SCRIPT_MAX = 8_000
"""Characters of a script that is printed; a longer one is named by its seed."""
RAM = Path("/dev/shm")


@dataclass
class Failure:
    """A history that broke a law."""

    seed: int
    steps: list[Step]
    error: BaseException

    @property
    def sign(self) -> str:
        return sign(self.error)

    def __str__(self) -> str:
        shown = "\n".join(f"    {step!r}," for step in self.steps)
        script = f"from laws.campaign import run_history\n\nrun_history([\n{shown}\n], {self.seed})"
        if len(script) > SCRIPT_MAX:
            script = f"python -m laws.campaign {self.seed} 1"
        where = "".join(traceback.format_tb(self.error.__traceback__)[-2:])
        head = (
            f"seed {self.seed}, {len(self.steps)} steps: {type(self.error).__name__} {self.error}"
        )
        return f"{head}\n\n{script}\n\n{where}"


@dataclass
class Report:
    """What a campaign did."""

    histories: int = 0
    steps: int = 0
    seconds: float = 0
    counted: Counted = field(default_factory=Counted)
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        done = self.counted
        return (
            f"{self.histories} histories, {self.steps} steps, {done.sessions} sessions, "
            f"{done.positions} positions, {done.pairs} pairs compared, "
            f"{done.renderings} cut logs continued, {self.seconds:.0f} s, "
            f"{len(self.failures)} failures"
        )


def steps_of(seed: int) -> list[Step]:
    """The history of a seed; a few are long."""
    if seed % LONG_EVERY == LONG_EVERY - 1:
        return history(seed, steps=LONG_STEPS, big=True)
    return history(seed)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: the disk is not what is tested here."""
    path = Path(tempfile.mkdtemp(prefix="laws-", dir=RAM if RAM.is_dir() else None))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def run_history(steps: list[Step], seed: int, counted: Counted | None = None) -> None:
    """Tell a history to both stores and check every law; `Contradiction` names the first that is broken."""
    rng = random.Random(seed)
    in_memory = seed % MEMORY_EVERY == 1  # that store computes everything again for each question
    with (
        folder() as path,
        telling(path, path, watch=not in_memory) as filed,
        telling(None, path, watch=in_memory) as remembered,
    ):
        filed.tell(steps)
        remembered.tell(steps)
        for teller in (filed, remembered):
            teller.leave()
            teller.note()
        if seed % 4 == 0:  # caches are nothing but caches
            filed.store.port.rebuild()
        if seed % 4 == 2:
            filed.place.reopen()
        check_same_answers(filed, remembered)
        check_all(remembered if in_memory else filed, rng, counted or Counted())


def sign(error: BaseException) -> str:
    """What tells one failure from another: the message without ids and numbers."""
    words = re.sub(r"[0-9a-f]{8,}|\d+", "", str(error))
    return f"{type(error).__name__} {words[:30]}"


def failure_of(steps: list[Step], seed: int, counted: Counted | None = None) -> Failure | None:
    try:
        run_history(steps, seed, counted)
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt) and not str(error):
            raise
        return Failure(seed, steps, error)
    return None


def shortest(failure: Failure, seconds: float = 40) -> Failure:
    """Leave out steps, many at once and then one by one, as long as the same law is broken."""
    until = time.monotonic() + seconds
    size = max(1, len(failure.steps) // 2)
    while size:
        place = 0
        while place < len(failure.steps) and time.monotonic() < until:
            fewer = failure.steps[:place] + failure.steps[place + size :]
            found = failure_of(fewer, failure.seed)
            if found is not None and found.sign == failure.sign:
                failure = found
            else:
                place += size
        size //= 2
    return failure


def run(first: int, count: int, *, stop_after: int = 5, tell: int = 0) -> Report:
    """The histories of so many seeds; each kind of failure is made short once. `tell`: after so many, how far it is."""
    report = Report()
    began = time.monotonic()
    for seed in range(first, first + count):
        steps = steps_of(seed)
        failure = failure_of(steps, seed, report.counted)
        report.histories += 1
        report.steps += len(steps)
        report.seconds = time.monotonic() - began
        if tell and report.histories % tell == 0:
            print(report, flush=True)
        if failure is not None and failure.sign not in {f.sign for f in report.failures}:
            report.failures.append(shortest(failure))
            print(report.failures[-1], flush=True)
            if len(report.failures) >= stop_after:
                break
    return report


def main() -> int:
    first, count = (int(word) for word in sys.argv[1:3])
    report = run(first, count, stop_after=50, tell=100)
    print(report)
    return 1 if report.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
