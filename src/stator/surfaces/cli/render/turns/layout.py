"""Lays out folded turns: a heading with the prompt, one aligned line an item, and what the turn amounts to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stator.surfaces.cli.render import amounts
from stator.surfaces.cli.render.lines import Line, cells, paragraphs, widest
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.times import date, day, hour
from stator.surfaces.cli.render.turns.fold import LogItem, TurnFold
from stator.surfaces.cli.render.turns.subject import end

INDENT = 4
LABEL_MAX, LABEL_NARROW = 12, 8
WIDE = 80
"""Narrower screens give the label less room."""
TEXT_MIN = 16
"""With less room than this for the text, the columns at the right are left out."""
NARROW = 64
"""Narrower screens leave out how long a call took."""
STATUS_MAX, TOOK = 17, 7
SUBJECT_PART = 0.5
"""The part of the room that a subject keeps beside a long remark."""
ROWS, ROWS_LAST = 12, 400
"""Rows of a message where a turn is shown in full, and of its last one and its prompt."""


def heading(turn: TurnFold, width: int, now: int, *, times: bool) -> Line:
    """`t2  continue ……… 12 Feb 20:19–21:03  $7.80`"""
    line = Line(f"t{turn.turn}  ", "bold")
    right = _right_of_heading(turn, now, times)
    room = width - cells(right) - 2
    if room < TEXT_MIN + line.width:
        return line.extend(turn.prompt).cut_plain(width)
    shown = line.extend(turn.prompt).cut_plain(room)
    return shown.add(" " * (width - shown.width - cells(right))).add(right, "dim")


def headed(turn: TurnFold, session: str, width: int, now: int, *, times: bool) -> Iterator[Line]:
    """The heading with all of the prompt: beside it, or below it where it is longer than that."""
    room = width - cells(_right_of_heading(turn, now, times)) - 2
    if not turn.asked or ("\n" not in turn.asked and cells(turn.asked) + 6 <= room):
        yield heading(turn, width, now, times=times)
        return
    yield heading(msgspec.structs.replace(turn, prompt=Line()), width, now, times=times)
    shown = [Line(row, "user") for row in paragraphs(turn.asked, max(TEXT_MIN, width - INDENT))]
    for line in _cut_rows(shown, ROWS_LAST, f"{session}:@{turn.first.seq}"):
        yield Line(" " * INDENT).extend(line)
    if turn.items:
        yield Line()


def _cut_rows(rows: list[Line], most: int, where: str) -> list[Line]:
    """The first rows, at most `most`, and how to see the others."""
    if len(rows) <= most:
        return rows
    left = count(len(rows) - most, "more line")
    return [*rows[:most], Line(f"… {left}: stator show {where}", "dim")]


def _right_of_heading(turn: TurnFold, now: int, times: bool) -> str:
    return "  ".join(part for part in (_when(turn, now) if times else "", cost(turn)) if part)


def _when(turn: TurnFold, now: int) -> str:
    """When it began and ended: 12 Feb 20:19–21:03; both days where it crosses midnight."""
    first, last = turn.first.when, max(turn.first.when, turn.until)
    began, ended = f"{date(first, now)} {hour(first)}", hour(last)
    if day(first) != day(last):
        return f"{began} – {date(last, now)} {ended}"
    return began if hour(first) == ended else f"{began}–{ended}"


def cost(turn: TurnFold) -> str:
    """What a turn cost: money where it is known, else tokens."""
    price = amounts.money(turn.spend)
    return price if price != amounts.UNKNOWN else amounts.tokens_in_words(turn.spend)


def rows(
    items: Sequence[LogItem], width: int, now: int, *, began: int, times: bool, full: str = ""
) -> Iterator[tuple[LogItem, list[Line]]]:
    """Each item with its line; a line with the date goes before an item of another day than the one before it. `full`:
    the session, where messages are shown with all their words."""
    if not items:
        return
    sizes = _Sizes(
        width,
        widest((item.label for item in items), LABEL_MAX if width >= WIDE else LABEL_NARROW),
        widest((item.status for item in items), STATUS_MAX),
        max(len(str(item.seq)) for item in items) + 1,
    )
    today = day(began)
    last = next((item for item in reversed(items) if item.words), None)
    for item in items:
        lines: list[Line] = []
        if times and day(item.at) != today:
            today = day(item.at)
            lines.append(Line(f"{'':{INDENT}}── {date(item.at, now)}", "dim"))
        if full and item.subject is None:
            lines += _in_full(item, sizes, full, ROWS_LAST if item is last else ROWS)
        else:
            lines.append(_row(item, sizes))
        yield item, lines


class _Sizes(msgspec.Struct, frozen=True):
    """The width of the screen and of the columns of a turn."""

    width: int
    label: int
    status: int
    seq: int


def _row(item: LogItem, sizes: _Sizes) -> Line:
    line = Line(" " * INDENT).add(item.label, item.style, width=sizes.label).add("  ")
    right = _right(item, sizes)
    room = sizes.width - line.width - right.width
    if room < TEXT_MIN:
        text = _text(item, max(1, sizes.width - line.width - cells(item.status) - 1))
        return line.extend(text).add(" ").status(item.status).cut_plain(sizes.width)
    text = _text(item, room).cut_plain(room)
    line.extend(text).add(" " * (room - text.width))
    return line.extend(right)


def _in_full(item: LogItem, sizes: _Sizes, session: str, most: int) -> Iterator[Line]:
    """A message or a change of the state with its words in several rows."""
    label = Line(" " * INDENT).add(item.label, item.style, width=sizes.label).add("  ")
    right = _right(item, sizes)
    below = label.width
    room = max(TEXT_MIN, sizes.width - below - right.width)
    if item.words:
        shown = [Line(row) for row in paragraphs(item.words.strip(), room)]
    else:
        shown = _text(item, room).wrapped(room, 0, ROWS)
    for place, text in enumerate(_cut_rows(shown, most, f"{session}:@{item.seq}")):
        if place:
            yield Line(" " * below).extend(text)
        else:
            yield label.extend(text).add(" " * (room - text.width)).extend(right)


def _right(item: LogItem, sizes: _Sizes) -> Line:
    """How an item ended, how long it took, and its position."""
    line = Line("  ")
    if item.status:
        line.add(" " * (sizes.status - cells(item.status))).status(item.status)
        if sizes.width >= NARROW:
            took = amounts.took(item.took) if item.outcome else ""
            line.add(took, "dim", width=TOOK + 1, right=True)
        line.add("  ")
    return line.add(f"@{item.seq}", "id", width=sizes.seq)


def _text(item: LogItem, room: int) -> Line:
    """What an item is about in the room there is; a remark takes what the subject leaves."""
    if item.subject is None:
        line = item.text or Line()
        return Line().extend(line).add(f" — {item.remark}" if item.remark else "")
    if item.remark:
        kept = max(int(room * SUBJECT_PART), room - cells(item.remark) - 3)
        line = Line(item.subject.fitted(kept))
        return line.add(" — ", "dim").add(end(item.remark, max(1, room - line.width - 3)))
    repairs = _repairs(item)
    more = "".join(f"  {part}" for part in (repairs, item.more) if part)
    if repairs and cells(item.subject.words) + cells(more) > room:  # a result gives way to it
        more = f"  {repairs}"
    line = Line(item.subject.fitted(room - cells(more) if cells(more) < room // 2 else room))
    return line.add(more, "dim") if line.width + cells(more) <= room else line


def _repairs(item: LogItem) -> str:
    """Which failures a call repaired: `repairs @362, @379`."""
    return f"repairs {', '.join(f'@{seq}' for seq in item.repairs)}" if item.repairs else ""


def sum_line(turn: TurnFold) -> Line:
    """`── changed 11 files · revision 64f1b9a · 5 of 150 calls failed`; empty where there is nothing to sum up."""
    parts = [
        f"changed {count(turn.files, 'file')}" if turn.files else "",
        f"{'revision' if len(turn.revisions) == 1 else 'revisions'} {', '.join(turn.revisions)}"
        if turn.revisions
        else "",
        _failures(turn),
        turn.ended if turn.ended not in ("", "ok") else "",
    ]
    shown = " · ".join(part for part in parts if part)
    return Line(f"{'':{INDENT}}── {shown}", "dim") if shown else Line()


def _failures(turn: TurnFold) -> str:
    if not turn.failed:
        return ""
    repaired = f", {turn.repaired} repaired" if turn.repaired else ""
    return f"{turn.failed} of {count(turn.calls, 'call')} not ok{repaired}"
