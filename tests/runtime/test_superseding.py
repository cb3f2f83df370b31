"""Decisions that supersede others: which is in force, and how the superseded one is named."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

import stator
from runtime.support import Died, driving
from stator.errors import Ambiguous, BadDelta, NotFound


def in_force(view: Any) -> list[str]:
    """What the state holds, which the list of decisions must agree with."""
    state = {record.what for record in view.state()["decisions"].values()}
    assert {line.record.what for line in view.decisions(standing=True)} == state
    return sorted(state)


def by(view: Any) -> dict[str, str]:
    """Each decision that is not in force, with the one that superseded it."""
    named = {line.id: line.record.what for line in view.decisions()}
    return {line.record.what: named.get(line.by, "") for line in view.decisions(standing=False)}


NAMES = {
    "the id that decide returned": lambda commit, record: commit,
    "the id of the record": lambda commit, record: record,
    "the end of the id, with its prefix": lambda commit, record: "k_" + commit[-8:],
    "the end of the id": lambda commit, record: commit[-8:],
}


@pytest.mark.parametrize("topic", ["", "auth"])
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_decision_can_be_superseded_by(either, name, topic):
    with either.open("main") as s, s.turn("one") as t:
        commit = t.decide("old", topic=topic)
        record = s.entries("decisions")[0].id
        t.decide("new", supersedes=name(commit, record))
        assert (in_force(s), by(s)) == (["new"], {"old": "new"})
        assert s.entries("decisions")[0].record.supersedes == record


def test_a_decision_on_a_topic_also_supersedes_the_one_it_names(either):
    with either.open("main") as s, s.turn("one") as t:
        named = t.decide("named")
        t.decide("on the topic", topic="auth")
        t.decide("new", topic="auth", supersedes=named)
        assert (in_force(s), by(s)) == (["new"], {"named": "new", "on the topic": "new"})


def test_a_decision_supersedes_one_on_another_topic(either):
    with either.open("main") as s, s.turn("one") as t:
        t.decide("new", topic="db", supersedes=t.decide("old", topic="auth"))
        assert (in_force(s), by(s)) == (["new"], {"old": "new"})


def test_a_decision_of_the_same_batch_can_be_superseded(either):
    with either.open("main") as s, s.turn("one") as t:
        with t.batch():
            t.decide("new", supersedes=t.decide("old"))
        assert in_force(s) == ["new"]


def test_a_contributor_names_a_decision_by_the_id_that_was_returned(either):
    with either.open("main"):
        pass
    outside = either.contribute("main")
    outside.decide("new", supersedes=outside.decide("old"))
    assert in_force(either.read("main")) == ["new"]


def test_the_asynchronous_api_names_a_decision_by_the_id_that_was_returned(tmp_path):
    async def main() -> None:
        async with (
            stator.aio.connect(tmp_path / "agent.db", project="shop") as store,
            store.open("main") as s,
            s.turn("one") as t,
        ):
            await t.decide("new", supersedes=await t.decide("old"))

    asyncio.run(main())
    with stator.connect(tmp_path / "agent.db", project="shop") as store:
        assert in_force(store.read("main")) == ["new"]


@pytest.mark.parametrize("short", [True, False])
def test_a_program_that_runs_again_names_the_superseded_decision_as_before(memory, short):
    def work(t: Any) -> None:
        old = t.decide("old")
        t.decide("new", supersedes=old[-8:] if short else old)

    with driving(memory) as s, s.turn("one") as t:
        work(t)
        raise Died
    with driving(memory) as s, s.turn("one") as t:
        work(t)
    view = memory.read("main")
    assert (in_force(view), len(view.decisions())) == (["new"], 2)


def test_superseding_what_is_not_in_force_is_refused(either):
    with either.open("main") as s, s.turn("one") as t:
        old = t.decide("old")
        t.decide("new", supersedes=old)
        with pytest.raises(BadDelta, match="is in force"):
            t.decide("newer", supersedes=old)
        assert in_force(s) == ["new"]


def test_superseding_what_was_never_recorded_is_refused(either):
    with either.open("main") as s, s.turn("one") as t:
        for unknown in ("ffffffff", "the old one"):
            with pytest.raises(NotFound, match="no decision"):
                t.decide("new", supersedes=unknown)


def test_an_end_that_two_decisions_have_is_refused(either, monkeypatch):
    with either.open("main") as s, s.turn("one") as t:
        digits = [t.decide("one"), t.decide("two")]
        monkeypatch.setattr(
            type(either.port), "entries", _ending(type(either.port).entries, digits[0][-4:])
        )
        with pytest.raises(Ambiguous, match="2 decisions match"):
            t.decide("new", supersedes=digits[0][-4:])


def _ending(entries: Any, end: str) -> Any:
    """Entries whose ids all end so."""

    def found(*args: Any, **options: Any) -> Any:
        return [replace(one, id=one.id[:-4] + end) for one in entries(*args, **options)]

    return found


def test_after_a_rewind_the_superseded_decision_is_in_force_again(either):
    with either.open("main") as s:
        with s.turn("one") as t:
            old = t.decide("old")
        with s.turn("two") as t:
            t.decide("new", topic="auth", supersedes=old)
        done = s.rewind("t1")
        assert (in_force(s), by(s)) == (["old"], {"new": ""})
        s.rewind(done.tag)
        assert (in_force(s), by(s)) == (["new"], {"old": "new"})


def test_a_diff_shows_one_decision_in_the_place_of_the_one_it_names(either):
    with either.open("main") as s:
        with s.turn("one") as t:
            old = t.decide("old")
        with s.turn("two") as t:
            t.decide("new", topic="auth", supersedes=t.decide("between", supersedes=old))
        (item,) = s.diff("t2").of("decisions")
        assert (item.change, item.before.what, item.after.what) == ("superseded", "old", "new")
        assert [step.record.what for step in item.via] == ["between"]
