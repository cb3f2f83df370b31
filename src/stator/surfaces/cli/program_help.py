"""Lays out `stator --help`. Imports only plain data and plain text functions, because help must print fast."""

from __future__ import annotations

from stator.surfaces.cli.registry import ABOUT, COMMANDS, GROUPS, NAMING, OPTIONS, USAGE
from stator.surfaces.cli.render.columns import rows, wrap

WIDTH_MAX = 80
"""Maximum width of the help, in columns."""


def help_text(width: int = WIDTH_MAX) -> str:
    """What `stator --help` prints, laid out for at most `width` columns."""
    width, longest = min(width, WIDTH_MAX), max(map(len, COMMANDS))
    parts = [*wrap(USAGE, width), "", *wrap(ABOUT, width)]
    for group, commands in GROUPS.items():
        parts += ["", group, *rows(commands.items(), width, term_min=longest)]
    parts += ["", "Options", *rows(OPTIONS.items(), width)]
    parts += ["", "Naming things", *rows(NAMING.items(), width)]
    return "\n".join([*parts, ""])
