"""Silent drivers: when one that is only known by its counter counts as gone.

A store at a distance cannot ask the kernel whether a driver lives. It reports a counter that the driver's process
moves, and a process that looks twice judges by its own clock, which only goes forward: clocks of other machines, and
the time of day, decide nothing. A silent driver may still run, so what it left open is a person's to settle.
"""

from __future__ import annotations

import msgspec

SILENT_S = 15.0
"""How long a counter stays the same until its driver is silent. A process moves its own every 2 seconds."""
HOLDERS_MAX = 10_000
"""Drivers that one process remembers having looked at."""


class SeenCounter(msgspec.Struct, frozen=True):
    """The counter of a driver, and when it was first seen to have that value, on the observer's clock."""

    beats: int
    since_s: float


def look(before: SeenCounter | None, beats: int, now_s: float) -> SeenCounter:
    """What is known of a driver after looking at its counter once more."""
    return before if before is not None and before.beats == beats else SeenCounter(beats, now_s)


def is_silent(seen: SeenCounter, now_s: float) -> bool:
    """Whether the counter stayed the same for long enough."""
    return now_s - seen.since_s >= SILENT_S
