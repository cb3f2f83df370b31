"""Every kind of record, run through everything that can happen to one.

The table test takes its rows from the registry, its examples from `model.kinds`, and what it expects
from who makes the record: what an agent's program made is there once after a crash, what a person said
survives a rewind. What has no such rule (the words of a brief, the order of a list) is on the page
`data/every_kind.txt`: what each surface shows of one session that holds a record of every collection.
"""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import stator
import stator.testing
from model import kinds
from model.every_kind import PAGE, page
from model.kinds import BY_ITSELF, EXAMPLES, RECORDED, example_of
from runtime.support import Counted, Died, driving, raising
from stator.errors import InvalidInput, LeaseLost, NotFound, WrongState
from stator.model.log.commit import Draft, Upsert
from stator.model.log.reduce import reduce
from stator.model.records import registry
from stator.model.records.registry import COLLECTIONS, ROWS
from stator.model.records.types import ArtifactRecord
from stator.model.sessions.lifecycle import TRANSITIONS, check_transition
from surfaces.agents import talking

TESTS = Path(__file__).parent.parent

each = pytest.mark.parametrize("row", RECORDED, ids=lambda row: row.name)


# -- the registry itself --------------------------------------------------------------------------


@each
def test_every_kind_of_record_has_an_example(row):
    example_of(row)


def test_what_has_an_example_is_a_kind_of_record():
    known = {row.name for row in ROWS if row.collection is not None}
    assert {*EXAMPLES, *BY_ITSELF} <= known


def test_no_two_rows_share_a_name_a_number_or_a_prefix():
    names = [row.name for row in ROWS]
    collections = [
        registry.SPEND,
        *(row.collection for row in ROWS if row.collection is not None),
    ]
    numbers = [one.number for one in collections]
    prefixes = [one.recall.prefix for one in collections if one.recall]
    types = [one.type for one in collections]
    assert len(set(names)) == len(names)
    assert len(set(types)) == len(types)
    assert sorted(set(numbers)) == sorted(numbers) == list(range(1, len(numbers) + 1))
    assert len(COLLECTIONS) == len(collections)
    assert len(set(prefixes)) == len(prefixes)


def test_no_two_rows_share_a_place():
    for place in (
        lambda one: one.dropped_by_fork,
        lambda one: one.listed,
        lambda one: one.hot and one.hot.place,
        lambda one: one.noted and one.noted.place,
        lambda one: one.brief and one.brief.place,
        lambda one: one.brief and one.brief.room,
    ):
        found = [place(one) for one in COLLECTIONS.values() if place(one)]
        assert len(set(found)) == len(found)


@pytest.mark.parametrize("name", COLLECTIONS)
def test_the_description_of_the_record_names_the_key_of_a_collection(name):
    text = (TESTS.parent / "docs" / "design" / "record.md").read_text(encoding="utf-8")
    (key,) = re.findall(rf"^\| `{name}` \| ?(.*?) ?\|", text, re.MULTILINE)
    assert tuple(filter(None, key.split(", "))) == COLLECTIONS[name].key


@pytest.mark.parametrize("name", COLLECTIONS)
def test_the_key_of_a_collection_is_made_of_its_fields(name):
    one = COLLECTIONS[name]
    assert set(one.key) <= set(one.type.__struct_fields__)


def test_what_a_session_takes_after_its_end_no_status_refuses():
    for kind in registry.AFTER_THE_END:
        check_transition(kind, "closed", "s_1")
        if kind != "resume":
            check_transition(kind, "archived", "s_1")


def test_the_model_is_shown_only_what_was_spoken_and_that_expires():
    assert registry.SHOWN < registry.SPOKEN < registry.TRANSCRIPT


def test_what_was_spoken_is_never_in_the_background_of_a_log():
    assert not registry.SPOKEN & registry.QUIET


def test_what_takes_content_away_says_what_and_is_synced():
    assert registry.BARRIERS - TRANSITIONS.keys() > registry.REMOVALS
    for kind in registry.REMOVALS:
        with pytest.raises(InvalidInput):
            reduce(Draft(id="k_1", session="s_1", kind=kind), Nothing())


class Nothing:
    """A state without records."""

    def find(self, collection, key):
        return None

    def all(self, collection):
        return []


def test_what_a_compaction_drops_can_be_recalled():
    assert set(registry.EVICTED) > registry.COMPACTIBLE


