"""Lists the texts of records that a search can find."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from stator.errors import StatorError
from stator.model.records.types import DecisionRecord, FlagRecord, SessionRecord
from stator.model.values import canon

PARTS_MAX = 20_000
"""Texts of one value that are looked at."""


def strings(value: Any, *, names: bool = False, without: Collection[str] = ()) -> Iterator[str]:
    """The texts and numbers in a value, in order; with the names of fields, if they say something, and `without` what
    is in fields of these names."""
    left = PARTS_MAX
    waiting = [value]
    while waiting and left:
        left -= 1
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            inner = [
                part
                for pair in list(one.items())[:left]
                if pair[0] not in without
                for part in (pair if names else pair[1:])
            ]
            waiting += reversed(inner)
        elif isinstance(one, (list, tuple)):
            waiting += reversed(one[:left])
        elif isinstance(one, float) or (type(one) is int and one.bit_length() <= 128):
            yield str(one)


def _named(name: str, plain: Any) -> Iterator[str]:
    """A name and the value recorded under it, from its recorded form."""
    yield name
    try:
        yield from strings(canon.from_plain(plain), names=True)
    except StatorError:
        yield from strings(plain, names=True)


def named_value(record: Any) -> Iterator[str]:
    """What a record says that is a name and a value."""
    return _named(record.name, record.value)


def decision(record: DecisionRecord) -> Iterator[str]:
    yield from (record.topic, record.what, record.why, *record.over)
    for name, value in record.factors.items():
        yield from _named(name, value)


def flag(record: FlagRecord) -> tuple[str, ...]:
    """A project's flag on a session says nothing of what happened in it."""
    return () if record.on.startswith("s_") else (record.name, record.why)


def session(record: SessionRecord) -> tuple[str, ...]:
    if record.mode == "project":
        return ()
    return (record.name, record.agent, *record.labels.values())
