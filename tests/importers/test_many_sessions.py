"""Tests that what one more recorded session costs does not grow with the sessions that are there."""

from __future__ import annotations

import apsw
import pytest

import stator
from stator.model.exchange.items import Called, Conversation, Prompted, Returned
from stator.runtime.ingest.placement import find
from stator.runtime.ingest.recorder import Recorder
from stator.store.sqlite import connection, projection
from stator.store.sqlite.queries import session_list

SESSIONS = 80


def record(store: stator.Store, number: int) -> None:
    talk = Conversation(source="cursor", id=f"c{number}")
    recorder = Recorder(store.port, store.context, talk, via="hook")
    recorder.take(Prompted(id="p", at=1, content="do it"))
    for call in range(3):
        recorder.take(Called(id=f"t{call}", at=2, tool="look", input={}))
        recorder.take(Returned(id=f"t{call}", at=3, status="ok", output="done"))
    recorder.flush()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


def test_the_ids_of_one_session_are_indexed_without_reading_those_of_the_others(path, monkeypatch):
    read: list[int] = []
    plain = connection.many

    def counted(*given):
        found = plain(*given)
        read.append(len(found))
        return found

    monkeypatch.setattr(projection, "many", counted)
    with stator.connect(path, project="shop") as store:
        for number in range(SESSIONS):
            record(store, number)
    assert max(read) < projection.NEIGHBOURS_MAX + 20
    with stator.connect(path, project="shop") as store:
        assert store.verify().ok
        for row in store.sessions().rows:
            for commit in store.read(row.id).log():
                assert store.port.locate(commit.id, row.id) == [(row.id, commit.seq)]


def test_a_session_is_found_by_its_alias_without_looking_at_the_others(path):
    with stator.connect(path, project="shop") as store:
        for number in range(3):
            record(store, number)
        for number in range(3):
            assert find(store.port, Conversation(source="cursor", id=f"c{number}")) is not None
    assert_begins_with_the_rows(path, session_list.ALIASED, source="cursor", foreign_id="c1")


def test_a_session_is_found_by_its_name_without_looking_at_the_others(path):
    with stator.connect(path, project="shop") as store:
        for number in range(3):
            record(store, number)
        names = [row.record.name for row in store.sessions().rows]
        assert [store.read(name).name for name in names] == names
    assert_begins_with_the_rows(path, session_list.NAMED, name=names[0], project="shop")


def assert_begins_with_the_rows(path, statement, **asked):
    """A page of sessions is found by their rows, and not by looking at all of them."""
    filters = ("name", "project", "tenant", "agent", "status", "mode", "parent", "suffix")
    given = dict.fromkeys((*filters, "source", "foreign_id"))
    given |= {"updated": 2**62, "s": 2**62, "limit": 2, **asked}
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    plan = [row[3] for row in db.execute("EXPLAIN QUERY PLAN " + statement, given)]
    db.close()
    assert not [step for step in plan if step in ("SCAN alias", "SCAN session", "SCAN one")]
    assert "SEARCH session USING INTEGER PRIMARY KEY (rowid=?)" in plan
