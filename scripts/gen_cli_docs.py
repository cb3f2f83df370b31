"""Write docs/reference/cli.md from what `stator --help` and every `stator COMMAND --help` say.

python scripts/gen_cli_docs.py [--check]
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path

from stator.surfaces.cli.main import main as program
from stator.surfaces.cli.registry import COMMANDS

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/cli.md"
INTRODUCTION = """\
# The command line

<!-- Made by scripts/gen_cli_docs.py from --help: do not edit by hand. -->

`stator` answers from the store alone: it needs no agent, no model and no network, and reading never
changes anything. Piped, every answer is plain text; with `--json` it is data ([shapes](json.md)). On
a terminal it is coloured and paged (`$STATOR_PAGER`, `$PAGER`, `less`; `$NO_COLOR` is respected).

| exit code | meaning |
|---|---|
| 0 | it worked |
| 1 | it worked, and found something wrong (`verify`, `doctor`) |
| 2 | the question makes no sense as it was put |
| 3 | there is no such session, commit or position |
| 4 | somebody else holds it just now |
| 5 | the store cannot be used |
| 130 | interrupted |

"""


def ask(*words: str) -> str:
    """What the program prints, laid out for 100 columns."""
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


def generate() -> str:
    """The whole page."""
    parts = [INTRODUCTION, "```text\n", ask("--help"), "\n```\n"]
    for command in COMMANDS:
        parts += [f"\n## stator {command}\n\n```text\n", ask(command, "--help"), "\n```\n"]
    return "".join(parts)


def main() -> int:
    page = generate()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page else 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
