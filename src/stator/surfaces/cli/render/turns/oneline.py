"""Shows one line a turn: when, how long, how many calls, files and tokens, and what was asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stator.surfaces.cli.render import amounts
from stator.surfaces.cli.render.lines import STATUS_STYLES, Line
from stator.surfaces.cli.render.table import Column, table
from stator.surfaces.cli.render.times import date, hour
from stator.surfaces.cli.render.turns.fold import TurnFold

COLUMNS = (
    Column(title="TURN"),
    Column(title="WHEN", drop=1),
    Column(title="TOOK", right=True, drop=6),
    Column(title="CALLS", right=True, drop=3),
    Column(title="NOT OK", right=True, drop=2),
    Column(title="FILES", right=True, drop=4),
    Column(title="TOKENS", right=True, drop=5),
    Column(title="CACHED", right=True, drop=8),
    Column(title="COST", right=True, drop=7),
    Column(title="ENDED", most=12),
)
ASKED = Column(title="ASKED", shrinks=True)
ASKED_PART = 0.5
"""The part of the screen that what was asked has at the least: it is what one looks for."""


def lines(
    turns: Sequence[TurnFold], width: int, now: int, *, times: bool, left: int
) -> Iterator[Line]:
    """A table of turns. `left` is the last commit of a turn that gets no end any more."""
    asked = msgspec.structs.replace(ASKED, least=int(width * ASKED_PART))
    yield from table((*COLUMNS, asked), [_row(turn, now, times, left) for turn in turns], width)


def _row(turn: TurnFold, now: int, times: bool, left: int) -> list[Line | str]:
    first, last = turn.first.when, turn.until
    ended = turn.ended or ("interrupted" if left == turn.last.seq else "open")
    price = amounts.money(turn.spend)
    return [
        Line(f"t{turn.turn}", "bold"),
        Line(f"{date(first, now)} {hour(first)}" if times else "", "dim"),
        Line(amounts.took(last - first) if times else amounts.UNKNOWN, "dim"),
        str(turn.calls),
        Line(str(turn.failed), "bad") if turn.failed else "",
        str(turn.files) if turn.files else "",
        amounts.tokens(turn.spend),
        Line(amounts.cached(turn.spend), "dim"),
        "" if price == amounts.UNKNOWN and not turn.spend else price,
        Line(ended, STATUS_STYLES.get(ended, "")),
        turn.prompt,
    ]
