"""Tests that a file which did not change since it was imported is not read again, and how to have it read anyway."""

from __future__ import annotations

import os

import pytest

import stator
from importers.claude_code_writer import SESSION, TranscriptWriter
from stator.importers.claude_code.transcript import ClaudeCode
from stator.importers.discover import discover
from stator.importers.run import import_transcripts
from stator.store.sqlite.store import SqliteStore

LONG = "x" * 20_000
"""More than the bytes by which a file is recognized."""


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "agent.db", project="x") as opened:
        yield opened


@pytest.fixture
def writer(tmp_path):
    path = tmp_path / "talks" / f"{SESSION}.jsonl"
    path.parent.mkdir()
    writer = TranscriptWriter(path)
    for n in range(3):
        writer.prompt(f"question {n} {LONG}")
        writer.says(f"m{n}", f"answer {n} {LONG}", stop="end_turn")
    return writer


@pytest.fixture
def file(writer):
    return writer.path


@pytest.fixture
def reads(monkeypatch):
    """The files that were read for what is new in them."""
    seen: list[str] = []
    read = ClaudeCode.read

    def counted(self, found, *rest, **options):
        seen.append(found.path)
        return read(self, found, *rest, **options)

    monkeypatch.setattr(ClaudeCode, "read", counted)
    return seen


def take_in(store, file, **options):
    return import_transcripts(store, discover([file]), **options).total


def replaced_in_place(file, old, new):
    """Other bytes of the same length, in a file that looks as if nothing had changed."""
    before = file.stat()
    with file.open("r+b") as opened:
        data = opened.read()
        assert data.count(old) == 1
        opened.seek(data.index(old))
        opened.write(new)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_an_unchanged_file_is_not_read_again(store, file, reads):
    assert take_in(store, file).sessions == 1
    reads.clear()
    assert take_in(store, file).unchanged == 1
    assert reads == []


def test_a_file_that_has_grown_since_is_read(store, writer, file):
    take_in(store, file)
    writer.prompt("and another")
    assert take_in(store, file).turns == 1


def test_a_file_that_was_touched_is_read_and_found_unchanged(store, file, reads):
    take_in(store, file)
    reads.clear()
    os.utime(file)
    assert take_in(store, file).unchanged == 1
    assert len(reads) > 0


def test_a_change_in_place_is_found_when_it_is_imported_again(store, file):
    take_in(store, file)
    replaced_in_place(file, b'"m1"', b'"m9"')
    assert take_in(store, file).commits == 0
    assert take_in(store, file, again=True).commits > 0


def test_an_unchanged_file_costs_two_questions_to_the_store(store, file, monkeypatch):
    take_in(store, file)
    asked: list[str] = []
    for name in ("sessions", "session", "bookmark", "entries", "head", "commits", "append"):
        real = getattr(SqliteStore, name)

        def counted(self, *given, _name=name, _real=real, **options):
            asked.append(_name)
            return _real(self, *given, **options)

        monkeypatch.setattr(SqliteStore, name, counted)
    discovery = discover([file])
    asked.clear()
    import_transcripts(store, discovery)
    assert asked.count("bookmark") == 1
    assert len(asked) <= 4  # two of them are asked once for the whole import
