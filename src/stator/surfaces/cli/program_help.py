"""Lays out `stator --help`: the everyday commands, or with --all every one. Imports only plain data and plain text
functions, because help must print fast."""

from __future__ import annotations

from collections.abc import Iterator

from stator.surfaces.cli.registry import (
    ABOUT,
    COMMANDS,
    EVERYDAY,
    GROUPS,
    NAMING,
    OPTIONS,
    USAGE,
)
from stator.surfaces.cli.render.columns import rows, wrap

WIDTH_MAX = 80
"""Maximum width of the help, in columns."""

GLOSSED = {
    "show": "show (one session, turn or call)",
    "state": "state (facts, plan)",
    "tree": "tree (forks, sub-agents)",
    "sql": "sql (any question, also as CSV)",
}
"""Commands that people look for by another word than their names, with that word."""


def help_text(width: int = WIDTH_MAX, *, everything: bool = False) -> str:
    """What `stator --help` prints, or `stator --help --all`, laid out for at most `width` columns."""
    width = min(width, WIDTH_MAX)
    parts = [*wrap(USAGE, width), "", *wrap(ABOUT, width)]
    parts += _all_commands(width) if everything else _everyday(width)
    parts += ["", "Options", *rows(OPTIONS.items(), width)]
    parts += ["", "Naming things", *rows(NAMING.items(), width)]
    return "\n".join([*parts, ""])


def _all_commands(width: int) -> Iterator[str]:
    longest = max(map(len, COMMANDS))
    for group, commands in GROUPS.items():
        yield from ("", group, *rows(commands.items(), width, term_min=longest))


def _everyday(width: int) -> Iterator[str]:
    """The everyday commands by what they are for, then the names of the others by group."""
    named = [name for names in EVERYDAY.values() for name in names]
    longest = max(map(len, named))
    for group, names in EVERYDAY.items():
        pairs = ((name, COMMANDS[name]) for name in names)
        yield from ("", group, *rows(pairs, width, term_min=longest))
    others = (
        (group, " ".join(GLOSSED.get(name, name) for name in names if name not in named))
        for group, names in GROUPS.items()
    )
    yield from ("", "More commands, explained by stator --help --all")
    yield from rows(others, width, term_min=longest)
