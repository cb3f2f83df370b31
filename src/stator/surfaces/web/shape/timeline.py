"""Places what a person looks for in a session on a line of time: turns, failures, waiting, what left the view.

Newest at the top, as on the page beside it. Only places are worked out here; a template draws them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stator.model.brief.command_words import gist, parts
from stator.model.values.escape import visible
from stator.surfaces.cli.render.times import day, hour, span
from stator.surfaces.web.shape.call_view import CallView
from stator.surfaces.web.shape.turn_view import CutView, NoteView, SubView, TurnView

MARKS_MAX = 26
"""Marks that are drawn; the least important are left out first."""
STEP, WAIT, TOP = 24, 32, 14
WORDS_MAX = 25
"""Characters of a mark's words: the picture has a fixed width."""
NAMED_MAX = 18
"""Characters of the name of a call that failed, before what became of it."""
IDLE_MIN = 5 * 60 * 1_000_000
"""µs between two turns from which on that is shown as waiting."""
RANKS = {"turn": 0, "doubt": 0, "fail": 1, "wait": 1, "cut": 2, "git": 3, "sub": 3}


class TimelineMark(msgspec.Struct, kw_only=True):
    """Something that happened, at its place."""

    kind: str
    """turn, doubt, fail, wait, cut, git or sub."""
    at: int
    words: str
    anchor: str = ""
    strong: str = ""
    waits: bool = False
    """Whether the time up to the mark above was spent waiting for a person."""
    y: int = 0
    hour: str = ""


class TimelineSegment(msgspec.Struct, frozen=True):
    """The line between two marks."""

    y: int
    height: int
    waits: bool


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """A picture of a session or a turn, and the same in words."""

    marks: list[TimelineMark]
    segments: list[TimelineSegment]
    height: int
    words: str


def timeline(turns: Sequence[TurnView]) -> Timeline | None:
    """The picture of some turns, newest first; None where there is no time or nothing to see."""
    if not turns or not turns[0].times:
        return None
    marks = _chosen([mark for turn in turns for mark in reversed(list(_marks(turn)))])
    _mark_idle(turns, marks)
    y, segments = TOP, []
    for place, mark in enumerate(marks):
        mark.y = y
        mark.hour = hour(mark.at)
        mark.words = _cut(mark.words, WORDS_MAX - len(mark.strong))
        if place + 1 < len(marks):
            below = marks[place + 1]
            height = WAIT if below.waits else STEP
            segments.append(TimelineSegment(y + 6, height - 12, below.waits))
            y += height
    told = "; ".join(f"{m.hour} {m.strong} {m.words}".replace("  ", " ") for m in reversed(marks))
    words = f"{day(marks[-1].at)}: {told}" if marks else ""
    return Timeline(marks=marks, segments=segments, height=y + TOP, words=words)


def _marks(turn: TurnView) -> Iterator[TimelineMark]:
    asked = " ".join(turn.ask.text.split())
    yield TimelineMark(
        kind="turn", at=turn.at, words=asked, strong=f"t{turn.number}", anchor=f"t{turn.number}"
    )
    failed: TimelineMark | None = None
    times = 0
    for line in turn.items:
        mark = _mark(line)
        if mark is None:
            continue
        if mark.kind == "fail" and failed is not None and failed.words == mark.words:
            times += 1
            failed.strong = f"{times}×"
            continue
        failed, times = (mark, 1) if mark.kind == "fail" else (None, 0)
        yield mark


def _mark(line: object) -> TimelineMark | None:
    if isinstance(line, CallView):
        return _call(line)
    if isinstance(line, CutView):
        return TimelineMark(kind="cut", at=line.at, words="view shortened", anchor=f"c{line.seq}")
    if isinstance(line, NoteView) and line.icon == "git":
        return (
            None
            if "pushed" in line.text
            else TimelineMark(
                kind="git",
                at=line.at,
                words=f"committed {line.text[:8].strip()}",
                anchor=f"c{line.seq}",
            )
        )
    if isinstance(line, SubView):
        return TimelineMark(
            kind="sub", at=line.at, words=f"sub-agent {line.name}", anchor=f"c{line.seq}"
        )
    return None


def _call(call: CallView) -> TimelineMark | None:
    words = _named(call)
    anchor = f"c{call.seq}"
    if call.status == "in doubt":
        return TimelineMark(kind="doubt", at=call.at, words=f"in doubt: {words}", anchor=anchor)
    if call.status == "awaiting approval":
        return TimelineMark(kind="wait", at=call.at, words="waits for you", anchor=anchor)
    if call.act == "question":
        waited = f"asked you, waited {span(call.took)}" if call.took else "asked you"
        return TimelineMark(kind="wait", at=call.at, words=waited, anchor=anchor, waits=True)
    if call.is_failed:
        more = ", repaired" if call.repair is not None else ""
        return TimelineMark(
            kind="fail", at=call.at, words=f"{_cut(words, NAMED_MAX)} failed{more}", anchor=anchor
        )
    return None


def _named(call: CallView) -> str:
    """A call in a few words: the program and its verb, or the verb and the name of a file."""
    if call.act == "shell":
        words = parts(call.about[:400])
        named = gist(words[-1]).split() if words else ["command"]
        return " ".join(word.rpartition("/")[2] or word for word in named)
    about = call.about.rpartition("/")[2] if call.is_path else call.about
    return f"{call.verb.lower()} {about}"


def _chosen(marks: list[TimelineMark]) -> list[TimelineMark]:
    """As many marks as there is room for, in their order."""
    for rank in (3, 2, 1):
        if len(marks) <= MARKS_MAX:
            break
        marks = [mark for mark in marks if RANKS[mark.kind] < rank]
    return marks[:MARKS_MAX]


def _mark_idle(turns: Sequence[TurnView], marks: Sequence[TimelineMark]) -> None:
    """Mark the time between two turns in which nothing happened."""
    by_anchor = {f"t{turn.number}": turn for turn in turns}
    newer: TurnView | None = None
    for place, mark in enumerate(marks):
        turn = by_anchor.get(mark.anchor) if mark.kind == "turn" else None
        if turn is None:
            continue
        newer = turn
        if place + 1 < len(marks) and (older := _older(turns, newer)) is not None:
            marks[place + 1].waits |= newer.at - older.until > IDLE_MIN


def _older(turns: Sequence[TurnView], newer: TurnView) -> TurnView | None:
    place = turns.index(newer) + 1
    return turns[place] if place < len(turns) else None


def _cut(words: str, most: int) -> str:
    words = visible(" ".join(words[: 4 * most].split()))
    return words if len(words) <= most else words[: most - 1] + "…"
