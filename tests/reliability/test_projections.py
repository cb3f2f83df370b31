"""The log is the truth: every answer is the same after deleting everything else."""

from __future__ import annotations

import pytest

from reliability.support import answers, bare, findings, one_turn, populate
from stator.connect import connect
from stator.errors import StoreCorrupt

TRUTH = ("meta", "log", "blob", "blob_use", "session", "alias")


def projections(db) -> list[str]:
    """Every table that can be rebuilt from the others."""
    tables = db.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    ).fetchall()
    return [name for (name,) in tables if name not in TRUTH and not name.startswith("sqlite_")]


def fill(store) -> None:
    """Sessions long enough for snapshots, with a record in every collection."""
    populate(store, turns=4)
    with store.open("long") as session:
        for _ in range(3):
            with session.turn("count") as turn, turn.batch():
                for n in range(100):
                    turn.fact(f"fact {n % 60}", n)
                    if n % 10 == 0:
                        turn.file(f"src/f{n % 70}.py", "modified", after=f"{n:064x}")


def fork(store) -> None:
    """A fork, and a fork of the fork, each with its own turns."""
    store.fork("main", "t2", as_name="branch")
    with store.open("branch") as branch:
        for number in range(5, 8):
            one_turn(branch, number)
    store.fork("branch", "t5", as_name="twig")


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("filled") / "store.db"
    with connect(path, project="test") as store:
        fill(store)
    return path


@pytest.fixture
def forked(copy):
    with connect(copy, project="test") as store:
        fork(store)
    return copy


@pytest.fixture
def copy(filled, tmp_path):
    path = tmp_path / "copy.db"
    path.write_bytes(filled.read_bytes())
    return path


def ask(path) -> list[str]:
    with connect(path, project="test") as store:
        return answers(store).splitlines()


def first_difference(left: list[str], right: list[str]) -> tuple[str, str] | None:
    for a, b in zip(left, right, strict=False):
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0)
            return a[:40] + " … " + a[max(0, at - 60) : at + 60], b[max(0, at - 60) : at + 60]
    return None if len(left) == len(right) else (f"{len(left)} answers", f"{len(right)} answers")


def wipe(path) -> None:
    """Delete every projection row, as if nothing had ever been flushed."""
    db = bare(path)
    for table in projections(db):
        db.execute(f"DELETE FROM {table}")
    lows = db.execute(
        "SELECT s, coalesce((SELECT max(value ->> 'upto') FROM json_each(CAST(record AS TEXT), "
        "'$.lineage')), 0) FROM session"
    ).fetchall()
    for s, low in lows:
        db.execute("UPDATE session SET flushed = ?, dirty = 1, counts = x'' WHERE s = ?", (low, s))
    db.close()


def test_answers_are_the_same_without_any_projection(copy):
    before = ask(copy)
    wipe(copy)
    assert first_difference(before, ask(copy)) is None


def test_reading_a_fork_whose_parent_lost_its_indexes_is_an_error_with_a_hint(forked):
    wipe(forked)
    with pytest.raises(StoreCorrupt, match="indexes") as caught:
        ask(forked)
    assert "doctor --rebuild" in caught.value.hint


def test_answers_are_the_same_after_a_rebuild(forked):
    before = ask(forked)
    with connect(forked, project="test") as store:
        store.port.rebuild()
    assert first_difference(before, ask(forked)) is None


def test_answers_are_the_same_after_a_rebuild_without_projections(forked):
    before = ask(forked)
    wipe(forked)
    with connect(forked, project="test") as store:
        store.port.rebuild()
    assert first_difference(before, ask(forked)) is None


def test_a_rebuilt_store_verifies(forked):
    wipe(forked)
    with connect(forked, project="test") as store:
        store.port.rebuild()
    assert findings(forked) == []


def test_a_store_without_projections_verifies(copy):
    wipe(copy)
    assert findings(copy) == []


def test_a_session_continues_after_its_projections_were_lost(copy):
    wipe(copy)
    with connect(copy, project="test") as store:
        with store.open("main") as session:
            one_turn(session, 9)
        assert session.turns()[-1].status == "ok"
    assert findings(copy) == []


def test_losing_one_projection_is_reported_or_changes_no_answer(copy, filled):
    before = ask(copy)
    db = bare(copy)
    tables = projections(db)
    db.close()
    for table in tables:
        copy.write_bytes(filled.read_bytes())
        db = bare(copy)
        db.execute(f"DELETE FROM {table}")
        db.close()
        assert findings(copy) or first_difference(before, ask(copy)) is None, table


def test_answers_are_the_same_before_and_after_a_flush(path):
    with connect(path, project="test") as store:
        with store.open("main") as session:
            one_turn(session, 1)
            last = session.head.seq
            during = view_at(store, session.id, last)
        assert first_difference(during, view_at(store, session.id, last)) is None


def view_at(store, session: str, last: int) -> list[str]:
    """Answers up to a seq, which later commits do not change."""
    view = store.read(session)
    return [
        repr(view.files()),
        repr(view.decisions()),
        repr(view.calls()),
        repr(view.diff(f"t0..@{last}")),
        *(repr(store.port.entries(session, name, at=last)) for name in ("facts", "files", "tools")),
    ]


def test_a_listing_counts_turns_that_were_never_flushed(copy):
    def listed():
        with connect(copy, project="test") as store:
            return {row.record.name: row.turns for row in store.sessions().rows}

    before = listed()
    wipe(copy)
    assert listed() == before
