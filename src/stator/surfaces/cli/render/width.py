"""Decides how wide and how high output may be: `$COLUMNS`, the terminal's own width, or a fixed width for pipes.

Imports nothing but `os` and `sys`, because `stator --help` uses it too. (`shutil.get_terminal_size` would load four
compression libraries.)
"""

from __future__ import annotations

import os
import sys

PIPE_WIDTH, PIPE_MAX = 100, 240
"""Columns that piped output is laid out for, and the length its lines are cut at, unless $COLUMNS is set."""
WIDTH_MIN, WIDTH_MAX = 20, 400
ROWS = 24
"""The height of a terminal that does not say its own."""


def widths(is_terminal: bool) -> tuple[int, int]:
    """The width of the layout, and the width at which lines are cut."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and len(given) < 6 and int(given):
        width = int(given)
    elif is_terminal:
        width = _terminal_columns()
    else:
        return PIPE_WIDTH, PIPE_MAX
    width = max(WIDTH_MIN, min(WIDTH_MAX, width))
    return width, width


def _terminal_columns() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or PIPE_WIDTH
    except (OSError, ValueError):
        return PIPE_WIDTH


def rows() -> int:
    """How many lines the terminal shows: `$LINES`, its own height, or 24."""
    given = os.environ.get("LINES", "")
    if given.isdecimal() and len(given) < 6 and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).lines or ROWS  # type: ignore[union-attr]
    except (AttributeError, OSError, ValueError):
        return ROWS
