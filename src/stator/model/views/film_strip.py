"""Lays a stretch of a log out as a film strip: frame by frame, what was called, touched, seen and spent.

A frame is a turn, or a slice of one where a session has few. Everything is computed from the versions of records in
that stretch and from the state before it, so the cost does not depend on how long the session is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec

from stator.model.log.delta import Put, Version
from stator.model.log.query import TurnRow
from stator.model.records.types import (
    EvictedRecord,
    FileRecord,
    Record,
    SpendRecord,
    ToolRecord,
)

FRAMES_MAX = 40
FEW_TURNS = 12
"""With fewer turns than this, turns are cut into slices."""
SLICES = 48
FILES_MAX = 10
HEATS = (1, 2, 4, 8)
"""From how many writes on a cell is drawn one shade darker."""
COLLECTIONS = ("files", "tools", "spend", "evicted")
"""What a strip reads of a stretch."""
SHOWN_UNITS = ("tokens:in", "tokens:cache_read", "tokens:cache_write")
"""What an answer was made from, in tokens, as providers report it."""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One column: the commits from `first` to `last`, within one turn."""

    turn: int
    first: int
    last: int
    is_whole: bool = True
    """Whether it is a turn and not a slice of one."""

    @property
    def position(self) -> str:
        """The position at its end, as people write it."""
        return f"t{self.turn}" if self.is_whole else f"@{self.last}"


class FileFrames(msgspec.Struct, frozen=True, kw_only=True):
    """A file, frame by frame."""

    path: str
    writes: list[int]
    reads: list[bool]

    @property
    def heats(self) -> list[int]:
        """For each frame how dark it is drawn: 0 for no write, up to 4."""
        return [sum(count >= least for least in HEATS) for count in self.writes]


class FilmStrip(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a session, frame by frame."""

    frames: list[Frame]
    calls: list[int]
    failed: list[int]
    files: list[FileFrames]
    """The files that were written most; at most `FILES_MAX`."""
    more_files: int
    context: list[int | None]
    """Tokens that the last answer of each frame was made from; None where no provider reported it."""
    spent: list[dict[str, int]]
    """What was spent by the end of each frame."""
    compacted: list[int]
    """The frames with the first answer after a compaction."""


def frames_of(turns: Sequence[TurnRow], *, head: int) -> list[Frame]:
    """The frames of some turns that follow each other: the turns, or slices of them where they are few."""
    ends = [*(row.first - 1 for row in turns[1:]), head]
    whole = [
        Frame(turn=row.turn, first=row.first, last=max(end, row.first))
        for row, end in zip(turns, ends, strict=True)
    ]
    if not whole or len(whole) >= FEW_TURNS:
        return whole
    size = max(1, -(-(whole[-1].last - whole[0].first + 1) // SLICES))
    return [part for frame in whole for part in _slices(frame, size)]


def _slices(frame: Frame, size: int) -> list[Frame]:
    starts = range(frame.first, frame.last + 1, size)
    return [
        Frame(
            turn=frame.turn,
            first=start,
            last=min(start + size - 1, frame.last),
            is_whole=len(starts) == 1,
        )
        for start in starts
    ]


def film_strip(
    frames: Sequence[Frame], before: Iterable[Record], versions: Sequence[Version]
) -> FilmStrip:
    """`versions` are those of `COLLECTIONS` in the frames, in log order; `before` holds what was spent before the first
    frame, and each tool used in them as it was then."""
    lasts = [frame.last for frame in frames]
    count = len(frames)
    calls, failed, context = [0] * count, [0] * count, _Context(count)
    files: dict[str, FileFrames] = {}
    uses: dict[str, ToolRecord] = {}
    spend: dict[str, int] = {}
    for known in before:
        if isinstance(known, ToolRecord):
            uses[known.name] = known
        elif isinstance(known, SpendRecord):
            spend[known.unit] = known.amount
    spent: list[dict[str, int]] = [{} for _ in frames]
    at = 0
    for version in versions:
        frame = bisect_left(lasts, version.seq)
        while at < frame:
            spent[at] = dict(spend)
            at += 1
        record = version.op.record if isinstance(version.op, Put) else None
        if isinstance(record, ToolRecord):
            was = uses.get(record.name, ToolRecord(name=record.name))
            calls[frame] += max(0, record.uses - was.uses)
            failed[frame] += max(0, record.failures - was.failures)
            uses[record.name] = record
        elif isinstance(record, SpendRecord):
            if record.unit in SHOWN_UNITS:
                context.add(version.seq, frame, record.amount - spend.get(record.unit, 0))
            spend[record.unit] = record.amount
        elif isinstance(record, FileRecord):
            _touch(files, version.key, record, frame, count)
        elif isinstance(record, EvictedRecord) and not record.window:
            context.cut()
    for frame in range(at, count):
        spent[frame] = dict(spend)
    most = sorted(files.values(), key=lambda file: (-sum(file.writes), -sum(file.reads), file.path))
    return FilmStrip(
        frames=list(frames),
        calls=calls,
        failed=failed,
        files=_by_first_write(most[:FILES_MAX]),
        more_files=len(most[FILES_MAX:]),
        context=context.tokens,
        spent=spent,
        compacted=context.after_cuts,
    )


class _Context:
    """Adds up what one answer was made from: its units are recorded one by one, by the same commit."""

    def __init__(self, count: int) -> None:
        self.tokens: list[int | None] = [None] * count
        self.after_cuts: list[int] = []
        self._seq = 0
        self._is_cut = False

    def cut(self) -> None:
        self._is_cut = True

    def add(self, seq: int, frame: int, amount: int) -> None:
        known = self.tokens[frame] if seq == self._seq else 0
        self.tokens[frame] = (known or 0) + max(0, amount)
        self._seq = seq
        if self._is_cut and frame not in self.after_cuts:
            self.after_cuts.append(frame)
        self._is_cut = False


def _touch(
    files: dict[str, FileFrames], key: str, record: FileRecord, frame: int, count: int
) -> None:
    file = files.get(key)
    if file is None:
        file = files[key] = FileFrames(path=record.path, writes=[0] * count, reads=[False] * count)
    if record.op in ("read", "skipped"):
        file.reads[frame] = True
    else:
        file.writes[frame] += 1


def _by_first_write(files: Sequence[FileFrames]) -> list[FileFrames]:
    """Files in the order of their first frames, so that work moves down the strip as it moves right."""

    def first(file: FileFrames) -> tuple[int, int]:
        write = next((n for n, count in enumerate(file.writes) if count), len(file.writes))
        return write, next((n for n, read in enumerate(file.reads) if read), 0)

    return sorted(files, key=first)


def context_now(strip: FilmStrip, frame: int) -> int | None:
    """The tokens that the last answer until a frame was made from; None if no provider reported it."""
    return next(
        (known for known in reversed(strip.context[: frame + 1]) if known is not None), None
    )


def spent_values(strip: FilmStrip) -> list[int | None]:
    """What a curve of cost shows: money where prices are known, else tokens."""
    units = {unit for spend in strip.spent for unit in spend}
    priced = [unit for unit in units if unit.startswith("money:")] or ["tokens"]
    return [
        sum(spend.get(unit, 0) for unit in priced) if spend.keys() & set(priced) else None
        for spend in strip.spent
    ]
