"""Runs every kind of record through everything that can happen to a record.

The table test takes its rows from the registry, its examples from `model.kinds`, and its expectations from
who makes the record: a record of an agent's program exists once after a crash, a record of a person survives
a rewind. Anything without such a rule (the words of a brief, the order of a list) is on the page
`data/every_kind.txt`, which has what each surface shows of one session with a record of every collection.
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
from stator.model.records import registry, tables
from stator.model.records.registry import ROWS
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import ArtifactRecord
from stator.model.sessions.lifecycle import TRANSITIONS, check_transition
from surfaces.agents import talking

TESTS = Path(__file__).parent.parent

each = pytest.mark.parametrize("row", RECORDED, ids=lambda row: row.name)


# -- the registry itself --------------------------------------------------------------------------


@each
def test_every_kind_of_record_has_an_example(row):
    example_of(row)


def test_every_example_is_of_a_known_kind_of_record():
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


def test_no_two_rows_share_a_position_in_a_list():
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
def test_the_documentation_names_the_key_of_each_collection(name):
    text = (TESTS.parent / "docs" / "design" / "record.md").read_text(encoding="utf-8")
    (key,) = re.findall(rf"^\| `{name}` \| ?(.*?) ?\|", text, re.MULTILINE)
    assert tuple(filter(None, key.split(", "))) == COLLECTIONS[name].key


@pytest.mark.parametrize("name", COLLECTIONS)
def test_the_key_of_a_collection_consists_of_its_fields(name):
    one = COLLECTIONS[name]
    assert set(one.key) <= set(one.type.__struct_fields__)


def test_no_status_refuses_a_kind_that_is_accepted_after_the_end():
    for kind in tables.AFTER_THE_END:
        check_transition(kind, "closed", "s_1")
        if kind != "resume":
            check_transition(kind, "archived", "s_1")


def test_kinds_shown_to_the_model_are_part_of_the_expiring_transcript():
    taken_over = {"carry"}  # state, which a new session begins with and which never expires
    assert tables.SHOWN - {"compaction"} - taken_over < tables.SPOKEN < tables.TRANSCRIPT
    assert tables.SHOWN - taken_over < tables.TRANSCRIPT


def test_messages_are_never_hidden_from_a_log():
    assert not tables.SPOKEN & tables.QUIET


def test_commits_that_remove_content_name_it_and_are_synced():
    assert tables.BARRIERS - TRANSITIONS.keys() > tables.REMOVALS
    for kind in tables.REMOVALS:
        with pytest.raises(InvalidInput):
            reduce(Draft(id="k_1", session="s_1", kind=kind), Nothing())


class Nothing:
    """A state without records."""

    def find(self, collection, key):
        return None

    def all(self, collection):
        return []


def test_every_record_that_a_compaction_drops_can_be_recalled():
    assert set(tables.EVICTED) > tables.COMPACTIBLE


def test_the_documentation_names_the_collections_that_survive_a_rewind():
    text = (TESTS.parent / "docs" / "design" / "record.md").read_text(encoding="utf-8")
    sentence = text.partition("what makes the state what it was, but for")[2].partition(
        ", and for"
    )[0]
    assert set(re.findall(r"`(\w+)`", sentence)) == tables.KEPT_IN_REWIND


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
def test_a_record_exists_once_after_a_crash_and_a_rerun(row, run_again):
    recorded, _, state = run_again
    # offering tools to a model is a setting, and a file that an agent names is in its working set
    beside = row.name in ("settings", "use")
    assert state[row.collection.name] == 1 + beside
    if example_of(row).by != "person":  # a record on the session itself is put again, under its key
        assert recorded.count(row.name) == 1


@pytest.mark.parametrize(("kind", "times"), [("entry", 2), ("tools", 1), ("call", 2), ("child", 2)])
def test_a_program_rerun_after_a_crash_continues_from_its_record(kind, times, run_again):
    recorded, turns, _ = run_again
    assert turns == ["", "continued"]
    assert recorded.count(kind) == times


def test_a_rerun_reuses_exactly_the_commits_a_program_appends_beside_its_calls(run_again):
    """A kind that is missing in the registry's `once` is recorded twice after a crash."""
    recorded, _, _ = run_again
    in_turn = set(recorded[recorded.index("turn") + 1 : recorded.index("turn_end")])
    assert in_turn - {"call", "outcome"} == tables.ONCE


def test_a_replay_compares_only_kinds_that_a_rerun_reuses():
    assert tables.COMPARED < tables.ONCE


