"""How one command is used: its help as the parser makes it, on a screen of sensible width."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console

from stator.surfaces.cli.render.screen import widths

if TYPE_CHECKING:
    from cyclopts import App

WIDTH_MAX = 100
"""Columns prose is read in comfortably."""


def print_help(app: App, command: str) -> None:
    """Print a command's help; rich alone would take $COLUMNS at its word, even 0."""
    width = min(WIDTH_MAX, widths(sys.stdout.isatty())[0])
    app.help_print([command], console=Console(width=width, highlight=False))
