"""Says why a call failed: the cause that is recorded, and the line of its output that says what failed. Pure.

Programs print much before they fail. Their counts of failures, the last exception and the first error say more than
the beginning. Only the first and the last few KB of an output are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stator.model.values.late_pattern import late

ENDS = 6_000
"""Characters at the beginning and at the end of an output that are looked at."""
LINE_MAX = 500
"""Longer lines are no words of a program: they are code, data or a page."""
HEAD_ROWS = 8
"""Lines at the beginning of an output among which it may be announced."""
SAYS_FAILURE = re.compile(
    r"error|fail|fatal|denied|not found|no such|cannot|can't|unable|refused|rejected|invalid|unexpected|exception"
    r"|timed? ?out|nothing to commit|ignored",
    re.IGNORECASE,
)
"""What a line holds that says that something went wrong."""
_COUNTED = late(
    r"(?<![\w.])[1-9][\d,]*\s(?:of \d+ )?(?:[a-z]+ )?(?:failed|failures?|failing|errors?)\b"
    r"|\b(?:failures?|errors?|failed)\s?[=:]\s?[1-9]",
    re.IGNORECASE,
)
"""12 tests, 12 failures · 2 failed, 11 passed · Found 49 errors · FAILED (failures=1)"""
_RAISED = late(r"(?:\*\* \(|Uncaught )?(?:[A-Za-z_][\w.]{0,120})?(?:Error|Exception)\b(?!\S*\()")
"""json.decoder.JSONDecodeError: … · ** (CompileError) … · Error: Cannot find module"""
_MARKED = late(
    r"\b(?:error|fatal|panic(?:ked)?)\b(?: ?\[?[A-Z]{0,4}\d+\]?)?: *\S|\bFAIL(?:ED)?\b|\A[×✗✘] ",
    re.IGNORECASE,
)
"""fatal: not a git repository · a.ts(5,3): error TS2339: … · FAILED tests/test_a.py"""
_CODE = late(r"exit code \d{1,5}", re.IGNORECASE)
MARKS = ("×", "✗", "✘")
"""How programs begin the line of a test that failed."""
_TAG = late(r"<(\w*(?:error|output|stderr|stdout|result)\w*)>", re.IGNORECASE)
_COLOURS = late(r"\x1b\[[0-9;]{0,20}m")


def failure_text(cause: str, said: str) -> str:
    """Why a call failed, from the cause that is recorded and what came back: each thing once, without empty lines. Of
    much that came back, the line that says what failed."""
    if "\\n" in cause and "\n" not in cause:  # some agents write a whole error in one line
        cause, said = cause.replace("\\n", "\n"), _ends(said).replace("\\n", "\n")
    causes, rows = _rows(cause), _printed(_rows(_ends(_untagged(said))))
    first = causes[0] if causes else ""
    if (
        rows and first and rows[0].startswith(first.removesuffix("…"))
    ):  # "Exit code 1", then what happened
        rows[0] = rows[0] if first.endswith("…") else rows[0][len(first) :].lstrip(" :")
        first = "" if first.endswith("…") else first
    known = {first, *causes}
    left = list(dict.fromkeys(row for row in rows if row and row not in known))
    rest = [*causes[1:], *left]
    if len(rest) > 1 and (line := telling(rest)):
        after = rest[rest.index(line) + 1 :]
        code = [rest[0]] if _CODE.fullmatch(rest[0]) and rest[0] != line else []
        rest = [*code, f"{line} {after[0]}" if line.endswith(":") and after else line]
    return ": ".join(filter(None, (first.rstrip(": "), "\n".join(rest))))


def telling(rows: Sequence[str]) -> str:
    """The line of an output that says what failed: the last count of failures, else the last exception, else the first
    error; empty if none does."""
    short = [row for row in rows if len(row) <= LINE_MAX]
    likely = [row for row in short if _is_likely(row.lower())]
    for row in reversed(likely):
        if _COUNTED.search(row):
            return row
    for row in reversed(likely):
        if _RAISED.match(row):
            return row
    marked = (row for row in likely if _MARKED.search(row))
    return next(marked, "") or next((row for row in short if SAYS_FAILURE.search(row)), "")


def _is_likely(row: str) -> bool:
    """Whether one of the patterns may match a row of small letters: they take longer to say no."""
    return (
        "err" in row
        or "fail" in row
        or "except" in row
        or "fatal" in row
        or "panic" in row
        or row[:1] in MARKS
    )


def _ends(text: str) -> str:
    """The beginning and the end of a text."""
    return text if len(text) <= 2 * ENDS else f"{text[:ENDS]}\n{text[-ENDS:]}"


def _untagged(text: str) -> str:
    """A text without the tag around it that only models read."""
    found = _TAG.match(text.lstrip()[:100])
    if found is None:
        return text
    return text.strip().removeprefix(found[0]).removesuffix(f"</{found[1]}>")


def _rows(text: str) -> list[str]:
    """The lines of a text that say something."""
    return [row for line in _COLOURS.sub("", text).split("\n") if (row := line.strip())]


def _printed(rows: list[str]) -> list[str]:
    """What a program printed, without what its tool says before that."""
    for place, row in enumerate(rows[:HEAD_ROWS]):
        if row == "Output:":
            return rows[place + 1 :]
    return rows
