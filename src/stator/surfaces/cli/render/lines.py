"""A `Line` of output: escaped text with styles, measured in terminal cells and cut or wrapped to a width.

A `Line` escapes all text that is added to it, so that no command can forget to. Styles are names; `Screen` turns them
into colours on a terminal and ignores them in a pipe.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache

from stator.model.values.late_pattern import late
from stator.surfaces.cli.render.escape import EscapedText, bounded, lines

STYLES = {
    "": "",
    "dim": "2",
    "bold": "1",
    "title": "1",
    "head": "2",
    "ok": "32",
    "bad": "31",
    "doubt": "1;33",
    "added": "32",
    "changed": "33",
    "superseded": "35",
    "removed": "31",
    "id": "36",
    "tail": "36",
    "kept": "2",
    "user": "1;36",
    "match": "1;33",
}
"""The code (ANSI, SGR) that a terminal draws each style with: these sixteen colours every terminal has."""

NO_SIGN = " · silent: it gave no sign for a while, and may still run"
"""What is said of a driver that is silent."""

STATUS_STYLES = {
    "ok": "ok",
    "error": "bad",
    "timeout": "bad",
    "denied": "bad",
    "cancelled": "doubt",
    "aborted": "bad",
    "interrupted": "doubt",
    "silent": "doubt",
    "in doubt": "doubt",
    "awaiting approval": "doubt",
    "approved": "ok",
    "revoked": "dim",
    "started": "changed",
    "active": "ok",
    "running": "ok",
    "failed": "bad",
    "lost": "doubt",
    "rewound": "dim",
    "closed": "dim",
    "archived": "dim",
}
ENDED_STYLES = {
    "open": "",
    "paused": "",
    **STATUS_STYLES,
    "waiting": "doubt",
    "pushed": "ok",
    "committed": "ok",
}
"""How a session ended, in a word."""
COMMAND, COMMAND_ENDS = "stator", (",", ";", ")", ":", ".", "·")
"""How a command begins that a line names, and how its last word ends where the line goes on."""
ROWS = 4
"""A wrapped line takes at most this many rows."""
COUNTED = 200
"""If more characters than this are cut off, their number is shown."""


class Line:
    """One line: pieces of escaped text, each with a style."""

    __slots__ = ("pieces",)

    def __init__(self, text: str = "", style: str = "") -> None:
        self.pieces: list[tuple[str, str]] = []
        self.add(text, style)

    def add(self, text: object, style: str = "", *, width: int = 0, right: bool = False) -> Line:
        """Append text, escaped; with `width`, padded or cut to that many cells."""
        shown: str = bounded(text if isinstance(text, str) else str(text))
        if width:
            shown = fit(shown, width, right=right)
        if shown:
            self.pieces.append((shown, style))
        return self

    def status(self, status: str, *, width: int = 0) -> Line:
        """Append a status in its colour."""
        return self.add(status, STATUS_STYLES.get(status, ""), width=width)

    def extend(self, other: Line) -> Line:
        self.pieces += other.pieces
        return self

    @property
    def plain(self) -> str:
        return "".join(text for text, _ in self.pieces)

    @property
    def coloured(self) -> str:
        """The line as a terminal draws it. Its text is escaped, so no other control sequence is in it."""
        return "".join(
            f"\x1b[{code}m{text}\x1b[0m" if (code := STYLES[style]) else text
            for text, style in self.pieces
        )

    @property
    def width(self) -> int:
        return sum(cells(text) for text, _ in self.pieces)

    def cut(self, width: int) -> Line:
        """The line in at most `width` cells; an ellipsis marks the cut, with a number if much is missing."""
        if self.width <= width:
            return self
        mark = _mark(self.plain, width)
        room = max(0, width - cells(mark))
        short = Line()
        for text, style in self.pieces:
            part = take(text, room)
            short.pieces.append((part, style))
            room -= cells(part)
            if part != text:
                break
        short.pieces.append((mark, "dim"))
        return short

    def cut_plain(self, width: int) -> Line:
        """The line in at most `width` cells, with an ellipsis and no number: for one cell of a table."""
        if self.width <= width:
            return self
        short, room = Line(), max(0, width - 1)
        for text, style in self.pieces:
            part = take(text, room)
            short.pieces.append((part, style))
            room -= cells(part)
            if part != text:
                break
        short.pieces.append(("…", "dim"))
        return short

    def wrapped(self, width: int, indent: int, rows: int = ROWS) -> list[Line]:
        """The line wrapped between words to at most `rows` rows; rows after the first are indented."""
        made = [Line()]
        used = 0
        words = _with_commands(self._words(), width - indent)
        for place, word in enumerate(words):
            text = "".join(piece for piece, _ in word)
            long = cells(text)
            if used and used + cells(text.rstrip()) > width and long <= width - indent:
                if len(made) == rows:
                    made[-1].pieces += (piece for left in words[place:] for piece in left)
                    break
                made.append(Line(" " * indent))
                used = indent
            made[-1].pieces += word
            used += long
        return [line.trimmed().cut(width) for line in made]

    def trimmed(self) -> Line:
        """The line without trailing spaces."""
        while self.pieces and not self.pieces[-1][0].rstrip():
            self.pieces.pop()
        if self.pieces:
            text, style = self.pieces[-1]
            self.pieces[-1] = (text.rstrip(), style)
        return self

    def _words(self) -> list[Word]:
        """The words, each with the spaces after it; a word may have several pieces, each with its style."""
        found: list[Word] = []
        for text, style in self.pieces:
            for word in _WORD.findall(text):
                if found and not found[-1][-1][0][-1].isspace() and not word[0].isspace():
                    found[-1].append((word, style))
                else:
                    found.append([(word, style)])
        return found


Word = list[tuple[str, str]]
"""A word with the spaces after it, as pieces with their styles."""


def _with_commands(words: list[Word], width: int) -> list[Word]:
    """The words, with those of a command to copy as one, where it fits on a line: `stator init --approver`."""
    found: list[Word] = []
    left = iter(words)
    for word in left:
        if _text(word).strip() != COMMAND:
            found.append(word)
            continue
        command = [word]
        for after in left:
            command.append(after)
            if _text(after).rstrip().endswith(COMMAND_ENDS):
                break
        whole = [piece for one in command for piece in one]
        found += [whole] if cells(_text(whole).rstrip()) <= width else command
    return found


def _text(word: Word) -> str:
    return "".join(text for text, _ in word)


_WORD = late(r"\s*\S+\s*|\s+")


def _mark(text: str, width: int) -> str:
    missing = len(text) - width
    if missing <= COUNTED or width < 40:
        return "…"
    return f"…(+{missing:,})"


def cells(text: str) -> int:
    """The number of columns the text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_cell, text))


@cache
def _cell(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def take(text: str, room: int) -> str:
    """The longest beginning of the text that fits into `room` cells."""
    if text.isascii():
        return text[:room]
    used = 0
    for place, char in enumerate(text):
        used += _cell(char)
        if used > room:
            return text[:place]
    return text


def paragraphs(text: str, room: int) -> Iterator[EscapedText]:
    """The rows of a text that has several lines, each in at most `room` cells: broken between words, or in a word that
    is longer."""
    for line in lines(text.strip("\n")):
        rest: str = line
        while cells(rest) > room:
            part = take(rest, room)
            space = part.rfind(" ", room // 2)
            part = part[:space] if space > 0 else part
            yield EscapedText(part)
            rest = rest[len(part) :].lstrip(" ")
        yield EscapedText(rest)


def fit(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly `width` cells: padded, or cut with an ellipsis."""
    if cells(text) > width:
        text = take(text, width - 1) + "…"
    pad = " " * (width - cells(text))
    return pad + text if right else text + pad


def widest(texts: Iterable[str], limit: int) -> int:
    """The width of a column that holds these texts, at most `limit`."""
    return min(limit, max((cells(bounded(text, limit + 1)) for text in texts), default=0)) or 1
