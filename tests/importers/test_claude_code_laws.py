"""Tests that a Claude Code transcript gives the same items in whatever pieces it is read."""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from importers.claude_code_events import EventWriter, transcripts
from importers.claude_code_writer import SESSION, TranscriptWriter
from stator.importers.claude_code.transcript import FORMAT
from stator.importers.reading.found_conversation import FoundConversation
from stator.model.exchange.items import Cursor, Item, Noise, Skipped

DATA = Path(__file__).parent / "data" / "claude-code"
REAL = os.environ.get("STATOR_TRANSCRIPTS", "")
STATE_MAX = 16_000
"""The most bytes of a cursor that this test allows; it is written with every append."""
many = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Growing:
    """A transcript that is written piece by piece."""

    def __init__(self, folder: str, source: Path) -> None:
        (self.found, *_) = FORMAT.conversations(source)
        self.data = source.read_bytes()
        path = Path(folder) / source.name
        if fork_of := self.found.conversation.fork_of:
            shutil.copy(source.with_name(f"{fork_of}.jsonl"), folder)
        self.path = path
        self.found = msgspec.structs.replace(self.found, path=str(path))

    def read(
        self, end: int, cursor: Cursor | None = None, *, at_rest: bool = False
    ) -> tuple[list[Item], Cursor]:
        """Read the first bytes of the file from a cursor; return the items, and a cursor that was written as JSON."""
        self.path.write_bytes(self.data[:end])
        return read(self.found, cursor, at_rest=at_rest)

    def lines(self) -> list[int]:
        """The offsets after each line."""
        return [place + 1 for place, byte in enumerate(self.data) if byte == 10]


def read(
    found: FoundConversation, cursor: Cursor | None, *, at_rest: bool
) -> tuple[list[Item], Cursor]:
    told = list(FORMAT.read(found, cursor, None, at_rest=at_rest))
    last = told[-1]
    assert isinstance(last, Cursor)
    written = msgspec.json.encode(last)
    assert len(written) < STATE_MAX
    return [item for item in told if not isinstance(item, Cursor)], msgspec.json.decode(
        written, type=Cursor
    )


def recorded(told: list[Item]) -> list[Item]:
    """What is recorded, and not only counted."""
    return [item for item in told if not isinstance(item, (Noise, Skipped))]


def obeys(growing: Growing, cuts: list[int]) -> None:
    """Each prefix gives a prefix of the items, and reading continues exactly where it stopped."""
    whole, _ = growing.read(len(growing.data))
    told: list[Item] = []
    cursor: Cursor | None = None
    for cut in [*sorted(cuts), len(growing.data)]:
        more, cursor = growing.read(cut, cursor)
        told += more
        assert told == whole[: len(told)]
        assert growing.read(cut)[0] == told
    assert told == whole
    at_rest, _ = growing.read(len(growing.data), at_rest=True)
    assert growing.read(len(growing.data), cursor, at_rest=True)[0] == at_rest[len(told) :]


def written(folder: str, events: list[tuple[str, int]]) -> tuple[Growing, EventWriter]:
    source = Path(folder) / "source"
    source.mkdir()
    writer = EventWriter(TranscriptWriter(source / f"{SESSION}.jsonl"))
    writer.play(events)
    return Growing(folder, writer.file.path), writer


@many
@given(transcripts, st.lists(st.floats(0, 1), max_size=5), st.booleans())
def test_a_transcript_read_in_pieces_gives_the_items_of_the_whole(events, places, is_bytes):
    with tempfile.TemporaryDirectory() as folder:
        growing, _ = written(folder, events)
        ends = list(range(len(growing.data) + 1)) if is_bytes else [0, *growing.lines()]
        obeys(growing, [ends[int(place * (len(ends) - 1))] for place in places])


