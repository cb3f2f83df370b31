"""Decides whether a step of the plan reads done or claimed. Pure.

A record that says `done` says what the agent says. A step reads done only if its check, a command, succeeded after
the last change of its files; else it reads claimed. Neither is stored: readers work it out from the runs of checks
and the changes that the log holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from stator.model.exchange.check_lines import Ending, tidy
from stator.model.records.types import Entry, PlanRecord, ReadStep, Record

STEPS = {"claimed": -1, "in_progress": 0, "blocked": 1, "pending": 2, "done": 3, "dropped": 4}
"""Statuses of steps in the order in which a brief lists them."""
NO_CHECK = "it names no check"
NOT_RUN = "its check did not run"
_PATTERN = re.compile(r"[*?\[]")


class CheckRun(msgspec.Struct, frozen=True):
    """A call that ran the check of a step: the seq where it began, how it ended, the call's id, and whether the check
    was the end of its line, so that what the call changed was changed before the check or by it."""

    seq: int
    ending: Ending
    call: str = ""
    is_last: bool = True


class FileChanged(msgspec.Struct, frozen=True):
    """The change of a file: where it is in the log, and by which call, if that is known."""

    seq: int
    path: str
    call: str = ""


def read_step(
    step: PlanRecord,
    runs: Iterable[CheckRun],
    changes: Iterable[FileChanged],
    unknown: str = "",
    *,
    rewound: int = 0,
) -> ReadStep:
    """A step that its record calls done, as readers show it.

    `runs` are the calls of its check, `changes` those of its files; `unknown` says why not all of them are known.
    Then the step is claimed: what was not looked at proves nothing. A rewind, at `rewound`, undoes what is recorded
    of files and not the files, so a check before it proves nothing of them.
    """
    if not tidy(step.check):
        return _read(step, "claimed", NO_CHECK)
    last = max(runs, key=lambda run: run.seq, default=None)
    if last is None:
        return _read(step, "claimed", unknown or NOT_RUN)
    if last.ending == "failed":
        return _read(step, "claimed", f"its check failed at @{last.seq}", last.seq)
    if rewound > last.seq:
        return _read(step, "claimed", "rewound since the check", rewound)
    later = [
        change
        for change in changes
        if change.seq > last.seq and not (last.is_last and change.call and change.call == last.call)
    ]
    if later:
        newest = max(later, key=lambda change: (change.seq, change.path))
        return _read(step, "claimed", f"changed since the check: {newest.path}", newest.seq)
    if unknown:
        return _read(step, "claimed", unknown, last.seq)
    return _read(step, "done", "", last.seq)


def read_alone(entry: Entry) -> Entry:
    """An entry of a plan as readers show it, where no step has a check."""
    step = entry.record
    if not isinstance(step, PlanRecord) or step.status != "done":
        return entry
    return msgspec.structs.replace(entry, record=read_step(step, (), ()))


def _read(step: PlanRecord, status: Literal["done", "claimed"], why: str, seq: int = 0) -> ReadStep:
    fields = msgspec.structs.asdict(step) | {"status": status, "because": why, "shown_by": seq}
    return ReadStep(**fields)


# -- how steps are listed --------------------------------------------------------------------------


def in_plan(entry: Entry) -> tuple[int, int, int]:
    """The order for the next session: what is claimed to be done; what is to be done; then what is done, the newest
    first."""
    record = entry.record
    if not isinstance(record, PlanRecord):
        return len(STEPS), 0, 0
    place = STEPS[record.status]
    if place < 0:
        return place, record.order, -entry.seq
    return (3, place, -entry.seq) if place >= STEPS["done"] else (0, record.order, place)


def reason(record: Record) -> str:
    """Why a step reads claimed, in our words alone: without what was recorded."""
    return record.because.partition(": ")[0] if isinstance(record, ReadStep) else ""


def is_named(path: str, names: Sequence[str]) -> bool:
    """Whether a file is one that a step names: by its folder, or by a pattern."""
    return any(
        name == "."
        or path.startswith(name.rstrip("/") + "/")
        or (_PATTERN.search(name) is not None and fnmatchcase(path, name))
        for name in names
    )
