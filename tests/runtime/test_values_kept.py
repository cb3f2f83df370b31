"""A value that was recorded stays the same value, whatever is done to the session that holds it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

import stator
from runtime.conftest import memory_store
from runtime.support import Died, driving, says
from stator.model.values import canon
from strategies import foreign_values, same

MANY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
VALUES = [1.5, b"\x00\x01", 2**70, (1, 2), "a\ud800b", {"$f": "1.5"}, [{"$b": (True, 1, 1.0)}]]
"""What JSON lacks or ruins, and what looks like a tag."""


def every_value(test: Any) -> Any:
    for value in VALUES:
        test = example(value=value)(test)
    return MANY(given(value=foreign_values)(test))


def notes(session: Any, at: str = "head") -> dict[str, bytes]:
    """The scratch notes by name, each as the bytes of its whole record."""
    records = session.state(at, collections=["scratch"])["scratch"].values()
    return {record.name: canon.encode(record) for record in records}


def kept(session: Any, at: str = "head") -> dict[str, bytes]:
    """Every record that holds a value of the caller's, as bytes by collection."""
    names = ["facts", "preferences", "app", "scratch", "decisions"]
    found = session.state(at, collections=names)
    return {
        f"{name} {record_id}": canon.encode(record)
        for name, records in found.items()
        for record_id, record in records.items()
    }


def record_all(turn: Any, value: Any) -> None:
    """Record a value wherever a session holds one."""
    turn.fact("fact", value)
    turn.prefer("preference", value)
    turn.note("note", value)
    turn.set(field=value)
    turn.decide("decided", topic="topic", factors={"factor": value})


@every_value
def test_undoing_a_compaction_restores_notes_byte_for_byte(value):
    with memory_store().open("main") as s, s.turn("work") as t:
        t.note("note", value)
        before = notes(s)
        for n in range(4):
            t.reply(says(text=f"answer {n}"))
        s.compact(keep=1, strategy=("mask", "summarise"), summary="short", scratch=True)
        assert notes(s) == {}
        s.undo_compaction()
        assert notes(s) == before


@every_value
def test_a_rewind_restores_values_byte_for_byte(value):
    with memory_store().open("main") as s:
        with s.turn("one") as t:
            record_all(t, value)
        before = kept(s)
        with s.turn("two") as t:
            record_all(t, "another")
        s.rewind("t1")
        assert kept(s) == before


@every_value
def test_a_fork_has_its_parents_values_byte_for_byte(value):
    store = memory_store()
    with store.open("main") as s, s.turn("one") as t:
        record_all(t, value)
    assert kept(store.fork("main", "head", as_name="fork")) == kept(store.read("main"))


@every_value
def test_what_is_recalled_is_the_value_that_was_recorded(value):
    with memory_store().open("main") as s, s.turn("one") as t:
        record_all(t, value)
        recalled = {key: s.recall(f"{key}:{key}").content for key in ("fact", "preference")}
        for content in recalled.values():
            assert same(content["value"], canon.loads(canon.dumps(value)))
        assert same(
            s.recall("decision:topic").content["factors"]["factor"],
            canon.loads(canon.dumps(value)),
        )


@every_value
def test_a_bundle_carries_values_byte_for_byte(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("bundle") / "one.stator"
    store, other = memory_store(), memory_store()
    with store.open("main") as s, s.turn("one") as t:
        record_all(t, value)
    store.export(["main"], path)
    other.import_bundle(path)
    assert kept(other.read("main")) == kept(store.read("main"))


@every_value
def test_a_program_that_runs_again_records_a_value_once(value):
    store = memory_store()
    with driving(store) as s, s.turn("one") as t:
        record_all(t, value)
        raise Died
    before = kept(store.read("main"))
    with driving(store) as s, s.turn("one") as t:
        record_all(t, value)
    assert kept(store.read("main")) == before
    kinds = [commit.kind for commit in store.read("main").log()]
    assert kinds.count("decision") == kinds.count("fact") == kinds.count("scratch") == 1


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_secret_beside_a_value_leaves_the_value_as_it_is(memory, value):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with memory.open("main") as s, s.turn("one") as t:
        t.decide("decided", topic="topic", why=f"use {secret}", factors={"factor": value})
        (entry,) = s.entries("decisions")
    assert secret not in entry.record.why
    assert same(canon.from_plain(entry.record.factors), {"factor": value})


def test_a_compaction_cannot_put_back_what_is_no_note(memory):
    from stator.model.log.commit import Reset
    from stator.model.records.types import FactRecord

    with memory.open("main") as s:
        change = Reset("facts", "f", "x", FactRecord(name="x", value=1))
        draft = s._driver.draft("compaction", changes=(change,))
        with pytest.raises(stator.errors.InvalidInput, match="only a rewind resets"):
            s._driver.append([draft])