def test_the_description_of_the_record_names_what_a_rewind_leaves():
    text = (TESTS.parent / "docs" / "design" / "record.md").read_text(encoding="utf-8")
    sentence = text.partition("what makes the state what it was, but for")[2].partition(
        ", and for"
    )[0]
    assert set(re.findall(r"`(\w+)`", sentence)) == registry.KEPT_IN_REWIND


# -- what happens to a record ---------------------------------------------------------------------


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if request.param == "memory":
        yield stator.testing.memory_store(project="shop", root=str(tmp_path))
        return
    with stator.connect(tmp_path / "agent.db", project="shop") as opened:
        yield opened


@pytest.fixture
def memory(tmp_path):
    return stator.testing.memory_store(project="shop", root=str(tmp_path))


@pytest.fixture
def file_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with stator.connect(tmp_path / "agent.db", project="shop") as opened:
        yield opened


@pytest.fixture(scope="module")
def run_again(tmp_path_factory):
    """The log of a program that recorded every example, was killed in its turn, and ran again."""
    path = str(tmp_path_factory.mktemp("crash") / "agent.db")
    command = [sys.executable, "-m", "model.kinds"]
    killed = subprocess.run([*command, "crash", path], cwd=TESTS, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    done = subprocess.run([*command, "run", path], cwd=TESTS, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    with stator.connect(path, project="shop") as opened:
        log = list(opened.read("main").log(load=False))
        state = {name: len(found) for name, found in opened.read("main").state().items()}
        turns = [commit.status for commit in log if commit.kind == "turn"]
        return [commit.kind for commit in log], turns, state


@each
def test_a_program_run_again_after_a_crash_records_it_once(row, run_again):
    recorded, _, state = run_again
    assert state[row.collection.name] == 1
    if (
        example_of(row).by != "person"
    ):  # what is recorded on the session is put again, under its key
        assert recorded.count(row.name) == 1


@pytest.mark.parametrize(("kind", "times"), [("entry", 2), ("tools", 1), ("call", 2), ("child", 2)])
def test_a_program_run_again_after_a_crash_goes_on_from_its_record(kind, times, run_again):
    recorded, turns, _ = run_again
    assert turns == ["", "continued"]
    assert recorded.count(kind) == times


def test_a_rerun_answers_exactly_what_a_program_appends_in_a_turn_besides_its_calls(run_again):
    """A kind that is missing in the registry's `once` is recorded twice after a crash."""
    recorded, _, _ = run_again
    in_turn = set(recorded[recorded.index("turn") + 1 : recorded.index("turn_end")])
    assert in_turn - {"call", "outcome"} == registry.ONCE


def test_a_replay_compares_nothing_that_a_rerun_does_not_answer():
    assert registry.COMPARED < registry.ONCE


@each
def test_a_program_that_recorded_it_knew_of_the_failure_before_it(row, memory):
    """So that a rerun gives the program that failure, and does not try again behind its back."""
    tool = Counted(raising(ValueError("no")))
    for again in (False, True):
        with driving(memory) as s, s.turn("one") as t:
            assert t.try_call(tool.tool(effect="read")).status == "error"
            example_of(row).write(s, t)
            if not again:
                raise Died
    assert len(tool.runs) == 1


def put(session, row):
    """The record that a session holds of an example, with where it is."""
    (entry,) = session.entries(row.collection.name)
    return entry


def contribute(store, session, row, record):
    """Append a record of a kind as somebody who does not drive the session."""
    draft = Draft(
        id=store.context.mint("commit"),
        session=session,
        kind=row.name,
        actor="user",
        principal="local:ann",
        changes=(Upsert(row.collection.name, record),),
    )
    store.port.append(session, [draft])


@each
def test_it_is_contributed_without_a_lease_unless_only_a_driver_makes_it(row, store):
    with store.open("one") as s, s.turn("one") as t:
        example_of(row).write(s, t)
        record = put(s, row).record
    with store.open("main") as s, s.turn("one"):
        if example_of(row).by == "program":
            with pytest.raises(LeaseLost):
                contribute(store, s.id, row, record)
            assert not s.entries(row.collection.name)
        else:
            contribute(store, s.id, row, record)
            assert put(s, row)


@each
def test_a_closed_session_takes_only_what_a_person_says_of_it(row, store):
    with store.open("main") as s:
        with s.turn("one") as t:
            example_of(row).write(s, t)
        record = put(s, row).record
        s.close()
    if example_of(row).by == "person":
        contribute(store, s.id, row, record)
    else:
        with pytest.raises((WrongState, LeaseLost)):
            contribute(store, s.id, row, record)


@each
def test_a_search_finds_it_by_its_word(row, file_store):
    with file_store.open("main") as s, s.turn("one") as t:
        example_of(row).write(s, t)
    hits = file_store.search(example_of(row).word)
    assert [hit.kind for hit in hits] == [row.name]


@each
def test_the_brief_shows_it_if_it_has_a_section(row, store):
    with store.open("main") as s, s.turn("one") as t:
        example_of(row).write(s, t)
        brief = s.brief()
    found = {section.name for section in brief.sections if section.lines}
    assert (row.collection.name in found) == (row.collection.brief is not None)
    assert (example_of(row).word in str(brief)) == (row.collection.brief is not None)


@each
def test_the_diff_of_its_turn_shows_it(row, store):
    with store.open("main") as s:
        with s.turn("one") as t:
            example_of(row).write(s, t)
        (item,) = s.diff("t1").of(row.collection.name)
        assert (item.change, item.before) == ("added", None)
        assert example_of(row).word in str(s.diff("t1"))


@each
def test_a_rewind_takes_it_back_unless_a_person_said_it(row, store):
    with store.open("main") as s:
        with s.turn("one"):
            pass
        with s.turn("two") as t:
            example_of(row).write(s, t)
        s.rewind("t1")
        stays = [e for e in s.entries(row.collection.name) if example_of(row).word in str(e.record)]
        assert bool(stays) == (example_of(row).by == "person")


@each
def test_what_leaves_the_view_is_named_and_can_be_recalled(row, store):
    with store.open("main") as s:
        with s.turn("one") as t:
            example_of(row).write(s, t)
            t.say("first")
        for number in range(3):
            with s.turn(f"and {number}") as t:
                t.say(f"then {number}")
        s.compact(keep=1, strategy=["summarise"], summary="all of it", scratch=True)
        recall = row.collection.recall
        named = [
            item for item in s.evicted() if recall and item.key.startswith(f"{recall.prefix}:")
        ]
        assert [item.rank for item in named] == (
            [recall.rank] if recall and recall.rank is not None else []
        )
        for item in named:
            assert item.status == "recallable"
            assert example_of(row).word in f"{item.key} {s.recall(item.key).content}"
        still = bool(s.entries(row.collection.name))
        assert still != row.collection.compactible
        if recall is None:
            with pytest.raises(NotFound):
                s.recall(f"{row.name}:{example_of(row).word}")


@each
def test_it_is_recorded_over_mcp_if_any_agent_may_make_it(row, file_store):
    async def report() -> list[str]:
        async with talking(file_store) as agent:
            session = await agent.begin()
            item = {"kind": row.name, **example_of(row).fields}
            if example_of(row).by != "agent":
                error = await agent.refused("record", session=session, items=[item])
                assert error["code"] == "E_INVALID"
                return []
            done = await agent.call("record", session=session, items=[item])
            state = await agent.call("log", session=session, what="state")
            assert [one["collection"] for one in state["rows"]] == [row.collection.name]
            assert example_of(row).word in str(state["rows"])
            return [one["kind"] for one in done["recorded"]]

    expected = [row.name] if example_of(row).by == "agent" else []
    assert asyncio.run(report()) == expected


@pytest.mark.parametrize(("kind", "field"), [("artifact", "content"), ("fact", "value")])
def test_what_an_agent_reports_may_hold_nothing_but_must_be_named(kind, field, file_store):
    async def report() -> None:
        async with talking(file_store) as agent:
            session = await agent.begin()
            item = {"kind": kind, "name": "empty", field: ""}
            await agent.call("record", session=session, items=[item])
            error = await agent.refused("record", session=session, items=[{**item, "name": " "}])
            assert error["path"] == "$.items[0].name"

    asyncio.run(report())


def test_the_key_of_an_artifact_says_all_that_is_listed_of_it():
    assert registry.recall_note("artifacts", ArtifactRecord(name="notes")) == ""


# -- what is shown --------------------------------------------------------------------------------


def test_every_surface_shows_the_records_as_it_did(tmp_path, monkeypatch, capsys):
    """To accept a change: `python -m model.every_kind` in the folder `tests`, then read the difference."""
    monkeypatch.chdir(tmp_path)
    shown = page(tmp_path)
    assert shown == PAGE.read_text(encoding="utf-8")


def test_the_session_on_the_page_has_a_record_of_every_collection(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with stator.connect(tmp_path / "agent.db", project="shop") as opened:
        view = opened.read(kinds.record_everything(opened))
        with opened.open("every") as s:
            s.compact(keep=1, summary="all of it")
        put = {op.collection for commit in view.log(load=False) for op in commit.delta}
    assert put == set(COLLECTIONS)
