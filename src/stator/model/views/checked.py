"""Decides whether a step of the plan reads done or claimed, and which shell commands prove a check. Pure.

A record that says `done` says what the agent says. A step reads done only if its check, a command, succeeded after
the last change of its files; else it reads claimed. Nothing of this is stored: readers work it out from the calls
and the changes that the log holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from stator.model.exchange.shell_effects import parts_of_success
from stator.model.records.types import Entry, PlanRecord, ReadStep, Record

Ending = Literal["ok", "failed"]
STEPS = {"claimed": -1, "in_progress": 0, "blocked": 1, "pending": 2, "done": 3, "dropped": 4}
"""Statuses of steps in the order in which a brief lists them."""
NO_CHECK = "it names no check"
NOT_RUN = "its check did not run"
_FAILED = frozenset({"error", "timeout"})
"""Statuses of a call that ran and failed; one that was denied, cancelled or is in doubt says nothing."""
_BLANKS = re.compile(r"""('[^']*'|"(?:[^"\\]|\\.)*"|\\.)|\\\n|[ \t]+""")
_PATTERN = re.compile(r"[*?\[]")
_HARMLESS = frozenset({"echo", "printf", "true", ":", "date", "pwd", "ls"})
"""Commands that change no file."""
_PREFIXES = frozenset({"builtin", "command"})
_EXIT_CODES = ("exit_code", "exitCode", "returncode", "return_code", "exit_status", "exit")
ROW_MAX = 8
"""Commands of a line, joined by `&&`, that a check may be."""


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


# -- which calls count ----------------------------------------------------------------------------


def tidy(command: str) -> str:
    """A command without blanks around it, and with one blank where there are several; what is quoted stays."""
    return _BLANKS.sub(lambda found: found.group(1) or " ", command).strip()


def ending_of(
    check: str, command: str, status: str, output: Any, folders: Sequence[str] = ()
) -> Ending | None:
    """What a call says of a check: that it succeeded, that it failed, or nothing.

    A part of a command line succeeded if the line did and could not have succeeded without it: as in `a && check`,
    but not in `check | tail` or `check || true`. A line that failed may have failed in any part, so one that holds
    the check counts as failed. After a `cd` to a folder other than `folders`, it is another check.
    """
    wanted = tidy(check)
    if not wanted or wanted not in tidy(command):
        return None
    holds = tidy(command) == wanted or wanted in _parts(command, folders)
    if not holds:
        return None
    if status in _FAILED or (status == "ok" and _exit_code(output) != 0):
        return "failed"
    return "ok" if status == "ok" else None


def ends_with(command: str, check: str) -> bool:
    """Whether nothing that could change a file comes after a check in a command line."""
    rest = tidy(command).rpartition(tidy(check))[2]
    words = [part.split() for part in re.split(r"&&|[;\n]", rest) if part.strip()]
    return ">" not in rest and all(part[0] in _HARMLESS for part in words)


def is_named(path: str, names: Sequence[str]) -> bool:
    """Whether a file is one that a step names: by its folder, or by a pattern."""
    return any(
        name == "."
        or path.startswith(name.rstrip("/") + "/")
        or (_PATTERN.search(name) is not None and fnmatchcase(path, name))
        for name in names
    )


def _parts(command: str, folders: Sequence[str]) -> set[str]:
    """The commands, and rows of commands, of a line that certainly succeeded if the line did, in the same folder."""
    parts = [tidy(part) for part in parts_of_success(command)]
    moves = (place for place, part in enumerate(parts) if _leaves(part, folders))
    here = next(moves, len(parts) - 1) + 1
    return {
        " && ".join(parts[first:last])
        for first in range(here)
        for last in range(first + 1, min(len(parts), first + ROW_MAX) + 1)
    }


def _leaves(part: str, folders: Sequence[str]) -> bool:
    """Whether a command goes to another folder than the session's, or changes what the commands after it mean."""
    words = part.split(" ")
    while len(words) > 1 and (words[0] in _PREFIXES or "=" in words[0]):
        del words[0]
    if words[0] == "set":
        return any("n" in word.partition("pipefail")[0] for word in words[1:])
    if words[0] == "hash":
        return True
    stays = len(words) == 2 and words[1].strip("'\"").rstrip("/") in (".", *folders)
    return words[0] == "cd" and not stays


def _exit_code(output: Any) -> int:
    """The exit code that a structured output names; 0 if it names none."""
    if not isinstance(output, Mapping):
        return 0
    places = (output, output.get("metadata"))
    codes = (
        place[name]
        for place in places
        if isinstance(place, Mapping)
        for name in _EXIT_CODES
        if name in place
    )
    return next((code for code in codes if type(code) is int), 0)
