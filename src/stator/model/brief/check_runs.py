"""Finds the checks that a session ran: tests, linters, type checkers and builds, and how each ended last. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stator.model.brief.command_words import QUOTED, VERBAL, check_in, gist
from stator.model.brief.condense import beginning
from stator.model.brief.story import RESULT_MAX, Deed

UNKNOWN = "ran"
"""How a check ended of which only that is known."""
CHECK_SHOWN = 80
"""Characters of a check as it is shown."""
_COUNTS = re.compile(
    r"\b\d[\d,]*\s+(?:tests?\s+)?(?:passed|passing|failed|failing|failures?|errors?|warnings?|skipped|tests?|examples?"
    r"|doctests?|specs?|issues?|problems?|vulnerabilities)\b(?:\s*\(\d+\))?",
    re.IGNORECASE,
)
_OF_ONE_FILE = re.compile(r"^.*[\w-]+\.[a-z]{1,4}\b.*\(\d+ tests?\b.*$", re.MULTILINE)
"""A line that counts the tests of one file."""


def checks(deeds: Sequence[Deed]) -> list[tuple[str, Deed]]:
    """The newest run of each check, the newest first, with the command that it is."""
    newest: dict[str, tuple[str, Deed]] = {}
    for deed in deeds:
        for words in deed.steps if deed.status else ():
            if check_in(words):
                check = gist(words) if words[0] in VERBAL else words[0]
                newest.pop(check, None)
                newest[check] = (beginning(" ".join(words), CHECK_SHOWN), deed)
    return list(newest.values())[::-1]


def check_ending(deed: Deed) -> str:
    """How a check ended: what its result counts, and its status, which means nothing behind a pipe."""
    tail = _OF_ONE_FILE.sub("", deed.result[-RESULT_MAX:])
    counts = list(dict.fromkeys(" ".join(found.split()) for found in _COUNTS.findall(tail)))[-3:]
    status = {"ok": "ok", "error": "failed"}.get(deed.status, deed.status)
    piped = deed.act is not None and re.search(r"\|(?!\|)", QUOTED.sub("", deed.act.text))
    return ", ".join(
        [
            *(
                [UNKNOWN]
                if piped and status == "ok" and not counts
                else [status]
                if not piped
                else []
            ),
            *counts,
        ]
    )
