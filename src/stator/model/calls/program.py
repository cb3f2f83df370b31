"""Which turns of a session are those of a program, in the order in which the program begins them.

A program that runs again begins its turns again. Its nth turn is found by its place, n. The turns of
one run are neighbours in the log, except where a turn with a key was answered from the record of an
older run: it has a place and no new number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

Span = Sequence[int]
"""First and last turn number of a stretch of turns without a gap. A third number is the place of the first
one; without it, the place after the stretch before."""
Spans = list[list[int]]


def stretches(spans: Sequence[Span]) -> Iterator[tuple[int, int, int]]:
    """(first, last, place of the first) of each stretch."""
    place = 1
    for span in spans:
        first, last = span[0], span[1]
        place = span[2] if len(span) > 2 else place
        yield first, last, place
        place += last - first + 1


def spans_of(found: Sequence[tuple[int, int, int]]) -> Spans:
    """Stretches as they are recorded: a place is left out where it follows from the stretch before."""
    spans: Spans = []
    following = 1
    for first, last, place in found:
        spans.append([first, last] if place == following else [first, last, place])
        following = place + last - first + 1
    return spans


def turn_at(spans: Sequence[Span], place: int) -> int | None:
    """The number of the turn at a place; None if the record has none there."""
    for first, last, begins in stretches(spans):
        if begins <= place <= begins + last - first:
            return first + place - begins
    return None


def program(before: Sequence[Span], own: Sequence[tuple[int, int, int]]) -> Spans:
    """The turns of a program: those its run began with, up to where it began turns of its own."""
    if not own:
        return [list(span) for span in before]
    kept: list[tuple[int, int, int]] = []
    for first, last, place in stretches(before):
        end = min(last, first + own[0][2] - place - 1)
        if end >= first:
            kept.append((first, end, place))
    return spans_of([*kept, *own])


def own_stretches(
    begun: int, upto: int, place_of: Callable[[int], int]
) -> list[tuple[int, int, int]]:
    """The turns `begun` to `upto` of one run as stretches. Few of them are looked at: between two turns that
    are as far apart in place as in number, no place was skipped."""
    if upto < begun:
        return []
    found: list[tuple[int, int, int]] = []
    first, place = begun, place_of(begun)
    end = upto, place_of(upto)
    while True:
        if end[1] - place == end[0] - first:
            return [*found, (first, end[0], place)]
        low, high = first, end[0]  # the gap comes after `low` and at or before `high`
        while high - low > 1:
            middle = (low + high) // 2
            if place_of(middle) - place == middle - first:
                low = middle
            else:
                high = middle
        found.append((first, low, place))
        first, place = high, place_of(high)
