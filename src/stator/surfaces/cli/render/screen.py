"""The screen: where a command's answer goes. A terminal gets colour and a pager; a pipe gets plain lines.

Lines are buffered only until it is clear whether they fit on the screen; past that they stream into the pager (or to
the pipe) as they come, so that a long log costs no memory and can be left at any time.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from stator.surfaces.cli.exits import write_stderr
from stator.surfaces.cli.render.lines import STYLES, Line
from stator.surfaces.cli.render.width import WIDTH_MAX, widths

if TYPE_CHECKING:
    import subprocess

    from rich.console import Console

SIDE_BY_SIDE = 72
"""From this width on, things are put beside each other rather than under each other."""
ASCII = str.maketrans(
    {
        "…": "...",
        "—": "-",
        "→": "->",
        "·": "|",
        "≈": "=",
        "⏎": "\\n",
        "×": "x",
        "─": "-",
        "✓": "+",
        "✗": "x",
        "▪": "*",
        "–": "-",
        "│": "|",
        "├": "+",
        "└": "+",
    }
)
"""Our own signs for terminals that know only their own alphabet."""


class PagerClosed(Exception):
    """Whoever read the output has gone; there is nothing more to say and nothing wrong."""


class Screen:
    """Takes lines, and shows them in the way that fits where they go."""

    def __init__(self, *, json: bool = False, pager: bool = True) -> None:
        self.json = json
        self.out: TextIO = sys.stdout
        self.is_terminal = self.out.isatty()
        self.width, self.cut = widths(self.is_terminal)
        self.height = shutil.get_terminal_size().lines
        self.colour = _colour(self.is_terminal)
        self._pager = _pager_command() if self.is_terminal and pager else []
        self._waiting: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._console: Console | None = None
        self._ascii = not (self.out.encoding or "ascii").lower().startswith("utf")

    # -- for people -------------------------------------------------------------------------------

    def line(self, line: Line | str = "", *, hang: int = -1) -> None:
        """Show one line: cut to the width, or wrapped with later rows indented by `hang`."""
        made = Line(line) if isinstance(line, str) else line
        for part in [made.cut(self.cut)] if hang < 0 else made.wrapped(self.cut, hang):
            self._write(self._rendered(part))

    def lines(self, lines: Iterable[Line | str], *, hang: int = -1) -> None:
        for line in lines:
            self.line(line, hang=hang)

    def whole(self, lines: Iterable[Line]) -> None:
        """Show lines at their own length; the terminal wraps them. For content shown in full."""
        for line in lines:
            self._write(self._rendered(line))

    def raw(self, data: bytes) -> None:
        """Hand bytes to a program as they are. Not for a terminal."""
        self.out.flush()
        self.out.buffer.write(data)
        self.out.buffer.flush()

    def verbatim(self, text: str) -> None:
        """Pass text on exactly as it is, for the program at the other end of a pipe."""
        self.raw(text.encode("utf-8", "surrogatepass"))

    def _rendered(self, line: Line) -> str:
        if not self.colour:
            return line.plain.rstrip()
        from rich.text import Text

        console = self._rich()
        text = Text.assemble(*((part, STYLES[style]) for part, style in line.pieces), end="")
        with console.capture() as captured:
            console.print(text, end="", soft_wrap=True, markup=False, highlight=False, emoji=False)
        return captured.get()

    def _rich(self) -> Console:
        if self._console is None:
            from rich.console import Console

            self._console = Console(file=self.out, force_terminal=True, width=WIDTH_MAX * 100)
        return self._console

    # -- for programs -----------------------------------------------------------------------------

    def item(self, plain: dict[str, Any]) -> None:
        """One line of a JSON list."""
        from stator.surfaces.cli.render.wire import dumps

        self._write(dumps(plain))

    def document(self, schema: str, plain: dict[str, Any]) -> None:
        """A whole JSON document, named by its schema; spread out for a person's eye on a terminal."""
        from stator.surfaces.cli.render.wire import dumps

        self._write(dumps({"schema": schema, **plain}, indent=2 if self.is_terminal else None))

    # -- writing ----------------------------------------------------------------------------------

    def _write(self, text: str) -> None:
        if self._ascii:
            text = text.translate(ASCII)
        if self._process is not None:
            self._to_pager(text)
        elif not self._pager:
            self.out.write(text + "\n")
        else:
            self._waiting += text.split("\n")
            if len(self._waiting) >= self.height:
                self._open_pager()

    def _open_pager(self) -> None:
        import subprocess

        environ = {"LESS": "FRX", "LV": "-c", **os.environ}
        try:
            self._process = subprocess.Popen(  # the user's own choice of program, without a shell
                self._pager,
                stdin=subprocess.PIPE,
                text=True,
                encoding=self.out.encoding,
                errors="backslashreplace",
                env=environ,
            )
        except OSError:
            self._pager = []
        waiting, self._waiting = self._waiting, []
        for text in waiting:
            self._write(text)

    def _to_pager(self, text: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text + "\n")
        except (BrokenPipeError, ValueError):
            raise PagerClosed from None

    def flush(self) -> None:
        """Show now what was written: for answers that go on. There is no pager then."""
        self.out.flush()

    def redraw(self) -> None:
        """Go back to the top of the terminal, to write over what stands there."""
        self.out.write("\x1b[H\x1b[J")

    def close(self) -> None:
        """Show what is still waiting; wait until the reader has left the pager."""
        waiting, self._waiting = self._waiting, []
        if self._process is None:
            self.out.write("".join(text + "\n" for text in waiting))
            self.out.flush()
            return
        process, self._process = self._process, None
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        while True:
            try:
                process.wait()
                return
            except KeyboardInterrupt:  # meant for the pager
                continue

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is None or self._process is not None or self._waiting:
            self.close()


def note(text: str) -> None:
    """A remark beside the answer: to stderr, so that pipes carry only the answer."""
    write_stderr(text)


def _colour(is_terminal: bool) -> bool:
    """https://no-color.org, and dumb terminals."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal and os.environ.get("TERM", "") not in ("dumb", "")


def _pager_command() -> list[str]:
    """What to page with, or nothing: $STATOR_PAGER, $PAGER, less, more."""
    for name in ("STATOR_PAGER", "PAGER"):
        given = os.environ.get(name)
        if given is not None:
            try:
                words = shlex.split(given)
            except ValueError:
                return []
            return [] if words in ([], ["cat"]) else words
    if os.environ.get("TERM", "") in ("dumb", ""):
        return []
    found = shutil.which("less") or shutil.which("more")
    return [found] if found else []
