"""Prints the help of one command: every text is wrapped once, to the width of the terminal.

The parser collects what there is to show (usage, description, options); the layout is ours. Its own formatters wrap
text that is wrapped already, and read `:name:` in it as an emoji.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

from stator.surfaces.cli.commands import examples
from stator.surfaces.cli.render.columns import paragraphs, rows, wrap
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.width import widths

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.help import HelpEntry, HelpPanel

WIDTH_MAX = 100
"""Columns prose is read in comfortably."""
COMMAND_MAX = 50
"""Columns of an example that has its explanation beside it."""


def print_help(app: App, command: str) -> None:
    """Print the help of a command, the examples last."""
    from rich.console import Console

    width = min(WIDTH_MAX, widths(sys.stdout.isatty())[0])
    with Screen(pager=False) as screen:
        app.help_formatter = Layout(screen, width)
        app.help_print([command], console=Console(width=width, markup=False, emoji=False))
        screen.line(Line("Examples:", "title"))
        screen.lines(example_lines(examples(command), width))


class Layout:
    """A help formatter for the parser: it is called with each part of the help, in order."""

    def __init__(self, screen: Screen, width: int) -> None:
        self._screen, self._width = screen, width

    def render_usage(self, console: Any, options: Any, usage: Any) -> None:
        self._screen.lines([*wrap(f"Usage: {_text(usage)}", self._width), ""])

    def render_description(self, console: Any, options: Any, description: Any) -> None:
        self._screen.lines([*paragraphs(_text(description), self._width), ""])

    def __call__(self, console: Any, options: Any, panel: HelpPanel) -> None:
        if panel.entries:
            self._screen.line(Line(f"{_text(panel.title)}:", "title"))
            pairs = [(_label(entry), _explanation(entry)) for entry in panel.entries]
            self._screen.lines([*rows(pairs, self._width), ""])


def _label(entry: HelpEntry) -> str:
    names = ", ".join(entry.display_labels_with_metavar)
    return names.replace(" STR", " TEXT").replace(" FLOAT", " NUMBER")


def _explanation(entry: HelpEntry) -> str:
    choices = f"[choices: {', '.join(entry.choices)}]" if entry.choices else ""
    required = "[required]" if entry.required else ""
    return " ".join(part for part in (_text(entry.description), choices, required) if part)


def _text(part: Any) -> str:
    """What the parser hands over, as the plain text it was made from."""
    if part is None or isinstance(part, str):
        return part or ""
    plain = getattr(part, "plain", None) or getattr(part, "primary_renderable", "")
    return plain if isinstance(plain, str) else _text(plain)


def example_lines(text: str, width: int) -> list[str]:
    """Examples, each with its explanation beside it, or under it where there is no room."""
    pairs = []
    for line in text.strip().splitlines():
        command, _, explanation = line.partition("  ")
        pairs.append((command, explanation.strip()))
    made = list(rows(pairs, width, term_max=COMMAND_MAX))
    return [
        part
        for line in made
        for part in ([line] if len(line) <= width else _continued(line, width))
    ]


def _continued(command: str, width: int) -> list[str]:
    """A command too long for the width, over several lines as a shell reads it."""
    lines: list[str] = []
    for word in shlex.split(command, posix=False):
        if lines and len(lines[-1]) + len(word) + 3 <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"      {word}" if lines else f"  {word}")
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]