@many
@given(transcripts, st.lists(st.floats(0, 1), max_size=4))
def test_what_was_read_at_a_rest_and_then_continued_is_the_same_as_the_whole(events, places):
    with tempfile.TemporaryDirectory() as folder:
        growing, writer = written(folder, events)
        ends = [0, *growing.lines()]
        rests = [writer.rests[int(place * (len(writer.rests) - 1))] for place in places]
        told: list[Item] = []
        cursor: Cursor | None = None
        for end in [*(ends[rest] for rest in sorted(rests)), len(growing.data)]:
            more, cursor = growing.read(end, cursor, at_rest=True)
            told += more
        whole, _ = growing.read(len(growing.data), at_rest=True)
        assert recorded(told) == recorded(whole)


@many
@given(transcripts, transcripts, st.lists(st.floats(0, 1), max_size=5))
def test_a_fork_read_in_pieces_gives_the_items_of_the_whole(before, after, places):
    with tempfile.TemporaryDirectory() as folder:
        parent, _ = written(folder, before)
        other = "99999999-2222-4333-8444-555555555555"
        fork = TranscriptWriter(Path(folder) / "source" / f"{other}.jsonl", other)
        for line in parent.data.splitlines():
            fork.raw(as_copied(line, other))
        fork.count = 10_000
        fork.prompt("another way", promptId="p-fork")
        EventWriter(fork).play(after)
        growing = Growing(folder, fork.path)
        assert growing.found.conversation.fork_of == SESSION
        ends = growing.lines()
        obeys(growing, [ends[int(place * (len(ends) - 1))] for place in places])


def as_copied(line: bytes, session: str) -> bytes:
    """A line as a fork copies it: with its uuid, the fork's id, and the id of the fork's first prompt."""
    try:
        record = json.loads(line)
    except ValueError:
        return line
    if not isinstance(record, dict):
        return line
    named = {"promptId": "p-fork"} if "promptId" in record else {}
    return json.dumps({**record, "sessionId": session, **named}).encode()


@many
@given(transcripts, st.lists(st.integers(0, 10_000), min_size=1, max_size=4))
def test_every_cursor_among_the_items_continues_with_the_items_after_it(events, chosen):
    with tempfile.TemporaryDirectory() as folder:
        growing, _ = written(folder, events)
        growing.path.write_bytes(growing.data)
        told = list(FORMAT.read(growing.found, None, None, at_rest=False))
        places = [place for place, item in enumerate(told) if isinstance(item, Cursor)]
        for number in chosen:
            place = places[number % len(places)]
            rest = [item for item in told[place:] if not isinstance(item, Cursor)]
            assert read(growing.found, told[place], at_rest=False)[0] == rest


FIXTURES = sorted(DATA.rglob("*.jsonl"))
OTHERS = {"hooks.stdin.jsonl"}


def files(folder: Path) -> list[Path]:
    found = [path for path in sorted(folder.rglob("*.jsonl")) if path.name not in OTHERS]
    return [path for path in found if any(True for _ in FORMAT.conversations(path))]


@pytest.mark.parametrize("path", files(DATA), ids=lambda path: path.name)
def test_each_fixture_read_in_pieces_gives_the_items_of_the_whole(path, tmp_path):
    growing = Growing(str(tmp_path), path)
    obeys(growing, growing.lines())
    chance = random.Random(path.name)
    obeys(growing, [chance.randrange(len(growing.data)) for _ in range(20)])


REAL_FILES = (
    [
        path
        for folder in ("claude-code", "generated/claude-code-2.1.325")
        for path in files(Path(REAL) / folder)
    ]
    if REAL
    else []
)


@pytest.mark.skipif(not REAL, reason="STATOR_TRANSCRIPTS names no folder of recorded sessions")
@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.name)
def test_each_real_transcript_read_in_pieces_gives_the_items_of_the_whole(path, tmp_path):
    growing = Growing(str(tmp_path), path)
    chance = random.Random(path.name)
    ends = growing.lines()
    obeys(growing, [chance.choice(ends) for _ in range(6)])
    obeys(growing, [chance.randrange(len(growing.data)) for _ in range(6)])
