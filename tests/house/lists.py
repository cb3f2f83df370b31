"""Comparing what the source does with a list of exceptions, so that the list can only get shorter."""

from __future__ import annotations

from collections.abc import Iterable


def compared(found: Iterable[str], listed: Iterable[str]) -> list[str]:
    """What the source and the list disagree about, as sentences."""
    there, expected = set(found), set(listed)
    return [
        *(f"new: {item}" for item in sorted(there - expected)),
        *(f"no longer needed, take it off the list: {item}" for item in sorted(expected - there)),
    ]


def expect_none(wrong: Iterable[str], advice: str = "") -> None:
    """Fail with one line for each thing that is wrong."""
    lines = list(wrong)
    assert not lines, "\n".join([advice, *lines])
