"""How much work an append is: transactions, statements and syncs, which no load of the machine changes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest

import stator
from stator.runtime.driving.tools import Tool
from stator.store.contract.drive import Drafts, Ids
from stator.store.sqlite import SqliteStore, create

TOOLS = (
    Tool(lambda **_: "text", name="Read", effect="read"),
    Tool(lambda **_: "lines", name="Grep", effect="read"),
    Tool(lambda **_: "done", name="Edit", effect="write"),
)


class Work:
    """Counts the statements of a store's writer, and under which level of syncing each COMMIT came."""

    def __init__(self, port: Any) -> None:
        self._writer = port._writer
        self.statements: Counter[str] = Counter()
        self.commits: list[str] = []

    def __enter__(self) -> Work:
        self._writer.open().exec_trace = self._count
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.open().exec_trace = None

    def _count(self, cursor: Any, sql: str, values: Any) -> bool:
        self.statements[sql.split()[0]] += 1
        if sql == "COMMIT":
            self.commits.append(self._writer._synchronous)
        return True


def a_turn(session: Any) -> None:
    """A turn of a coding agent: a prompt; a read, a read and a write; an answer with what it changed."""
    with session.turn("fix the parser") as t:
        for tool in TOOLS:
            t.call(tool, path="a.py")
        with t.batch():
            t.file("a.py", "modified", before="d1", after="d2")
            t.file("b.py", "created", after="d3")
            t.decide("use a table", topic="parser", why="it is shorter")
            t.plan("parse", "done")
            t.say("I fixed the parser.")
            t.end()


@pytest.mark.parametrize(("mode", "synced"), [("full", 8), ("barrier", 3), ("relaxed", 0)])
def test_a_turn_is_eight_transactions_and_syncs_as_its_mode_promises(
    tmp_path: Path, mode: Literal["full", "barrier", "relaxed"], synced: int
) -> None:
    store = stator.connect(tmp_path / "store.db", durability=mode)
    with store.open("work") as session:
        a_turn(session)  # the first one also opens what later ones find open
        with Work(store.port) as work:
            a_turn(session)
    assert work.statements["BEGIN"] == len(work.commits) == 8
    assert work.commits.count("FULL") <= synced
    if mode == "full":
        assert work.commits.count("FULL") == synced
    store.close()


def test_an_append_of_one_commit_is_one_insert_between_begin_and_commit(tmp_path: Path) -> None:
    create(str(tmp_path / "store.db"))
    store = SqliteStore(str(tmp_path / "store.db"), durability="full")
    make = Drafts(Ids("work"), Ids("work")("session"))
    store.create([make.open("work", mode="recorded")])
    store.append(make.session, [make.make("fact", why="first")], fresh=True)
    with Work(store) as work:
        store.append(make.session, [make.make("fact", why="second")], fresh=True)
    assert work.statements == {"BEGIN": 1, "INSERT": 1, "COMMIT": 1}
    with Work(store) as work:
        several = [make.make("fact", why=str(n)) for n in range(5)]
        store.append(make.session, several, fresh=True)
    assert work.statements == {"BEGIN": 1, "INSERT": 5, "COMMIT": 1}
    store.close()


def test_the_system_is_asked_for_random_bytes_once_for_many_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(str(tmp_path / "store.db"))
    asked: list[int] = []
    system = os.urandom

    def counted(size: int) -> bytes:
        asked.append(size)
        return system(size)

    monkeypatch.setattr(os, "urandom", counted)
    store = SqliteStore(str(tmp_path / "store.db"), durability="relaxed")
    make = Drafts(Ids("work"), Ids("work")("session"))
    store.create([make.open("work", mode="recorded")])
    commits = []
    for number in range(200):
        commits += store.append(make.session, [make.make("fact", why=str(number))], fresh=True)
    assert len({commit.salt for commit in commits}) == 200
    assert len(asked) <= 5
    store.close()
