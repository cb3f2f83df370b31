"""Checks that a program to run was typed after `--`, where a word without it may also be meant as a turn."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import partial

from stator.errors import BadQuery

NAMES = {"resume": 1, "retry": 1}
"""Commands that may run a program, and how many words before it name what they are about."""
_TURN = re.compile(r"t-?\d+(?:\.\d+)?\Z")


def after_dashes(words: Sequence[str], ready: partial[int]) -> partial[int]:
    """The command as it was typed; `retry SESSION t2` as `retry SESSION:t2`."""
    most = NAMES.get(words[0])
    if most is None or "--" in words or len(ready.args) <= most:
        return ready
    named, rest = ready.args[:most], [str(one) for one in ready.args[most:]]
    if words[0] == "retry" and len(rest) == 1 and _TURN.match(rest[0]) and ":" not in named[0]:
        return partial(ready.func, f"{named[0]}:{rest[0]}", **ready.keywords)
    typed = shlex.join(["stator", words[0], *map(str, named)])
    if _TURN.match(rest[0]):
        raise BadQuery(f"unexpected argument {rest[0]!r:.60}", hint=typed)
    raise BadQuery("a program comes after --", hint=f"{typed} -- {shlex.join(rest)}")
