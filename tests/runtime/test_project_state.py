"""What a project knows: `store.state`, sessions that continue others, and what holds for a project or the user."""

from __future__ import annotations

import pytest

import stator
from stator.errors import Conflict, NotFound, NotProven, Unverified
from stator.model.log.commit import Draft, Upsert
from stator.model.records.types import CandidateRecord
from stator.runtime.base import project_flags
from stator.runtime.branches import carry


@pytest.fixture(autouse=True)
def _data_folder(tmp_path, monkeypatch):
    """What holds for the user is kept in the user's data folder: here one for each test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def work(store, name, *, after=None, **records):
    with store.open(name, after=after) as s, s.turn("work") as t:
        for fact, value in records.items():
            t.fact(fact, value)
    return s.id


def facts(store, **options):
    return {entry.key: entry.record.value for entry in store.state(**options)["facts"]}


# -- what is known --------------------------------------------------------------------------------


def test_a_project_knows_what_each_of_its_sessions_recorded(either):
    work(either, "one", colour="red")
    work(either, "two", size=3)
    assert facts(either) == {"colour": "red", "size": 3}


def test_an_entry_names_its_session_turn_commit_source_and_trust(either):
    session = work(either, "one", colour="red")
    (entry,) = either.state()["facts"]
    assert (entry.session, entry.name, entry.turn) == (session, "one", 1)
    assert (entry.source, entry.trust, entry.scope) == ("model", "unverified", "session")
    commit = either.read("one").commit(entry.commit[2:])
    assert (commit.kind, commit.seq, commit.used) == ("fact", entry.seq, entry.happened)


def test_an_entry_names_the_files_that_it_is_about_as_they_were_then(either):
    with either.open("one") as s, s.turn("work") as t:
        t.file("src/auth.py", "modified", after="d1")
        t.decide("keep the checks in src/auth.py", topic="checks")
        t.file("src/auth.py", "modified", after="d2")
    (entry,) = either.state()["decisions"]
    assert entry.anchors == [("src/auth.py", "d1")]


def test_only_open_steps_of_a_plan_are_shown(either):
    with either.open("one") as s, s.turn("work") as t:
        t.plan(["write", "test"])
    with either.open("two") as s, s.turn("work") as t:
        t.plan("write", "done")
    assert [entry.key for entry in either.state()["plan"]] == ["test"]


def test_a_session_in_the_trash_does_not_count_until_it_is_used_again(either):
    row = either.port.session(work(either, "one", colour="red"))
    assert facts(either) == {"colour": "red"}
    project_flags.put(either.port, either.context, row, project_flags.TRASH, by="me", why="old")
    assert facts(either) == {}
    work(either, "one", size=1)
    assert facts(either) == {"colour": "red", "size": 1}


def test_a_rewound_record_does_not_count_and_what_it_replaced_holds_again(either):
    with either.open("one") as s:
        with s.turn("work") as t:
            t.fact("colour", "red")
        with s.turn("more", new=True) as t:
            t.fact("colour", "blue")
        assert facts(either) == {"colour": "blue"}
        s.rewind("t1")
    (entry,) = either.state()["facts"]
    assert (entry.record.value, entry.turn, entry.earlier) == ("red", 1, [])


def test_another_project_knows_nothing_of_it(either):
    work(either, "one", colour="red")
    assert facts(either, project="elsewhere") == {}


def test_the_answer_of_a_read_only_store_is_the_same(store, tmp_path):
    work(store, "one", colour="red")
    with stator.connect(tmp_path / "agent.db", project="shop", read_only=True) as reader:
        assert facts(reader) == {"colour": "red"}


def test_no_byte_of_an_erased_value_stays_in_the_index(store, tmp_path):
    with store.open("one") as s, s.turn("work") as t:
        t.fact("colour", "vermilion-4711")
    store.state()
    index = tmp_path / "agent.db-projects"
    assert b"vermilion-4711" in index.read_bytes() + _wal(index)
    seq = store.state()["facts"][0].seq
    store.contribute("one").erase(f"@{seq}")
    assert b"vermilion-4711" not in index.read_bytes() + _wal(index)
    assert facts(store) == {}


def _wal(index):
    wal = index.with_name(index.name + "-wal")
    return wal.read_bytes() if wal.exists() else b""


# -- continuing -----------------------------------------------------------------------------------


def test_a_session_that_continues_another_holds_what_that_one_knew(either):
    with either.open("yesterday") as s, s.turn("work") as t:
        t.decide("by date", topic="folders", why="easy to find")
        t.fact("root", "/photos")
        t.prefer("naming", "kebab-case")
        t.dead_end("by camera", why="unknown for half of them")
        t.plan(["2023", "2024"])
        t.plan("2022", "done")
        t.pend("ask about duplicates")
        t.file("private/diary.txt", "skipped", reason="personal")
        t.artifact("rules", "one folder a month")
        t.use("app", "exiftool")
    with either.open("today", after="last") as s:
        state = s.state()
        assert [d.what for d in state["decisions"].values()] == ["by date"]
        assert s.facts() == {"root": "/photos"}
        assert [p.value for p in state["preferences"].values()] == ["kebab-case"]
        assert [d.what for d in state["dead_ends"].values()] == ["by camera"]
        assert sorted(p.step for p in state["plan"].values()) == ["2023", "2024"]
        assert [p.what for p in state["pending"].values()] == ["ask about duplicates"]
        assert [f.path for f in state["files"].values()] == ["private/diary.txt"]
        assert [w.name for w in state["working_set"].values()] == ["exiftool"]
        assert s.read_artifact("rules") == "one folder a month"
    assert s.row.record.continues == either.read("yesterday").id


def test_what_was_taken_over_is_named_by_its_original(either):
    first = work(either, "yesterday", colour="red")
    work(either, "today", after="yesterday")
    (entry,) = either.state()["facts"]
    assert (entry.session, entry.earlier, entry.conflicts) == (first, [], [])


def test_a_session_takes_over_once(either):
    work(either, "yesterday", colour="red")
    work(either, "today", after="yesterday", size=1)
    work(either, "yesterday", colour="blue")
    work(either, "today", after="yesterday")
    kinds = [commit.kind for commit in either.read("today").log()]
    assert kinds.count("carry") == 1
    assert either.read("today").facts() == {"colour": "red", "size": 1}


def test_a_crash_before_the_first_run_loses_and_doubles_nothing(either, monkeypatch):
    work(either, "yesterday", colour="red")

    def dies(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(carry, "drafts", dies)
        with pytest.raises(KeyboardInterrupt):
            either.open("today", after="last")
    with either.open("today", after="last", busy="take") as s:
        assert s.facts() == {"colour": "red"}
    assert [commit.kind for commit in either.read("today").log()].count("carry") == 1


def test_a_session_that_continues_another_one_is_not_opened_as_this_ones(either):
    work(either, "monday", colour="red")
    work(either, "tuesday", colour="blue")
    work(either, "today", after="monday")
    with pytest.raises(Conflict):
        either.open("today", after="tuesday")
    work(either, "plain")
    with pytest.raises(Conflict):
        either.open("plain", after="monday")


def test_without_an_earlier_session_there_is_none_to_continue(either):
    with pytest.raises(NotFound):
        either.open("today", after="last")


def test_the_last_session_is_never_a_sub_agent(either):
    with either.open("yesterday") as s, s.turn("work") as t:
        t.fact("colour", "red")
        with s.child("helper") as child, child.turn("help") as helped:
            helped.fact("size", 1)
    work(either, "today", after="last")
    assert either.read("today").row.record.continues == either.read("yesterday").id


def test_what_rests_on_the_web_stays_unverified_when_it_is_taken_over(either):
    fetch = stator.tool(lambda: "text", name="fetch", effect="read", source="web")
    with either.open("yesterday") as s, s.turn("read") as t:
        t.fact("own", 1, from_=[])
        got = t.try_call(fetch)
        t.fact("page", 2, from_=got)
    with either.open("today", after="last") as s:
        carried = {c.provenance.source: c for c in s.log() if c.kind == "carry"}
        assert set(carried) == {"model", "web"}
        assert carried["web"].provenance.trust == "unverified"
        with s.turn("use it") as t, pytest.raises(Unverified):
            t.fact("made", 3, verified=True, from_=carried["web"].id)


def test_what_is_made_of_what_was_taken_over_from_the_web_cannot_be_verified(either):
    fetch = stator.tool(lambda: "text", name="fetch", effect="read", source="web")
    with either.open("yesterday") as s, s.turn("read") as t:
        t.fact("page", 2, from_=t.try_call(fetch))
    for day in ("today", "tomorrow"):
        with either.open(day, after="last") as s, s.turn("use it") as t:
            with pytest.raises(Unverified):
                t.fact("page", 2, verified=True)
            t.say("It is 2.")
            with pytest.raises(Unverified):
                t.fact("made", 2, verified=True)
            t.fact("own", 1, verified=True, from_=[])


def test_what_came_with_a_bundle_cannot_be_verified_after_it_was_taken_over(either, tmp_path):
    with stator.connect(tmp_path / "other.db", project="shop") as other:
        with other.open("yesterday") as s, s.turn("work") as t:
            t.fact("colour", "red", from_=[])
        other.export(["yesterday"], tmp_path / "bundle.stator")
    either.import_bundle(tmp_path / "bundle.stator")
    with either.open("today", after="yesterday") as s, s.turn("use it") as t:
        assert s.facts() == {"colour": "red"}
        with pytest.raises(Unverified):
            t.fact("colour", "red", verified=True)


def test_what_was_taken_over_from_trusted_sources_can_be_verified(either):
    work(either, "yesterday", colour="red")
    with either.open("today", after="last") as s, s.turn("use it") as t:
        t.fact("colour", "red", verified=True)
    assert facts(either) == {"colour": "red"}


def test_a_drop_reaches_the_session_that_was_continued(either):
    with either.open("yesterday") as s, s.turn("work") as t:
        t.pend("ask")
    with either.open("today", after="last") as s, s.turn("work") as t:
        t.pend("ask", done=True)
    assert either.state()["pending"] == []


# -- for the project and for the user -------------------------------------------------------------


def test_a_preference_for_the_project_ends_a_conflict_between_sessions(either):
    for name, way in (("one", "tabs"), ("two", "spaces"), ("one", "tabs")):
        with either.open(name) as s, s.turn("work") as t:
            t.prefer("indent", way) if not s.state()["preferences"] else t.fact("x", 1)
    (entry,) = either.state()["preferences"]
    assert [one.name for one in entry.conflicts] == ["one"]
    either.prefer("indent", "tabs", why="the linter")
    (entry,) = either.state()["preferences"]
    assert (entry.scope, entry.record.value, entry.conflicts) == ("project", "tabs", [])


def test_what_a_project_says_is_stronger_than_what_holds_for_the_user(either):
    either.prefer("indent", "tabs", user=True)
    either.prefer("editor", "vim", user=True)
    with either.open("one") as s, s.turn("work") as t:
        t.prefer("indent", "spaces")
    found = {
        entry.key: (entry.scope, entry.record.value) for entry in either.state()["preferences"]
    }
    assert found == {"indent": ("session", "spaces"), "editor": ("user", "vim")}
    own = {entry.key: entry.record.value for entry in either.state(user=True)["preferences"]}
    assert own == {"indent": "tabs", "editor": "vim"}


def test_what_holds_for_the_user_is_seen_from_every_store(store, tmp_path):
    store.prefer("editor", "vim", user=True)
    with stator.connect(tmp_path / "other.db", project="other") as other:
        assert [entry.key for entry in other.state()["preferences"]] == ["editor"]


def test_what_is_forgotten_holds_again_once_it_is_recorded_again(either):
    work(either, "one", colour="red")
    (gone,) = either.forget("colour", why="outdated")
    assert (gone.collection, gone.key, facts(either)) == ("facts", "colour", {})
    assert either.read("one").facts() == {"colour": "red"}
    work(either, "one", colour="green")
    assert facts(either) == {"colour": "green"}


def test_what_is_forgotten_does_not_return_with_a_fork_that_is_adopted_later(either):
    work(either, "one", colour="red")
    either.fork("one", as_name="try")
    work(either, "try", colour="blue")
    either.forget("colour")
    either.contribute("one").adopt("try:head")
    assert facts(either) == {}


def test_of_a_fork_only_what_the_fork_adopted_for_it_has_counts(either):
    work(either, "one", colour="red")
    work(either, "one", colour="orange", size=1)
    either.fork("one", as_name="try")
    work(either, "try", shape="round")
    either.contribute("one").adopt("try:head")
    either.fork("try", "t1", as_name="again")  # before anything of its own
    either.contribute("try").adopt("again:head")
    assert facts(either) == {"colour": "red"}


def test_an_adoption_is_learned_together_with_new_forks_of_other_attempts(either):
    work(either, "one", colour="red")
    for name in ("first", "second"):
        either.fork("one", as_name=name)
        work(either, name, **{name: 1})
    assert facts(either) == {"colour": "red"}
    either.fork("second", as_name="third")
    work(either, "third", third=1)
    either.contribute("one").adopt("first:head")
    assert facts(either) == {"colour": "red", "first": 1}


def test_what_holds_for_the_user_can_be_forgotten(either):
    either.prefer("editor", "vim", user=True)
    either.forget("editor", user=True)
    assert either.state(user=True)["preferences"] == []
    with pytest.raises(NotFound):
        either.forget("editor", user=True)


def test_everything_that_came_from_a_host_is_forgotten_and_listed(either):
    fetch = stator.tool(lambda url: "text", name="fetch", effect="read", source="web")
    with either.open("one") as s, s.turn("read") as t:
        bad = t.try_call(fetch, url="https://bad.example/page")
        t.fact("poison", 1, from_=bad)
        made = t.decide("as the page says", topic="way", from_=bad)
        t.fact("derived", 2, from_=made)
        t.fact("own", 3, from_=[])
        good = t.try_call(fetch, url="https://good.example/page")
        t.fact("fine", 4, from_=good)
    found = either.forget("host:bad.example", why="it lies")
    assert sorted(one.key for one in found) == ["derived", "poison", "way"]
    assert facts(either) == {"own": 3, "fine": 4}
    assert either.forget("host:bad.example") == []


def propose(store, session, **fields):
    """Record a candidate that nobody confirmed."""
    record = CandidateRecord(quote="use kebab please", **fields)
    draft = Draft(
        id=store.context.mint("commit"),
        session=session,
        kind="candidate",
        changes=(Upsert("candidates", record),),
    )
    store.port.append(session, [draft])


def test_a_candidate_becomes_a_preference_when_a_person_confirms_it(either):
    propose(either, work(either, "one"), name="naming", value="kebab")
    assert either.state()["preferences"] == []
    either.confirm("naming")
    assert [entry.record.value for entry in either.state()["preferences"]] == ["kebab"]


def test_a_confirmed_refusal_holds_with_the_words_of_the_person(either):
    propose(either, work(either, "one"), name="refused: deploy")
    either.confirm("refused: deploy")
    (entry,) = either.state()["preferences"]
    assert (entry.record.name, entry.record.value) == ("refused: deploy", "use kebab please")


@pytest.mark.parametrize(
    ("collection", "field"), [("facts", "value"), ("decisions", "what"), ("dead_ends", "why")]
)
def test_a_confirmed_candidate_becomes_what_it_would_be(either, collection, field):
    propose(either, work(either, "one"), name="naming", value="kebab", collection=collection)
    either.confirm("naming")
    (entry,) = either.state()[collection]
    assert (entry.key, getattr(entry.record, field)) == ("naming", "kebab")
    assert either.state()["preferences"] == []


def test_below_an_agent_nobody_speaks_for_the_project(store, monkeypatch):
    work(store, "one", colour="red")
    monkeypatch.setenv("CLAUDECODE", "1")
    with pytest.raises(NotProven):
        store.prefer("indent", "tabs")
    with pytest.raises(NotProven):
        store.forget("colour")
    assert facts(store) == {"colour": "red"}
