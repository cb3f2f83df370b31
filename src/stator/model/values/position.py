"""Positions: how people and programs point into a log.

    head  head~3       the last commit; three commits before it
    t5  t0  t-1  t5.2  the end of turn 5; before everything; the end of the last turn that was not
                       rewound; a retry of turn 5
    @42                a seq
    3fa9c1 …           the start of a commit's hash or the end of its id
    release            a tag
    REF = [SESSION:]POSITION        RANGE = REF..REF

Parsing only; what a position means in a session is found by `runtime.views.refs`.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from stator.errors import BadPosition
from stator.model.values.late_pattern import late

_HEAD = late(r"(?:head|HEAD)(?:~(\d{1,12}))?\Z")
_TURN = late(r"t(-?\d{1,12})(?:\.(\d{1,6}))?\Z")
_SEQ = late(r"@(\d{1,13})\Z")
_HASH = late(r"(?:k_)?[0-9a-f]{6,64}\Z")
TEXT_MAX = 400


class AtHead(msgspec.Struct, frozen=True):
    """`back` commits before the head."""

    back: int = 0


class AtTurn(msgspec.Struct, frozen=True):
    """The end of a turn; negative counts from the last. `retry` is one of its siblings: 1 the
    original, 2 its first retry; 0 the turn of the current session."""

    turn: int
    retry: int = 0


class AtSeq(msgspec.Struct, frozen=True):
    seq: int


class AtName(msgspec.Struct, frozen=True):
    """A tag, or the start of a hash or end of an id if `maybe_hash`."""

    name: str
    maybe_hash: bool = False


Position = AtHead | AtTurn | AtSeq | AtName


class Ref(msgspec.Struct, frozen=True):
    """A position in a session; session "" means the current one."""

    position: Position
    session: str = ""
    text: str = ""


class Range(msgspec.Struct, frozen=True):
    """From one ref to another; `start` None means: what the turn at `end` did."""

    end: Ref
    start: Ref | None = None


def parse_position(text: str) -> Position:
    """A position, or `BadPosition` saying what positions look like."""
    if match := _HEAD.match(text):
        return AtHead(int(match[1] or 0))
    if match := _TURN.match(text):
        turn, retry = int(match[1]), int(match[2] or 0)
        if match[2] is not None and (retry < 1 or turn < 1):
            raise _bad(text)
        return AtTurn(turn, retry)
    if match := _SEQ.match(text):
        return AtSeq(int(match[1]))
    if not text or len(text) > TEXT_MAX or text.startswith(("@", "~", "-", ".")) or ".." in text:
        raise _bad(text)
    if any(char < " " or "\ud800" <= char <= "\udfff" for char in text):
        raise _bad(text)
    return AtName(text, bool(_HASH.match(text)))


def check_tag(name: str) -> str:
    """Refuse names that read as a position or a session: such a tag could never be found again."""
    usable = isinstance(parse_position(name), AtName) and ":" not in name
    if not usable or name == "last" or not name.strip():
        raise BadPosition(
            f"{name!r:.60} cannot be a tag", hint="it reads as a position; choose a word"
        )
    return name


def parse_ref(text: str) -> Ref:
    """`[SESSION:]POSITION`; a session alone is `SESSION:`, which means its head."""
    if not isinstance(text, str):
        raise _bad(text)
    session, colon, position = text.rpartition(":")
    if any("\ud800" <= char <= "\udfff" for char in session):
        raise _bad(text)
    if colon and not position:
        return Ref(AtHead(), session, text)
    return Ref(parse_position(position), session, text)


def parse_range(text: str) -> Range:
    """`A..B`, or one ref: what the turn that ends there did."""
    if not isinstance(text, str):
        raise _bad(text)
    start, dots, end = text.partition("..")
    if not dots:
        return Range(parse_ref(text))
    return Range(parse_ref(end or "head"), parse_ref(start or "t0"))


def turn_numbers(
    text: str | None, last: int, left: Collection[int] = frozenset()
) -> tuple[int, int]:
    """The turns that `t3`, `t3..t5`, `t3..` or `t-1` name, both ends with them; without a word, all.

    `left`: turns that were rewound; they do not count from the end.
    """
    if text is None:
        return 1, last
    start, dots, end = text.partition("..")
    numbers = []
    for part, default in ((start, 1), (end if dots else start, last)):
        place = parse_position(part) if part else AtTurn(default)
        if not isinstance(place, AtTurn) or place.retry:
            raise BadPosition(f"not turns: {text!r:.60}", hint="t3, t3..t5, t3.. or t-1")
        numbers.append(_from_end(-place.turn, last, left) if place.turn < 0 else place.turn)
    first, upto = numbers
    if not 1 <= first <= upto <= last:
        raise BadPosition(
            f"no turns {text!r:.60}: there are {last}", hint="t3, t3..t5, t3.. or t-1"
        )
    return first, upto


def _from_end(count: int, last: int, left: Collection[int]) -> int:
    """The number of a turn counted from the last; 0 if the session has fewer turns."""
    for number in range(last, 0, -1):
        count -= number not in left
        if not count:
            return number
    return 0


def _bad(text: object) -> BadPosition:
    return BadPosition(
        f"not a position: {text!r:.60}",
        hint="try head, head~3, t5, t-1, @42, a hash, a tag, or a range such as t4..t5",
    )
