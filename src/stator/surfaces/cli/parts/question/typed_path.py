"""Finds where a path that a person typed may be recorded, and the lines named with it."""

from __future__ import annotations

import os
import re

from stator.connect import project_root
from stator.errors import BadQuery, InvalidInput
from stator.model.values import paths

_LINES = re.compile(r"(.+):([0-9]{1,9})(?:-([0-9]{1,9}))?", re.S)


def recorded_places(path: str) -> list[tuple[str, str]]:
    """Where a path may be recorded: as typed, relative to this folder, and as a whole."""
    root = str(project_root())
    try:
        typed = paths.split(path, root)
    except InvalidInput as error:
        raise InvalidInput(error.what, hint="name a file: src/auth.py") from None
    full = os.path.normpath(os.path.join(os.getcwd(), os.path.expanduser(path)))
    found = [typed, paths.split(full, root)]
    home = os.path.expanduser(paths.HOME)
    if full.startswith(home + "/"):  # an agent may have named it so
        found.append((paths.HOME, paths.HOME + full[len(home) :]))
    return list(dict.fromkeys([*found, ("/", full)]))


def with_lines(typed: str) -> tuple[str, tuple[int, int] | None]:
    """A path and the lines named after it: `FILE:12`, `FILE:10-20`. A file of exactly that name is the file."""
    found = _LINES.fullmatch(typed)
    if found is None or os.path.lexists(typed):
        return typed, None
    first, last = int(found[2]), int(found[3] or found[2])
    if not 0 < first <= last:
        raise BadQuery(f"{typed!r:.80} names no lines", hint="lines are FILE:12 or FILE:10-20")
    return found[1], (first, last)
