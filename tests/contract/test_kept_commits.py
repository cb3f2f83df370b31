"""A process that reads a log again decodes only the rows that are new or that an erasure changed."""

from __future__ import annotations

from typing import Any

import pytest

import stator
from stator.store import kept_commits, rows
from stator.store.kept_commits import KeptCommits


@pytest.fixture
def decoded(monkeypatch):
    """The seqs of the rows that are decoded, by a process that keeps none yet."""
    found: list[int] = []
    below = rows._decoded

    def counted(session: str, seq: int, *row: Any) -> Any:
        found.append(seq)
        return below(session, seq, *row)

    monkeypatch.setattr(rows, "_kept", KeptCommits())
    monkeypatch.setattr(rows, "_decoded", counted)
    return found


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "agent.db", project="shop") as opened:
        yield opened


def talk(store, number):
    with store.open("a") as s:
        for n in range(number):
            with s.turn(f"prompt {n}") as t:
                t.say(f"answer {n}")
    return s.id


def bare(store, session):
    return store.port.commits(session, load=False)


def test_a_row_is_decoded_once_however_often_it_is_read(store, decoded):
    session = talk(store, 5)
    decoded.clear()
    first = bare(store, session)
    assert len(decoded) <= len(first)
    decoded.clear()
    assert bare(store, session) == first
    assert decoded == []


def test_a_reader_that_stays_decodes_what_was_appended_since(store, tmp_path, decoded):
    session = talk(store, 5)
    with stator.connect(tmp_path / "agent.db", read_only=True, project="shop") as reader:
        known = len(bare(reader, session))
        talk(store, 1)
        decoded.clear()
        grown = bare(reader, session)
    assert set(decoded) <= {commit.seq for commit in grown[known:]}


def test_what_was_erased_is_not_read_from_what_was_kept(store, decoded):
    session = talk(store, 2)
    said = next(one for one in bare(store, session) if one.kind == "entry")
    assert said.known("output") is not None
    with store.open("a") as s:
        s.erase(f"@{said.seq}")
    again = next(one for one in bare(store, session) if one.seq == said.seq)
    assert again.known("output") is None


def test_a_commit_read_with_its_blobs_is_not_kept(store, decoded):
    session = talk(store, 1)
    decoded.clear()
    store.port.commits(session)
    store.port.commits(session)
    assert len(decoded) == 2 * len(set(decoded))


def test_what_is_kept_is_bounded_by_number_and_by_size(store, monkeypatch):
    session = talk(store, 4)
    commits = bare(store, session)
    row = (b"i", b"h", b"s", b"b")

    def kept() -> list[int]:
        cache = KeptCommits()
        for commit in commits:
            cache.keep(b"p", row, commit)
        return [one.seq for one in commits if cache.find(session, one.seq, b"p", row) is not None]

    assert kept() == [one.seq for one in commits]
    with monkeypatch.context() as few:
        few.setattr(kept_commits, "COMMITS_MAX", 3)
        assert kept() == [one.seq for one in commits[-3:]]
    with monkeypatch.context() as small:
        small.setattr(kept_commits, "BYTES_MAX", 0)
        assert all(not commits[seq - 1].content for seq in kept())


def test_a_row_that_differs_in_one_byte_is_another_row(store):
    session = talk(store, 1)
    (first, *_) = bare(store, session)
    row = (b"i", b"h", b"s", b"b")
    others = [(b"q", row), *((b"p", (*row[:n], b"x", *row[n + 1 :])) for n in range(4))]
    cache = KeptCommits()
    cache.keep(b"p", row, first)
    assert cache.find(session, 1, b"p", row) is first
    for prev, (one, two, three, four) in others:
        assert cache.find(session, 1, prev, (one, two, three, four)) is None
