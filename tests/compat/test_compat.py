"""Databases written by earlier releases open, verify and give the same answers."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stator
from stator.model.records.row_types import Collection
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import PlanRecord, ReadStep, Record
from stator.runtime.views.verify import verify
from stator.surfaces.cli.render import wire

DATA = Path(__file__).parent / "data"
RELEASES = sorted(
    (path.stem for path in DATA.glob("*.db")), key=lambda name: [*map(int, name.split("."))]
)


@pytest.fixture(params=RELEASES)
def release(request, tmp_path):
    """A copy of a release's database, and what it answered when it was written."""
    name = request.param
    path = tmp_path / "store.db"
    shutil.copyfile(DATA / f"{name}.db", path)
    known = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    for answer in known.values():
        del answer["counts"]["live"]  # before 0.6, a fork's count was of its own records only
    return path, known


def answers(path: Path) -> dict[str, object]:
    """Digests of every answer the store gives."""
    found: dict[str, object] = {}
    with stator.connect(path, create=False, read_only=True, project="compat") as store:
        for row in store.sessions(limit=100).rows:
            view = store.read(row.id)
            found[row.record.name] = {
                "id": row.id,
                "head": view.head.hash,
                "status": row.shown,
                "counts": _counts(view),
                "log": _digest([_commit(wire.commit(commit)) for commit in view.log()]),
                "state": _state(view.state()),
                "first_turn": _state(view.state("t1" if row.turns else "head")),
                "files": [f"{file.op} {file.path}" for file in view.files()],
                "decisions": [line.record.what for line in view.decisions(standing=True)],
                "failed": [call.tool for call in view.calls(status="failed")],
            }
    return found


def _counts(view: Any) -> dict[str, Any]:
    """What a session counts, apart from its live records: those are compared with its state."""
    found = _known(msgspec.to_builtins(view.counts), SHAPE["counts"])
    del found["live"]
    return found


SHAPE = json.loads((DATA / "shape.json").read_text(encoding="utf-8"))
"""The collections and fields that are always compared. One that a later release added is compared
only where it holds something: an old database has nothing there, so its answers stay the same. `later` has the fields
of collections that the first release did not have."""
EMPTY: tuple[object, ...] = (None, "", 0, [], {})


def _commit(shown: dict[str, Any]) -> dict[str, Any]:
    """A commit as it is shown, without later fields that are empty."""
    changes = [_known(change, SHAPE["operation"]) for change in shown["delta"]]
    return _known(shown, SHAPE["commit"]) | {
        "delta": [change | {"record": _record(change)} for change in changes]
    }


def _record(change: dict[str, Any]) -> dict[str, Any] | None:
    shown: dict[str, Any] | None = change["record"]
    collection: str = change["collection"]
    names = SHAPE["collections"].get(collection) or SHAPE["later"].get(collection)
    if shown is None or names is None:
        return shown
    fields = msgspec.structs.fields(COLLECTIONS[collection].type)
    defaults = {field.name: field.default for field in fields}
    return _known(shown, names, defaults)


def _state(found: Mapping[str, Mapping[str, Record]]) -> str:
    """The digest of a state; its records omit defaults."""
    held = {
        name: {key: _as_recorded(record) for key, record in records.items()}
        for name, records in found.items()
    }
    return _digest(_known(msgspec.to_builtins(held), SHAPE["collections"]))


def _as_recorded(record: Record) -> Record:
    """A step as its record has it: since 0.9, whether it reads done or claimed is worked out on reading."""
    if not isinstance(record, ReadStep):
        return record
    fields = {name: getattr(record, name) for name in PlanRecord.__struct_fields__}
    return PlanRecord(**{**fields, "status": "done"})


