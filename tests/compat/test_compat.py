"""Databases written by earlier releases open, verify and answer the same, for ever."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import msgspec
import pytest

import stator
from stator.runtime.views.verify import verify
from stator.surfaces.cli.render import wire

DATA = Path(__file__).parent / "data"
RELEASES = sorted(path.stem for path in DATA.glob("*.db"))


@pytest.fixture(params=RELEASES)
def release(request, tmp_path):
    """A copy of a release's database, and what it answered when it was written."""
    name = request.param
    path = tmp_path / "store.db"
    shutil.copyfile(DATA / f"{name}.db", path)
    return path, json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def answers(path: Path) -> dict[str, object]:
    """Everything a person could ask of the store, as digests."""
    found: dict[str, object] = {}
    with stator.connect(path, create=False, read_only=True, project="compat") as store:
        for row in store.sessions(limit=100).rows:
            view = store.read(row.id)
            found[row.record.name] = {
                "id": row.id,
                "head": view.head.hash,
                "status": row.shown,
                "counts": msgspec.to_builtins(view.counts),
                "log": _digest([_as_then(wire.commit(commit)) for commit in view.log()]),
                "state": _digest(msgspec.to_builtins(view.state())),
                "first_turn": _digest(
                    msgspec.to_builtins(view.state("t1" if row.turns else "head"))
                ),
                "files": [f"{file.op} {file.path}" for file in view.files()],
                "decisions": [line.record.what for line in view.decisions(standing=True)],
                "failed": [call.tool for call in view.calls(status="failed")],
            }
    return found


ADDED = {"adopted": "", "after_in": "", "before_in": ""}
"""Fields that records have gained since, with their defaults."""


def _as_then(value: object) -> object:
    """What is shown of a record, without fields that no release before knew."""
    if isinstance(value, list):
        return [_as_then(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {k: _as_then(v) for k, v in value.items() if k not in ADDED or v != ADDED[k]}


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def test_there_is_a_database_of_every_release():
    assert [*RELEASES] == ["0.1.0", "0.2.0", "0.3.0", "0.4.0"]


def test_an_old_database_verifies(release):
    path, _ = release
    with stator.connect(path, create=False) as store:
        assert list(verify(store.port)) == []


def test_an_old_database_answers_as_it_did(release):
    path, known = release
    assert answers(path) == known


def test_an_old_database_answers_the_same_after_a_rebuild(release):
    path, known = release
    with stator.connect(path, create=False) as store:
        store.port.rebuild()
    assert answers(path) == known


def test_reading_an_old_database_leaves_every_byte_in_place(release):
    path, _ = release
    before = path.read_bytes()
    answers(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("bundle", sorted(DATA.glob("*.stator")), ids=lambda path: path.stem)
def test_an_old_bundle_is_taken_up_as_it_was(bundle, tmp_path):
    known = json.loads(bundle.with_suffix(".json").read_text(encoding="utf-8"))
    with stator.connect(tmp_path / "store.db", project="compat") as store:
        taken = store.import_bundle(bundle).sessions
        assert list(verify(store.port)) == []
        assert {each.name: each.head for each in taken} == {
            each.name: known[each.name]["head"] for each in taken
        }


def test_there_is_a_bundle_of_every_release_that_had_them():
    assert [path.stem for path in sorted(DATA.glob("*.stator"))] == [*RELEASES][2:]


def test_an_old_session_can_be_driven_on(release):
    path, known = release
    with stator.connect(path, create=False, project="compat") as store:
        with store.open("fix-login") as session, session.turn("go on") as t:
            t.decide("keep PASETO", topic="auth", why="it works")
        assert list(verify(store.port)) == []
        log = {commit.hash for commit in store.read("fix-login").log()}
        assert known["fix-login"]["head"] in log
