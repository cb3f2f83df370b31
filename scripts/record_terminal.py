"""Draw docs/images/demo.svg: what `make demo` prints on a terminal of 80 columns.

    make recording

Runs the demo on a terminal of its own in a temporary folder, takes its first part and one of its
questions, and draws the text with rich. Ids and times differ in every recording; nothing is edited.
"""

from __future__ import annotations

import fcntl
import io
import os
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
IMAGE = ROOT / "docs/images/demo.svg"
COLUMNS = 80
FONTS = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'
SHOWN = ("An agent pays", "A second agent", "Why does")
"""The parts of the demo that are drawn, by how they begin: up to the second, then the third."""


def record(command: list[str]) -> list[str]:
    """What a command prints on a terminal, line by line, with its colours."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    with tempfile.TemporaryDirectory(prefix="stator-recording-") as folder:
        env = {"PATH": os.environ["PATH"], "HOME": folder, "TERM": "xterm-256color"}
        child = subprocess.Popen(
            command, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        seen = bytearray()
        try:
            while chunk := os.read(ours, 65536):
                seen += chunk
        except OSError:  # Linux: the last process with the terminal open has ended
            pass
        os.close(ours)
        if child.wait() != 0:
            raise SystemExit(seen.decode())
    return seen.decode().replace("\r\n", "\n").split("\n")


def chosen(lines: list[str]) -> list[str]:
    """The demo's first part, and the question about a file with its answer."""
    plain = [Text.from_ansi(line).plain for line in lines]
    first, second, question = (
        next(i for i, line in enumerate(plain) if line.startswith(start)) for start in SHOWN
    )
    after_command = question + 2
    end = next(i for i in range(after_command + 2, len(plain)) if not plain[i])
    return [*lines[first:second], *lines[question:end]]


def draw(lines: list[str]) -> str:
    """The lines as an SVG that needs no other file and no network."""
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(Text.from_ansi("$ make demo", style="bold green"))
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True)
    svg = console.export_svg(title="stator", theme=MONOKAI, unique_id="demo")
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.S)
    svg = re.sub(r"font-family: [^;]+;", f"font-family: {FONTS};", svg)
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)  # some viewers drop leading blanks
    svg = re.sub(r"<!-- Generated with Rich [^>]*-->\s*", "", svg)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def main() -> int:
    lines = record([sys.executable, str(ROOT / "examples/demo.py")])
    IMAGE.parent.mkdir(exist_ok=True)
    IMAGE.write_text(draw(chosen(lines)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
