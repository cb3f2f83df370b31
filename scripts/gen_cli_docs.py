"""Write docs/reference/cli.md from the output of `stator --help --all` and every `stator COMMAND --help`.

python scripts/gen_cli_docs.py [--check]
"""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

from generated_page import write_or_check
from stator.surfaces.cli.flag_meanings import MEANINGS
from stator.surfaces.cli.main import main as program
from stator.surfaces.cli.old_spellings import OLD
from stator.surfaces.cli.registry import COMMANDS

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/cli.md"
INTRODUCTION = """\
# The command line

<!-- Made by scripts/gen_cli_docs.py from --help: do not edit by hand. -->

`stator` needs only the store: no agent, no model and no network. Commands that read change nothing.
Piped output is plain text; `--json` prints data ([shapes](json.md)). On a terminal, output is coloured
and paged (`$STATOR_PAGER`, `$PAGER` or `less`; `$NO_COLOR` turns colour off).

| exit code | meaning |
|---|---|
| 0 | the command worked |
| 1 | the command worked and found a problem (for example `verify`, `doctor`) |
| 2 | the arguments are wrong |
| 3 | the session, commit or position does not exist |
| 4 | another process holds the session or the store |
| 5 | the store cannot be used |
| 130 | interrupted |

Every question takes a session, a turn or a range in the same way: `fix-login`, `t2`, `fix-login:t2`, `fix-login t2`,
`t4..t5`. `files`, `decisions`, `calls`, `why`, `search` and `blame` look at this project; `-s SESSION` narrows that,
`--everywhere` widens it. What cannot be undone, or leaves the store, is shown first: `--yes` does it, and on a terminal
you are asked.

An option that several commands take means the same in each of them:

"""


def ask(*words: str) -> str:
    """The output of the program, laid out for 100 columns."""
    kept, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), "100"
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    try:
        with contextlib.redirect_stdout(printed):
            program(words)
    finally:
        del os.environ["COLUMNS"]
        if kept is not None:
            os.environ["COLUMNS"] = kept
    buffer = printed.detach()
    assert isinstance(buffer, io.BytesIO)
    return "\n".join(line.rstrip() for line in buffer.getvalue().decode().strip().splitlines())


def options_table() -> str:
    """What options mean that several commands take, and how they were spelled before."""
    lines = ["| option | meaning |", "|---|---|"]
    lines += [f"| `{option}` | {meaning} |" for option, meaning in MEANINGS.items()]
    lines += ["", "Spellings of earlier releases work in this one, with a hint on stderr:", ""]
    lines += ["| command | before | now |", "|---|---|---|"]
    for command in sorted(OLD):
        lines += [f"| {command} | `{old}` | `{new}` |" for old, new in OLD[command].items()]
    return "\n".join(lines) + "\n\n"


def generate() -> str:
    """The whole page."""
    parts = [INTRODUCTION, options_table(), "```text\n", ask("--help", "--all"), "\n```\n"]
    for command in COMMANDS:
        parts += [f"\n## stator {command}\n\n```text\n", ask(command, "--help"), "\n```\n"]
    return "".join(parts)


def main() -> int:
    return write_or_check(PAGE, generate())


if __name__ == "__main__":
    raise SystemExit(main())
