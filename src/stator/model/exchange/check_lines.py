"""Decides which checks a command line ran, and how they ended. Pure.

A check is a command that proves a step of the plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from stator.model.exchange.items import Touch
from stator.model.exchange.shell_effects import files_touched, parts_of_success
from stator.model.records.types import LOOKS
from stator.model.values import paths
from stator.model.values.late_pattern import late

Ending = Literal["ok", "failed"]
RAN = ("ok", "error", "timeout")
"""Statuses of a call that ran; one that was denied, cancelled or is in doubt says nothing."""
_BLANKS = late(r"""('[^']*'|"(?:[^"\\]|\\.)*"|\\.)|\\\n|[ \t]+""")
_EXIT_CODES = ("exit_code", "exitCode", "returncode", "return_code", "exit_status", "exit")
_HARMLESS = frozenset({"echo", "printf", "true", ":", "date", "pwd", "ls"})
"""Commands that change no file."""
_PREFIXES = frozenset({"builtin", "command"})
ROW_MAX = 8
"""Commands of a line, joined by `&&`, that a check may be."""


def tidy(command: str) -> str:
    """A command without blanks around it, and with one blank where there are several; what is quoted stays."""
    if not command:  # most steps of a plan have no check
        return ""
    return _BLANKS.sub(lambda found: found.group(1) or " ", command).strip()


def ending_of(
    check: str, command: str, status: str, output: Any, folders: Sequence[str] = ()
) -> Ending | None:
    """What a call says of a check: that it succeeded, that it failed, or nothing."""
    wanted = tidy(check)
    if not wanted or wanted not in tidy(command) or wanted not in checks_in(command, folders):
        return None
    return ending(status, output)


def ending(status: str, output: Any) -> Ending | None:
    """How a call ended: an exit code in its output counts more than its status. None if it may not have run."""
    if status not in RAN:
        return None
    return "ok" if status == "ok" and _exit_code(output) == 0 else "failed"


def checks_in(command: str, folders: Sequence[str] = ()) -> list[str]:
    """The checks that a command line runs: those that succeeded if it did, and may have failed if it did.

    A part of a line succeeded if the line did and could not have succeeded without it: as in `a && check`, but not in
    `check | tail` or `check || true`. A line that failed may have failed in any part, so one that holds the check
    counts as failed. After a `cd` to a folder other than `folders`, it is another check.
    """
    parts = [tidy(part) for part in parts_of_success(command)]
    moves = (place for place, part in enumerate(parts) if _leaves(part, folders))
    here = next(moves, len(parts) - 1) + 1
    rows = [
        " && ".join(parts[first:last])
        for first in range(here)
        for last in range(first + 1, min(len(parts), first + ROW_MAX) + 1)
    ]
    return [line for line in dict.fromkeys((*rows, tidy(command))) if line]


def ends_with(command: str, check: str) -> bool:
    """Whether nothing that could change a file comes after a check in a command line."""
    rest = tidy(command).rpartition(tidy(check))[2]
    words = [part.split() for part in re.split(r"&&|[;\n]", rest) if part.strip()]
    return ">" not in rest and all(part[0] in _HARMLESS for part in words)


def written_by(command: str, root: str) -> list[str]:
    """The files that the words of a command line say it wrote, as they are called below `root`."""
    return written_paths(files_touched(command), root)


def written_paths(touched: Iterable[Touch], root: str) -> list[str]:
    """Those of touched files that were not only looked at, as they are called below `root`."""
    named = (
        paths.split(path, root)[1]
        for touch in touched
        if touch.op not in LOOKS
        for path in (touch.path, touch.from_path)
        if path
    )
    return list(dict.fromkeys(named))


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