def _known(
    shown: dict[str, Any], names: Container[str], defaults: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """The fields with one of these names, and other fields that are not empty."""
    return {
        name: value
        for name, value in shown.items()
        if name in names or (value not in EMPTY and value != (defaults or {}).get(name))
    }


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def test_every_release_has_a_database():
    assert [*RELEASES] == [
        "0.1.0",
        "0.2.0",
        "0.3.0",
        "0.4.0",
        "0.5.0",
        "0.6.0",
        "0.7.0",
        "0.8.0",
        "0.9.0",
        "0.10.0",
    ]


def test_an_old_database_verifies(release):
    path, _ = release
    with stator.connect(path, create=False) as store:
        assert list(verify(store.port)) == []


def test_an_old_database_gives_the_answers_it_gave(release):
    path, known = release
    assert answers(path) == known


def test_an_old_database_counts_the_records_of_its_states(release):
    path, _ = release
    with stator.connect(path, create=False, read_only=True, project="compat") as store:
        views = [store.read(row.id) for row in store.sessions(limit=100).rows]
        live = {view.id: view.counts.live for view in views}
        held = {
            view.id: {name: len(found) for name, found in view.state().items()} for view in views
        }
    assert live == {
        session: {name: size for name, size in sizes.items() if size}
        for session, sizes in held.items()
    }


class Reminder(Record, frozen=True):
    """A record of a kind that no release has."""

    name: str


def test_a_new_collection_does_not_change_the_answers_of_old_databases(release, monkeypatch):
    path, known = release
    number = max(one.number for one in COLLECTIONS.values()) + 1
    added = Collection(number=number, name="new", type=Reminder, key=("name",))
    monkeypatch.setitem(COLLECTIONS, "new", added)
    with stator.connect(path, create=False, read_only=True, project="compat") as store:
        assert store.read("fix-login").state()["new"] == {}
    assert answers(path) == known


@pytest.mark.parametrize(("value", "same"), [(0, True), (1, False)])
def test_a_new_field_is_compared_only_if_it_is_not_empty(release, monkeypatch, value, same):
    path, known = release
    shown = wire.record
    monkeypatch.setattr(wire, "record", lambda found: _with(shown(found), new=value))
    assert (answers(path) == known) is same


def _with(shown: dict[str, Any] | None, **more: object) -> dict[str, Any] | None:
    return None if shown is None else shown | more


def test_no_collection_or_field_of_a_release_was_removed():
    had: dict[str, list[str]] = SHAPE["collections"]
    there = {name: COLLECTIONS[name].type.__struct_fields__ for name in had}
    assert {name: set(fields) - set(there[name]) for name, fields in had.items()} == {
        name: set() for name in had
    }


def test_an_old_database_answers_the_same_after_a_rebuild(release):
    path, known = release
    with stator.connect(path, create=False) as store:
        store.port.rebuild()
    assert answers(path) == known


def test_reading_an_old_database_changes_no_byte(release):
    path, _ = release
    before = path.read_bytes()
    answers(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("bundle", sorted(DATA.glob("*.stator")), ids=lambda path: path.stem)
def test_an_old_bundle_is_imported_with_the_same_heads(bundle, tmp_path):
    known = json.loads(bundle.with_suffix(".json").read_text(encoding="utf-8"))
    with stator.connect(tmp_path / "store.db", project="compat") as store:
        taken = store.import_bundle(bundle).sessions
        assert list(verify(store.port)) == []
        assert {each.name: each.head for each in taken} == {
            each.name: known[each.name]["head"] for each in taken
        }


def test_every_release_with_bundles_has_one():
    assert {path.stem for path in DATA.glob("*.stator")} == {*RELEASES[2:]}


def test_an_old_session_can_still_be_driven(release):
    path, known = release
    with stator.connect(path, create=False, project="compat") as store:
        with store.open("fix-login") as session, session.turn("go on") as t:
            t.decide("keep PASETO", topic="auth", why="it works")
        assert list(verify(store.port)) == []
        log = {commit.hash for commit in store.read("fix-login").log()}
        assert known["fix-login"]["head"] in log


@pytest.fixture
def orders(tmp_path):
    """A copy of the database of 0.5.0, whose session "orders" has turns with keys."""
    path = tmp_path / "store.db"
    shutil.copyfile(DATA / "0.5.0.db", path)
    with stator.connect(path, create=False, project="compat") as store:
        yield store


@pytest.mark.parametrize("key", ["order 0", "order 39", "deploy AKIA" + "IOSFODNN7EXAMPLQ"])
def test_a_turn_that_an_old_release_recorded_with_a_key_is_found(orders, key):
    with orders.open("orders") as session:
        assert session.turn(key.partition(" AKIA")[0], key=key).reused


def test_an_interrupted_turn_of_an_old_release_is_continued_by_its_key(orders):
    with orders.open("orders") as session, session.turn("unfinished", key="unfinished") as t:
        assert t.continued


def test_a_fork_of_an_old_session_finds_its_keys(orders):
    orders.fork("orders", "t20", as_name="branch")
    with orders.open("branch") as session:
        assert session.turn("order 7", key="order 7").reused


def test_a_reader_finds_the_keys_that_an_old_release_recorded(tmp_path):
    path = tmp_path / "store.db"
    shutil.copyfile(DATA / "0.5.0.db", path)
    with stator.connect(path, create=False, read_only=True, project="compat") as store:
        rows = store.port.turns(store.read("orders").id, keys=["order 7", "unfinished"])
    assert [(row.turn, row.status) for row in rows] == [(8, "ok"), (42, "interrupted")]


def test_an_old_database_verifies_after_its_keys_were_indexed(orders):
    with orders.open("orders"):
        pass
    assert list(verify(orders.port)) == []