@each
def test_a_failed_call_before_a_record_is_replayed(row, memory):
    """A rerun returns the recorded failure to the program and does not run the call again."""
    tool = Counted(raising(ValueError("no")))
    for again in (False, True):
        with driving(memory) as s, s.turn("one") as t:
            assert t.try_call(tool.tool(effect="read")).status == "error"
            example_of(row).write(s, t)
            if not again:
                raise Died
    assert len(tool.runs) == 1


def put(session, row):
    """The entry of an example in a session."""
    (entry,) = session.entries(row.collection.name)
    return entry


def contribute(store, session, row, record):
    """Append a record of a kind without driving the session."""
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
def test_a_record_can_be_contributed_without_a_lease_unless_only_a_driver_makes_it(row, store):
    found_by_rules = row.name == "use"
    with store.open("one") as s, s.turn("one") as t:
        example_of(row).write(s, t)
        record = put(s, row).record
    with store.open("main") as s, s.turn("one"):
        if example_of(row).by == "program" and not found_by_rules:
            with pytest.raises(LeaseLost):
                contribute(store, s.id, row, record)
            assert not s.entries(row.collection.name)
        else:
            contribute(store, s.id, row, record)
            assert put(s, row)


@each
def test_a_closed_session_accepts_only_records_made_by_a_person(row, store):
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
def test_a_search_finds_a_record_by_its_word(row, file_store):
    with file_store.open("main") as s, s.turn("one") as t:
        example_of(row).write(s, t)
    hits = file_store.search(example_of(row).word)
    assert [hit.kind for hit in hits] == [row.name]


@each
def test_the_brief_shows_a_record_if_its_kind_has_a_section(row, store):
    with store.open("main") as s, s.turn("one") as t:
        example_of(row).write(s, t)
        brief = s.brief()
    found = {section.name for section in brief.sections if section.lines}
    assert (row.collection.name in found) == (row.collection.brief is not None)
    assert (example_of(row).word in str(brief)) == (row.collection.brief is not None)


@each
def test_the_diff_of_a_turn_shows_its_records(row, store):
    with store.open("main") as s:
        with s.turn("one") as t:
            example_of(row).write(s, t)
        (item,) = s.diff("t1").of(row.collection.name)
        assert (item.change, item.before) == ("added", None)
        assert (example_of(row).word in str(s.diff("t1"))) is row.collection.diffed


@each
def test_a_rewind_removes_a_record_unless_a_person_made_it(row, store):
    with store.open("main") as s:
        with s.turn("one"):
            pass
        with s.turn("two") as t:
            example_of(row).write(s, t)
        s.rewind("t1")
        stays = [e for e in s.entries(row.collection.name) if example_of(row).word in str(e.record)]
        assert bool(stays) == (example_of(row).by == "person")


@each
def test_an_evicted_record_is_listed_and_can_be_recalled(row, store):
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
def test_a_record_can_be_made_over_mcp_if_agents_may_make_it(row, file_store):
    async def report() -> list[str]:
        async with talking(file_store) as agent:
            session = await agent.begin()
            fields = dict(example_of(row).fields)
            if "kind" in fields:  # an item has that word for another thing
                fields["type"] = fields.pop("kind")
            item = {"kind": row.name, **fields}
            if row.reported is None:
                error = await agent.refused("stator_record", session=session, items=[item])
                assert error["code"] == "E_INVALID"
                return []
            done = await agent.call("stator_record", session=session, items=[item])
            state = await agent.call("stator_log", session=session, what="state")
            listed = [row.collection.name] if row.collection.listed else []
            assert [one["collection"] for one in state["rows"]] == listed
            assert not listed or example_of(row).word in str(state["rows"])
            return [one["kind"] for one in done["recorded"]]

    expected = [] if row.reported is None else [row.name]
    assert asyncio.run(report()) == expected


@pytest.mark.parametrize(("kind", "field"), [("artifact", "content"), ("fact", "value")])
def test_a_reported_record_can_be_empty_but_needs_a_name(kind, field, file_store):
    async def report() -> None:
        async with talking(file_store) as agent:
            session = await agent.begin()
            item = {"kind": kind, "name": "empty", field: ""}
            await agent.call("stator_record", session=session, items=[item])
            error = await agent.refused(
                "stator_record", session=session, items=[{**item, "name": " "}]
            )
            assert error["path"] == "$.items[0].name"

    asyncio.run(report())


def test_the_recall_note_of_an_artifact_is_empty():
    assert tables.recall_note("artifacts", ArtifactRecord(name="notes")) == ""


# -- what surfaces show ---------------------------------------------------------------------------


def test_every_surface_shows_the_records_as_on_the_page(tmp_path, monkeypatch, capsys):
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
