"""Completes what a person types in a shell: commands, options, sessions. Installs the scripts that ask for it.

The scripts (`shells/`) are small and know no command: on every Tab they run `stator --complete WORD …`, which prints
what fits, one a line with an explanation after a tab; `:files` stands for the names of files. The package installs the
scripts where shells look; `--install-completion` does it for one user.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stator.surfaces.cli import registry
from stator.surfaces.cli.exits import OK, USAGE, write_stderr

if TYPE_CHECKING:
    from stator.surfaces.cli.signature_help import CommandInput

SCRIPTS = {"bash": "stator.bash", "zsh": "_stator", "fish": "stator.fish"}
PLACES = {
    "bash": ("XDG_DATA_HOME", ".local/share", "bash-completion/completions/stator"),
    "zsh": ("ZDOTDIR", "", ".zsh/completions/_stator"),
    "fish": ("XDG_CONFIG_HOME", ".config", "fish/completions/stator.fish"),
}
"""Where each shell looks for one user's scripts: in the folder that a variable names, or else below the home."""
FILES = ":files"
SESSIONS_MAX = 1000
NAME_MAX = 80
NAMES_SESSIONS = frozenset("session sessions range ref start end position turn what".split())
"""Arguments that may name a session, or begin with one."""
NAMES_FILES = frozenset(
    "file paths sources source target command root cwd output passphrase_file to store url".split()
)

Fit = tuple[str, str]
"""A word, and what it is."""


# -- what fits ------------------------------------------------------------------------------------


def complete(words: Sequence[str]) -> int:
    """`stator --complete WORD …`: print what fits in the place of the last word. Nothing here is an error."""
    typed = list(words) or [""]
    with contextlib.redirect_stderr(io.StringIO()):
        found = list(_fitting(typed[:-1], typed[-1]))
    for word, about in found:
        sys.stdout.write(f"{word}\t{about}\n" if about else f"{word}\n")
    return OK


def _fitting(before: Sequence[str], current: str) -> Iterator[Fit]:
    if not before:
        known = registry.OPTIONS if current.startswith("-") else registry.COMMANDS
        pairs = ((name, about) for names, about in known.items() for name in names.split(", "))
        yield from _beginning(pairs, current)
    elif before[0] == "help":
        yield from _beginning(registry.COMMANDS.items(), current)
    elif before[0] in registry.COMMANDS:
        yield from _of_command(before, current)


def _beginning(pairs: Iterable[Fit], current: str) -> Iterator[Fit]:
    return ((word, about) for word, about in pairs if word.startswith(current))


def _of_command(before: Sequence[str], current: str) -> Iterator[Fit]:
    from stator.surfaces.cli.commands import load
    from stator.surfaces.cli.signature_help import CommandHelp

    command = CommandHelp(load(before[0]))
    taken = [one for one in (*command.arguments, *command.options) if not one.is_flag]
    valued = {name: one for one in taken for name in one.names}
    if before[-1] in valued:
        yield from _values(valued[before[-1]], current)
    elif current.startswith("-"):
        names = ((name, one.about) for one in command.options for name in one.names)
        yield from _beginning(names, current)
    elif command.arguments:
        given = _count_arguments(before[1:], valued)
        last = len(command.arguments) - 1
        yield from _values(command.arguments[min(given, last)], current)


def _count_arguments(words: Sequence[str], valued: Container[str]) -> int:
    """How many of the words are arguments: neither options nor their values."""
    follows = zip(["", *words], words, strict=False)
    return sum(not word.startswith("-") and previous not in valued for previous, word in follows)


def _values(one: CommandInput, current: str) -> Iterator[Fit]:
    """What may be given for an argument or an option."""
    if one.choices:
        yield from _beginning(((choice, "") for choice in one.choices), current)
    elif one.name in NAMES_SESSIONS:
        yield from _beginning(_sessions(), current)
    elif one.name in NAMES_FILES or one.metavar in ("FILE", "FOLDER"):
        yield FILES, ""


def _sessions() -> Iterator[Fit]:
    """The sessions of the project, those used last first; of the store, if the project has none."""
    from stator.errors import StatorError
    from stator.surfaces.cli.parts.open_store import open_to_read

    with contextlib.suppress(StatorError, OSError), open_to_read(None) as opened:
        rows = opened.store.sessions(project=opened.project, limit=SESSIONS_MAX).rows
        rows = rows or opened.store.sessions(limit=SESSIONS_MAX).rows
        for row in rows:
            name = row.record.name
            if row.record.mode != "project" and len(name) <= NAME_MAX and name.isprintable():
                yield name, row.record.agent


# -- installing -----------------------------------------------------------------------------------


def script(shell: str) -> str:
    """The script of a shell."""
    return (Path(__file__).parent / "shells" / SCRIPTS[shell]).read_text(encoding="utf-8")


def install(words: Sequence[str]) -> int:
    """`stator --install-completion [SHELL] [--print]`."""
    names = [word for word in words if word != "--print"]
    shell = names[0] if names else os.path.basename(os.environ.get("SHELL", ""))
    if len(names) > 1 or shell not in SCRIPTS:
        write_stderr(
            f"stator: --install-completion takes one shell ({', '.join(SCRIPTS)}), and --print"
        )
        return USAGE
    if "--print" in words:
        sys.stdout.write(script(shell))
        return OK
    variable, folder, rest = PLACES[shell]
    path = Path(os.environ.get(variable) or Path.home() / folder, rest)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script(shell), encoding="utf-8")
    sys.stdout.write(f"installed completion in {path}; open a new shell to use it\n")
    if shell == "zsh":
        sys.stdout.write(f"in .zshrc, before compinit: fpath=({path.parent} $fpath)\n")
    return OK
