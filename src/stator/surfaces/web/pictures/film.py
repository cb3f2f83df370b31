"""Computes where the shapes of a film strip go."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stator.model.views.film_strip import FilmStrip, Frame, spent_values

WIDTH = 888.0
CALLS_HEIGHT = 44.0
ROW_HEIGHT = 20.0
CURVE_HEIGHT = 64.0
AXIS_HEIGHT = 26.0
BAR_MAX, BAR_MIN = 28.0, 3.0
BAR_FLOOR = 38.0
"""The floor of the bars of calls."""
LABEL_ROOM = 34.0
"""Least room of a label of the axis; where frames are narrower, some have none."""


class FilmFrame(msgspec.Struct, frozen=True, kw_only=True):
    """One column of the picture."""

    frame: Frame
    x: float
    bar: float
    """The height of the bar of calls."""
    calls: int
    failed: int
    label: str
    """What the axis says below it; empty where there is no room."""
    ahead: bool
    """Whether it comes after the position that is shown."""


class FilmCell(msgspec.Struct, frozen=True, kw_only=True):
    """One file in one frame."""

    x: float
    heat: int
    read: bool
    ahead: bool


class FilmRow(msgspec.Struct, frozen=True, kw_only=True):
    """One file."""

    path: str
    y: float
    cells: list[FilmCell]


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A line that is broken where nothing is known: the points of each part, until the position and after it."""

    y: float
    """Its floor."""
    past: list[str]
    ahead: list[str]


class FilmPicture(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is drawn."""

    width: float
    height: float
    column: float
    """The width of a frame."""
    frames: list[FilmFrame]
    rows: list[FilmRow]
    context: Curve
    cost: Curve
    compacted: list[float]
    """Where context was compacted, as places on the axis of frames."""
    playhead: float
    files_top: float
    context_top: float


def film_picture(strip: FilmStrip, current: int) -> FilmPicture:
    """The picture of a strip with the playhead at a frame."""
    count = len(strip.frames)
    column = WIDTH / count
    context_top = CALLS_HEIGHT + ROW_HEIGHT * len(strip.files)
    context_floor = context_top + CURVE_HEIGHT - 8
    cost_floor = context_floor + CURVE_HEIGHT
    return FilmPicture(
        width=WIDTH,
        height=cost_floor + AXIS_HEIGHT,
        column=column,
        frames=_frames(strip, current, column),
        rows=[
            FilmRow(
                path=file.path,
                y=CALLS_HEIGHT + ROW_HEIGHT * n,
                cells=[
                    FilmCell(x=column * at, heat=heat, read=read and not heat, ahead=at > current)
                    for at, (heat, read) in enumerate(zip(file.heats, file.reads, strict=True))
                ],
            )
            for n, file in enumerate(strip.files)
        ],
        context=_curve(strip.context, context_floor, column, current, strip.compacted),
        cost=_curve(spent_values(strip), cost_floor, column, current, ()),
        compacted=[column * n for n in strip.compacted],
        playhead=column * (current + 0.5),
        files_top=CALLS_HEIGHT,
        context_top=context_top,
    )


def _frames(strip: FilmStrip, current: int, column: float) -> list[FilmFrame]:
    most = max(strip.calls, default=0) or 1
    every = max(1, round(LABEL_ROOM / column))
    return [
        FilmFrame(
            frame=frame,
            x=column * n,
            bar=max(BAR_MIN, BAR_MAX * strip.calls[n] / most) if strip.calls[n] else 0,
            calls=strip.calls[n],
            failed=strip.failed[n],
            label=_label(strip.frames, n, every) if abs(n - current) >= every else "",
            ahead=n > current,
        )
        for n, frame in enumerate(strip.frames)
    ]


def _label(frames: Sequence[Frame], n: int, every: int) -> str:
    """The number of a turn; of slices only the first of each turn has one."""
    frame = frames[n]
    if frame.is_whole:
        return str(frame.turn) if n % every == 0 else ""
    begins = n == 0 or frames[n - 1].turn != frame.turn
    return f"t{frame.turn}" if begins else ""


def _curve(
    values: Sequence[int | None], floor: float, column: float, current: int, breaks: Sequence[int]
) -> Curve:
    top = max((value for value in values if value is not None), default=0) or 1
    past: list[list[str]] = [[]]
    ahead: list[list[str]] = [[]]
    last = ""
    for n, value in enumerate(values):
        if n in breaks:
            past.append([])
            ahead.append([])
            last = ""
        if value is None:
            continue
        point = f"{column * (n + 0.5):.1f},{floor - (CURVE_HEIGHT - 18) * value / top:.1f}"
        if n <= current:
            past[-1].append(point)
        else:
            ahead[-1].extend([last, point] if last and not ahead[-1] else [point])
        last = point
    return Curve(y=floor, past=_joined(past), ahead=_joined(ahead))


def _joined(parts: Sequence[Sequence[str]]) -> list[str]:
    return [" ".join(part) for part in parts if len(part) > 1]
