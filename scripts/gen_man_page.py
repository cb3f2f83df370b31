"""Write share/man/man1/stator.1 from the commands' own signatures and texts, as `--help` does.

python scripts/gen_man_page.py [--check]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from generated_page import write_or_check
from stator.surfaces.cli.commands import examples, load
from stator.surfaces.cli.registry import ABOUT, COMMANDS, EVERYDAY, GROUPS, NAMING, OPTIONS
from stator.surfaces.cli.signature_help import CommandHelp, CommandInput

PAGE = Path(__file__).resolve().parent.parent / "share/man/man1/stator.1"
FILES = {
    ".stator/store.db": "The store of a project, which stator init makes.",
    "stator.toml": "Rules for approvals, and prices, of a project.",
    "~/.local/share/stator/store.db": "Your own store, for folders without one.",
}
VARIABLES = {
    "STATOR_STORE": "The store to use, if --store does not name one.",
    "STATOR_SESSION": "The session that is meant where none is named.",
    "STATOR_PAGER, PAGER": "The pager for long answers; cat or nothing for none.",
    "NO_COLOR, FORCE_COLOR": "No colour, or colour in a pipe too.",
    "COLUMNS": "The width of the output.",
}
EXITS = {
    "0": "The command worked.",
    "1": "It worked and found a problem (verify, doctor).",
    "2": "The arguments are wrong.",
    "3": "The session, commit or position does not exist.",
    "4": "Another process holds the session or the store.",
    "5": "The store cannot be used.",
    "130": "Interrupted.",
}


def escaped(text: str) -> str:
    """Text that troff prints as it is."""
    plain = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    )
    plain = plain.replace("^", "\\(ha").replace("~", "\\(ti").replace('"', "\\(dq")
    return f"\\&{plain}" if plain.startswith((".", "\\(aq")) else plain


def terms(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, about in pairs:
        yield from (".TP", f"\\fB{escaped(term)}\\fR", escaped(about) or "\\&")


def command(name: str) -> Iterator[str]:
    """The section of one command."""
    found = CommandHelp(load(name))
    yield f'.SS "stator {name}"'
    yield escaped(found.summary)
    for paragraph in found.paragraphs:
        yield from (".PP", escaped(paragraph))
    yield from terms((argument(one), one.about) for one in found.arguments)
    yield from terms((one.label, one.about + choices(one)) for one in found.options)
    yield from (".PP", "Examples:", ".PP", ".nf", ".RS 4")
    yield from (escaped(line) for line in examples(name).strip().splitlines())
    yield from (".RE", ".fi")


def argument(one: CommandInput) -> str:
    return (one.metavar or one.name.replace("_", "-")).upper()


def choices(one: CommandInput) -> str:
    return f" One of {', '.join(one.choices)}." if one.choices else ""


def generate() -> str:
    """The whole page."""
    everyday = [(name, COMMANDS[name]) for names in EVERYDAY.values() for name in names]
    lines = [
        '.\\" Made by scripts/gen_man_page.py: do not edit by hand.',
        '.TH STATOR 1 "" "stator" "User Commands"',
        ".SH NAME",
        "stator \\- session state for AI agents",
        ".SH SYNOPSIS",
        "\\fBstator\\fR [\\fICOMMAND\\fR] [\\fIARGUMENTS\\fR] [\\fIOPTIONS\\fR]",
        ".SH DESCRIPTION",
        escaped(ABOUT),
        ".PP",
        escaped("Without a command it shows the status: what needs you, what runs, what ended."),
        ".SH EVERYDAY COMMANDS",
        *terms(everyday),
        ".SH OPTIONS",
        *terms(OPTIONS.items()),
        ".SH NAMING THINGS",
        *terms(NAMING.items()),
    ]
    for group, names in GROUPS.items():
        lines.append(f'.SH "COMMANDS: {group.upper()}"')
        lines += [line for name in names for line in command(name)]
    for title, known in (("EXIT STATUS", EXITS), ("ENVIRONMENT", VARIABLES), ("FILES", FILES)):
        lines += [f'.SH "{title}"', *terms(known.items())]
    return "\n".join(lines) + "\n"


def main() -> int:
    return write_or_check(PAGE, generate())


if __name__ == "__main__":
    raise SystemExit(main())
