"""Lays out tables: a header, columns as wide as their content, and one column that takes the room that is left.

On a narrow screen, optional columns are left out, the least important first. Nothing is cut without a `…`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from stator.surfaces.cli.render.lines import Line, cells

if TYPE_CHECKING:
    from stator.surfaces.cli.render.screen import Screen

GAP = 2
HEADER = "head"
TAIL = "tail"
"""The style of a last piece that distinguishes a cell from others: it is shown only where the rest of the cell looks
like that of another row, and is not cut."""


APART = 4
"""Cells at the end of a cell that is cut in which a difference is overlooked."""
HEAD_MIN = 4
"""Cells that are left of a cell before its tail, or its tail goes."""


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column of a table."""

    title: str
    right: bool = False
    """Numbers are aligned right."""
    most: int = 0
    """Its greatest width; 0: as wide as its content."""
    least: int = 8
    """Its smallest width, where it must shrink."""
    shrinks: bool = False
    """Whether it gives way where the table is too wide: the widest first."""
    drop: int = 0
    """Columns with a number are left out on a narrow screen, the highest number first."""
    middle: bool = False
    """Whether it holds paths, which are cut in the middle."""
    keep: bool = False
    """Whether it is shown though no row has anything in it."""


Cell = Line | str


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[Cell]], width: int, *, titled: bool = True
) -> Iterator[Line]:
    """A header, unless `titled` is false, and one line a row. Columns in which no row has anything are left out."""
    made = [[cell if isinstance(cell, Line) else Line(cell) for cell in row] for row in rows]
    if not made and not any(column.keep for column in columns):
        return
    shown = [n for n, one in enumerate(columns) if one.keep or any(row[n].plain for row in made)]
    titles = [Line(one.title if titled else "", HEADER) for one in columns]
    wide = {n: _natural(columns[n], [titles[n], *(row[n] for row in made)]) for n in shown}
    while _needed(columns, shown, wide) > width:
        droppable = [n for n in shown if columns[n].drop]
        if not droppable:
            break
        shown.remove(max(droppable, key=lambda n: columns[n].drop))
    _shrink(columns, shown, wide, width)
    for n in shown:
        _without_tails([row[n] for row in made], wide[n])
    if titled:
        yield _line(columns, shown, wide, titles)
    for row in made:
        yield _line(columns, shown, wide, row)


def header(*columns: tuple[str, int]) -> Line:
    """The header of lines whose columns have fixed widths; 0 for the last, which has none."""
    line = Line()
    for title, width in columns:
        line.add(title, HEADER, width=width)
    return line


def _without_tails(column: Sequence[Line], width: int) -> None:
    """Take the tail off each cell that differs from all others in the cells that it gets."""
    seen = Counter(_beginning(cell, width) for cell in {one.plain: one for one in column}.values())
    for cell in column:
        if seen[_beginning(cell, width)] == 1:
            cell.pieces = _head(cell).pieces


def _beginning(cell: Line, width: int) -> str:
    """What distinguishes a cell from others: all of it without its tail, or its beginning where that is cut."""
    head = _head(cell)
    return head.plain if head.width <= width else head.cut_plain(max(1, width - APART)).plain


def _head(cell: Line) -> Line:
    """A cell without its tail."""
    if not cell.pieces or cell.pieces[-1][1] != TAIL:
        return cell
    head = Line()
    head.pieces = cell.pieces[:-1]
    return head


def _natural(column: Column, found: Sequence[Line]) -> int:
    """How wide it is if there is room: as its title, which comes first, and its content."""
    heads = Counter(_head(one).plain for one in {one.plain: one for one in found[1:]}.values())
    content = max(
        (
            cell.width if heads[(head := _head(cell)).plain] > 1 else head.width
            for cell in found[1:]
        ),
        default=0,
    )
    if column.most:
        content = min(content, column.most)
    return max(content, found[0].width)


def _smallest(column: Column, natural: int) -> int:
    return min(natural, column.least) if column.shrinks else natural


def _needed(columns: Sequence[Column], shown: Sequence[int], wide: dict[int, int]) -> int:
    return sum(_smallest(columns[n], wide[n]) for n in shown) + GAP * (len(shown) - 1)


def _shrink(
    columns: Sequence[Column], shown: Sequence[int], wide: dict[int, int], width: int
) -> None:
    """Take what is too much from the columns that shrink, always from the widest."""
    over = sum(wide[n] for n in shown) + GAP * (len(shown) - 1) - width
    while over > 0:
        able = [n for n in shown if wide[n] > _smallest(columns[n], wide[n])]
        if not able:
            return
        widest = max(able, key=lambda n: wide[n])
        wide[widest] -= 1
        over -= 1


def _line(
    columns: Sequence[Column], shown: Sequence[int], wide: dict[int, int], row: Sequence[Line]
) -> Line:
    line = Line()
    for place, n in enumerate(shown):
        cell = _fitted(row[n], columns[n], wide[n])
        pad = " " * (wide[n] - cell.width)
        is_last = place == len(shown) - 1
        if columns[n].right:
            line.add(pad).extend(cell)
        else:
            line.extend(cell).add("" if is_last else pad)
        line.add("" if is_last else " " * GAP)
    return line


def _fitted(cell: Line, column: Column, width: int) -> Line:
    if cell.width <= width:
        return cell
    text, style = cell.pieces[-1]
    if style == TAIL and cells(text) + HEAD_MIN <= width:
        return _head(cell).cut_plain(width - cells(text)).extend(Line(text, TAIL))
    if not column.middle:
        return cell.cut_plain(width)
    from stator.surfaces.cli.render.turns.subject import middle

    return Line(middle(cell.plain, width), cell.pieces[0][1])


def report_cut(screen: Screen, shown: int, what: str, more: str, *, asked: bool) -> None:
    """Say that there is more than is shown, and how to see it. In JSON that is a last item of its own, unless the
    number was asked for."""
    if not screen.json:
        these = f"these {shown:,}" if shown > 1 else "this one"
        screen.line(Line(f"… more {what} than {these}: {more}", "dim"))
    elif not asked:
        screen.item({"cut": {"shown": shown, "what": what, "more": more}})
