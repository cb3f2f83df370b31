"""Computes where two lanes part: the shapes of the picture above a comparison."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stator.surfaces.web.lanes import LaneRow, LaneStep

WIDTH = 1160.0
STEP = 25.0
PARTING = 190.0
"""Where the common log ends."""
LANE_START = 272.0
DOTS_MAX = 31
"""Acts that are drawn of a lane; more are counted."""
UPPER, LOWER = 26.0, 78.0


class Dot(msgspec.Struct, frozen=True):
    """An act on a lane."""

    x: float
    failed: bool


class DrawnLane(msgspec.Struct, frozen=True, kw_only=True):
    """One lane."""

    y: float
    dots: list[Dot]
    end: float
    more: int


class ForkPicture(msgspec.Struct, frozen=True, kw_only=True):
    """Two lanes from one trunk."""

    width: float
    parting: float
    a: DrawnLane
    b: DrawnLane


def fork_picture(
    rows: Sequence[LaneRow], a: Sequence[LaneStep], b: Sequence[LaneStep]
) -> ForkPicture:
    """The picture of two lanes; what both did first belongs to the trunk."""
    shared = rows[0].same if rows else 0
    return ForkPicture(
        width=WIDTH, parting=PARTING, a=_lane(a[shared:], UPPER), b=_lane(b[shared:], LOWER)
    )


def _lane(steps: Sequence[LaneStep], y: float) -> DrawnLane:
    shown = steps[:DOTS_MAX]
    dots = [Dot(LANE_START + STEP * n, step.failed) for n, step in enumerate(shown)]
    return DrawnLane(
        y=y,
        dots=dots,
        end=LANE_START + STEP * max(0, len(shown) - 1) + 10,
        more=len(steps) - len(shown),
    )
