"""Computes where the time of a turn went: the model, its calls side by side, and waiting for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.times import span
from stator.surfaces.web.shape.call_view import CallView
from stator.surfaces.web.shape.turn_view import TurnView

WIDTH, ROW, BAR = 1000.0, 14, 10
LANES_MAX = 6
"""Calls side by side that are drawn; what overlaps them too shares the last row."""
BARS_MAX = 300
THIN = 2.0
"""The width of what took no time that one could see."""


class TimeBar(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time."""

    kind: str
    """model, tool, wait, bad or unsure."""
    x: float
    y: float
    width: float
    words: str
    anchor: str = ""


class TurnTime(msgspec.Struct, frozen=True, kw_only=True):
    """The picture of a turn's time, and the same in words."""

    bars: list[TimeBar]
    height: int
    words: str


class _Stretch(msgspec.Struct, frozen=True):
    start: int
    end: int
    call: CallView | None = None


def turn_time(turn: TurnView) -> TurnTime | None:
    """The picture of one turn; None where times are not known, or where nothing took time."""
    # How long a call in doubt took is not known: it is drawn where it began.
    calls = [
        one
        for one in turn.items
        if isinstance(one, CallView) and (one.took is not None or one.status == "in doubt")
    ]
    timed = [_Stretch(one.at, one.at + (one.took or 0), one) for one in calls[:BARS_MAX]]
    if not turn.times or not timed:
        return None
    start = timed[0].start if turn.unread else turn.at
    end = max([turn.until, *(one.end for one in timed)])
    if end <= start:
        return None
    model = list(_between(timed, start, end))
    scale = WIDTH / (end - start)
    rows = _rows(timed)
    bars = [_bar(one, 0, start, scale) for one in model]
    bars += [_bar(one, 1 + row, start, scale) for one, row in zip(timed, rows, strict=True)]
    return TurnTime(
        bars=bars,
        height=ROW * (2 + max(rows)),
        words=_words(timed, model, end - start, at_once=1 + max(rows)),
    )


def _between(calls: Sequence[_Stretch], start: int, end: int) -> Iterator[_Stretch]:
    """The stretches in which no call ran: the model's."""
    free = start
    for one in sorted(calls, key=lambda one: one.start):
        if one.start > free:
            yield _Stretch(free, one.start)
        free = max(free, one.end)
    if end > free:
        yield _Stretch(free, end)


def _rows(calls: Sequence[_Stretch]) -> list[int]:
    """The row of each call: the first one that is free when it begins."""
    free = [0] * LANES_MAX
    found = []
    for one in calls:
        row = next((row for row, until in enumerate(free) if until <= one.start), LANES_MAX - 1)
        free[row] = max(free[row], one.end)
        found.append(row)
    return found


def _bar(one: _Stretch, row: int, start: int, scale: float) -> TimeBar:
    took = span(one.end - one.start)
    call = one.call
    return TimeBar(
        kind=_kind(call) if call is not None else "model",
        x=round((one.start - start) * scale, 1),
        y=row * ROW + (ROW - BAR) / 2,
        width=round(max((one.end - one.start) * scale, THIN), 1),
        words=f"{call.verb} {call.about[:60]}, {took}" if call is not None else f"model, {took}",
        anchor=f"c{call.seq}" if call is not None else "",
    )


def _kind(call: CallView) -> str:
    if _waits(call):
        return "wait"
    if call.status == "in doubt":
        return "unsure"
    return "bad" if call.is_failed else "tool"


def _waits(call: CallView) -> bool:
    return call.act == "question" or call.status == "awaiting approval"


def _words(calls: Sequence[_Stretch], model: Sequence[_Stretch], took: int, *, at_once: int) -> str:
    """`44 min: model 12 min, 90 calls 14 min, up to 3 at once, waiting for you 18 min, 5 failed, 4 tried again`."""
    waited = sum(one.end - one.start for one in calls if one.call and _waits(one.call))
    thought = sum(one.end - one.start for one in model)
    failed = [one.call for one in calls if one.call and one.call.is_failed]
    again = sum(one.repair is not None for one in failed)
    parts = [
        f"model {span(thought)}",
        f"{count(len(calls), 'call')} {span(max(took - thought - waited, 0))}",
        f"up to {at_once} at once" if at_once > 1 else "",
        f"waiting for you {span(waited)}" if waited else "",
        f"{len(failed)} failed" if failed else "",
        f"{again} tried again" if again else "",
    ]
    return f"{span(took)}: {', '.join(part for part in parts if part)}"
