"""Writes a command's answer to stdout: with colour and a pager on a terminal, as plain lines in a pipe.

Lines are buffered only until it is clear whether they fit on the screen. After that they are written to the pager as
they are made, so that a long log needs no memory and the reader can leave at any time.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from stator.surfaces.cli.exits import write_stderr
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.width import rows, widths

if TYPE_CHECKING:
    import subprocess

SIDE_BY_SIDE = 72
"""Narrower output leaves out optional columns."""
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
        "−": "-",
        "│": "|",
        "├": "+",
        "└": "+",
    }
)
"""Replacements of our own signs, for terminals whose encoding is not Unicode."""


class PagerClosed(Exception):
    """The reader has closed the pager. This is no error: the command ends."""


class Screen:
    """Takes lines and documents, and writes them as fits a terminal or a pipe."""

    def __init__(self, *, json: bool = False, pager: bool = True) -> None:
        self.json = json
        self.out: TextIO = sys.stdout
        self.is_terminal = self.out.isatty()
        self.width, self.cut = widths(self.is_terminal)
        self.height = rows()
        self.colour = _colour(self.is_terminal)
        self._pager = _pager_command() if self.is_terminal and pager else []
        self._waiting: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._ascii = not (self.out.encoding or "ascii").lower().startswith("utf")

    # -- text -------------------------------------------------------------------------------------

    def line(self, line: Line | str = "", *, hang: int = -1) -> None:
        """Write one line: cut to the width; with `hang`, wrapped, later rows indented by that many cells."""
        made = Line(line) if isinstance(line, str) else line
        for part in [made.cut(self.cut)] if hang < 0 else made.wrapped(self.cut, hang):
            self._write(self._rendered(part))

    def lines(self, lines: Iterable[Line | str], *, hang: int = -1) -> None:
        for line in lines:
            self.line(line, hang=hang)

    def whole(self, lines: Iterable[Line]) -> None:
        """Write lines uncut; the terminal wraps them. For content that is shown in full or copied."""
        for line in lines:
            self._write(self._rendered(line))

    def raw(self, data: bytes) -> None:
        """Write bytes unchanged. Not for a terminal: nothing is escaped."""
        self.out.flush()
        self.out.buffer.write(data)
        self.out.buffer.flush()

    def verbatim(self, text: str) -> None:
        """Write text unchanged, for the program that reads the pipe. Not for a terminal."""
        self.raw(text.encode("utf-8", "surrogatepass"))

    def _rendered(self, line: Line) -> str:
        return line.coloured if self.colour else line.plain.rstrip()

    # -- JSON -------------------------------------------------------------------------------------

    def item(self, plain: dict[str, Any]) -> None:
        """Write one item of a JSON list, on one line."""
        from stator.surfaces.cli.render.wire import dumps

        self._write(dumps(plain))

    def document(self, schema: str, plain: dict[str, Any]) -> None:
        """Write a JSON document with the name of its schema; indented on a terminal."""
        from stator.surfaces.cli.render.wire import dumps

        self._write(dumps({"schema": schema, **plain}, indent=2 if self.is_terminal else None))

    # -- writing ----------------------------------------------------------------------------------

    def _write(self, text: str) -> None:
        if self._ascii:
            text = text.translate(ASCII)
        # Without a pager lines go out at once. With one they wait until they fill the screen: a short answer
        # must not open the pager.
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
            self._process = subprocess.Popen(  # chosen by the user; run without a shell
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
        """Show what was written so far, and wait until the reader has left a pager: before a question is asked, and for
        answers that follow new commits."""
        self.close()

    @property
    def can_redraw(self) -> bool:
        """Whether what was written can be taken back: on a terminal that moves its cursor."""
        return self.is_terminal and os.environ.get("TERM", "") not in ("dumb", "")

    def redraw(self) -> None:
        """Clear the terminal and move to its top, to draw the next update."""
        self.out.write("\x1b[H\x1b[J")

    def close(self) -> None:
        """Write what is still buffered, and wait until the reader leaves the pager."""
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
            except KeyboardInterrupt:  # Ctrl-C is for the pager
                continue

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is None or self._process is not None or self._waiting:
            self.close()


def note(text: str) -> None:
    """Write a remark to stderr, so that a pipe carries only the answer."""
    write_stderr(text)


def _colour(is_terminal: bool) -> bool:
    """Whether to use colour: $NO_COLOR (https://no-color.org), $FORCE_COLOR, and not on dumb terminals."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal and os.environ.get("TERM", "") not in ("dumb", "")


def _pager_command() -> list[str]:
    """The pager to use: $STATOR_PAGER, $PAGER, less or more; empty for none."""
    for name in ("STATOR_PAGER", "PAGER"):
        given = os.environ.get(name)
        if given is not None:
            try:
                import shlex

                words = shlex.split(given)
            except ValueError:
                return []
            return [] if words in ([], ["cat"]) else words
    if os.environ.get("TERM", "") in ("dumb", ""):
        return []
    import shutil

    found = shutil.which("less") or shutil.which("more")
    return [found] if found else []
