"""Sessions: opening, reopening, ending; who may drive and who may contribute."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import stator
from stator.errors import BadBudget, BadType, Busy, InvalidInput, LeaseLost, NotFound, WrongState


def kinds(view):
    return [commit.kind for commit in view.log()]


def test_opening_a_name_again_opens_the_same_session(store):
    with store.open("a") as first:
        pass
    with store.open("a") as second:
        assert second.id == first.id
    assert kinds(store.read("a")) == [
        "open",
        "run",
        "run_end",
        "pause",
        "resume",
        "run_end",
        "pause",
    ]


def test_the_same_name_in_another_project_is_another_session(store):
    with store.open("a") as here, store.open("a", project="elsewhere") as there:
        assert here.id != there.id


def test_a_session_keeps_the_options_it_was_opened_with(store):
    budget = {"tokens": 1000, "money:usd": 5_000_000}
    with store.open(
        "a", agent="coder", labels={"team": "x"}, budget=budget, aliases=[("ci", "42")]
    ) as s:
        record = s.record
    assert (record.agent, record.labels, record.budget) == ("coder", {"team": "x"}, budget)
    assert record.aliases == [["ci", "42"]]


def test_a_session_is_active_while_driven_and_paused_afterwards(store):
    with store.open("a") as s:
        assert s.status == "active"
    assert s.status == "paused"
    assert s.record.reason == "user"


def test_an_exception_pauses_the_session_with_the_reason(store):
    with pytest.raises(RuntimeError), store.open("a") as s:
        raise RuntimeError("no")
    assert (s.status, s.record.reason) == ("paused", "error: RuntimeError")


def test_opening_a_closed_session_resumes_it(store):
    s = store.open("a")
    s.close()
    assert s.status == "closed"
    with store.open("a") as again:
        assert again.status == "active"
        again.turn("more").end()
    assert "resume" in kinds(again)


def test_a_session_object_refuses_turns_after_its_block_ended(store):
    with store.open("a") as s:
        pass
    with pytest.raises(WrongState, match="has ended"):
        s.turn("more")
    s.pause()  # pausing twice is harmless


def test_a_driven_session_is_busy_and_the_error_names_the_holder(store):
    with store.open("a"), pytest.raises(Busy) as caught:
        store.open("a")
    assert caught.value.holder.pid == os.getpid()
    assert str(os.getpid()) in str(caught.value)


def test_a_busy_session_can_be_forked_instead(store):
    with store.open("a") as s:
        s.turn("one").end()
        with store.open("a", busy="fork") as fork:
            assert fork.id != s.id
            assert fork.record.parent.session == s.id
            fork.turn("two").end()
        s.turn("other two").end()
    assert [row.turn for row in fork.turns()] == [1, 2]


def test_taking_a_session_fences_its_driver(store):
    with store.open("a") as taken:
        old = taken.turn("one")
        with store.open("a", busy="take"):
            with pytest.raises(LeaseLost, match="another program"):
                old.say("still here?")
            with pytest.raises(LeaseLost):
                taken.pause()


def test_an_unknown_busy_mode_is_refused_before_anything_is_written(store):
    with pytest.raises(InvalidInput, match="busy"):
        store.open("a", busy="steal")
    assert store.sessions().rows == []


@pytest.mark.parametrize("name", ["", "   ", "a\0b", "x" * 301, None, 7])
def test_a_session_needs_a_usable_name(store, name):
    with pytest.raises(InvalidInput):
        store.open(name)
    assert store.sessions().rows == []


@pytest.mark.parametrize("budget", [{"tokens": 0}, {"tokens": -1}, {"cookies": 5}, {"turns": 1.5}])
def test_an_invalid_budget_is_refused(store, budget):
    with pytest.raises(BadBudget):
        store.open("a", budget=budget)
    assert store.sessions().rows == []


def test_labels_must_be_text(store):
    with pytest.raises(InvalidInput):
        store.open("a", labels={"n": 1})
    with pytest.raises((BadType, InvalidInput)):
        store.open("a", labels="team")
    assert store.sessions().rows == []


def test_sessions_are_listed_most_recently_used_first(store):
    for name in "abc":
        store.open(name).pause()
    store.open("a").pause()
    assert [row.record.name for row in store.sessions().rows] == ["a", "c", "b"]
    page = store.sessions(limit=2)
    rest = store.sessions(cursor=page.cursor)
    assert [row.record.name for row in (*page.rows, *rest.rows)] == ["a", "c", "b"]


def test_sessions_are_filtered_by_project_agent_and_status(store):
    store.open("a", agent="x").close()
    store.open("b", agent="y").pause()
    store.open("c", agent="x", project="other").pause()
    assert [row.record.name for row in store.sessions(agent="x", project="shop").rows] == ["a"]
    assert [row.record.name for row in store.sessions(status="paused").rows] == ["c", "b"]


def test_reading_needs_no_lease_and_changes_nothing(store):
    with store.open("a") as s:
        s.turn("one").end()
        before = s.head
        view = store.read("a")
        view.state()
        view.diff()
        view.files()
        list(view.log())
        assert view.head == before


def test_the_error_of_reading_a_missing_session_names_stator_ls(store):
    with pytest.raises(NotFound, match="stator ls"):
        store.read("nothing")


# -- contributions ----------------------------------------------------------------------------------


def test_a_contributor_adds_to_a_driven_session(store):
    with store.open("a") as s:
        other = store.contribute("a", principal="local:ann")
        other.decide("keep it", topic="scope", why="asked")
        other.fact("build", "make")
        other.tag("here")
        s.turn("goes on").end()
    found = next(commit for commit in s.log() if commit.kind == "decision")
    assert (found.value("principal"), found.actor) == ("local:ann", "user")
    assert s.facts() == {"build": "make"}
    assert s.at("here").seq == 4


def test_a_session_records_scores_flags_and_tags(store):
    with store.open("a") as s:
        s.turn("one").end()
        s.score("helpful", 0.75, on="t1", comment="fine")
        s.flag("check", why="looks odd")
        s.tag("good", "t1")
    state = s.state(collections=["scores", "flags", "tags"])
    (score,) = state["scores"].values()
    assert (score.value, score.on, score.comment) == (750, "t1", "fine")
    assert [flag.why for flag in state["flags"].values()] == ["looks odd"]
    assert s.at("good").seq == 6  # a commit after the end of a turn belongs to that turn


def test_a_closed_session_accepts_a_tag_but_no_fact(store):
    store.open("a").close()
    contributor = store.contribute("a")
    contributor.tag("final")
    with pytest.raises(WrongState, match="closed"):
        contributor.fact("n", 1)


# -- dead drivers -------------------------------------------------------------------------------------


def run_and_die(store_path, body):
    """Run a driver in its own process, which dies during its turn."""
    code = textwrap.dedent(
        """
        import os, stator
        store = stator.connect({path!r}, project="shop")
        s = store.open("a")
        t = s.turn("one")
        {body}
        os._exit(9)
        """
    ).format(path=str(store_path), body=body)
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True)
    assert done.returncode == 9, done.stderr


WRITE_AND_DIE = "t.call(lambda: os._exit(9))"
READ_AND_DIE = "t.call(stator.tool(effect='read', name='look')(lambda: os._exit(9)))"


def test_a_session_whose_driver_died_is_shown_as_interrupted(store, tmp_path):
    run_and_die(tmp_path / "agent.db", "t.say('hello')")
    assert store.read("a").status == "interrupted"
    with store.open("a") as s:
        assert s.status == "active"
    ended = next(commit for commit in s.log() if commit.kind == "turn_end")
    assert (ended.status, ended.cause) == ("interrupted", "process died")


def test_a_write_whose_driver_died_is_in_doubt(store, tmp_path):
    run_and_die(tmp_path / "agent.db", WRITE_AND_DIE)
    with store.open("a") as s:
        (call,) = s.calls()
    assert (call.status, call.cause) == ("in doubt", "process died")
    assert [row.call for row in s.calls(status="open")] == [call.call]


def test_a_read_whose_driver_died_is_cancelled(store, tmp_path):
    run_and_die(tmp_path / "agent.db", READ_AND_DIE)
    with store.open("a") as s:
        (call,) = s.calls()
    assert (call.status, call.cause) == ("cancelled", "process died")
    assert s.calls(status="open") == []


# -- stator.open --------------------------------------------------------------------------------------


def test_open_uses_the_given_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with stator.open("a", store=tmp_path / "x.db", agent="me") as s:
        s.turn("hi").end()
    with stator.connect(tmp_path / "x.db") as opened:
        assert opened.read("a").record.agent == "me"


def test_open_finds_the_store_the_environment_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "named.db"))
    stator.open("a").pause()
    assert (tmp_path / "named.db").exists()


def test_open_finds_the_nearest_store_upward(tmp_path, monkeypatch):
    monkeypatch.delenv("STATOR_STORE", raising=False)
    stator.connect(tmp_path / ".stator" / "store.db").close()
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    stator.open("a").pause()
    with stator.connect(tmp_path / ".stator" / "store.db") as opened:
        assert [row.record.name for row in opened.sessions().rows] == ["a"]
    assert (tmp_path / ".stator" / ".gitignore").read_text() == "*\n"


def test_open_creates_the_users_store_on_a_new_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("STATOR_STORE", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    stator.open("a").pause()
    assert (tmp_path / "home/.local/share/stator/store.db").exists()


def test_an_unknown_durability_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="durability"):
        stator.connect(tmp_path / "a.db", durability="eventual")  # type: ignore[arg-type]
    assert not (tmp_path / "a.db").exists()


@pytest.mark.parametrize("durability", ["full", "barrier", "relaxed"])
def test_every_durability_level_records_the_same(tmp_path, durability):
    with stator.connect(tmp_path / "a.db", durability=durability) as opened:
        assert opened.info().durability == durability
        with opened.open("a") as s, s.turn("one") as t:
            t.fact("n", 1)
        opened.sync()
        assert s.facts() == {"n": 1}


def test_recorded_facts_exist_after_reopening_the_store(tmp_path):
    with stator.connect(tmp_path / "a.db") as opened, opened.open("a") as s, s.turn("one") as t:
        t.fact("n", 1)
    with stator.connect(tmp_path / "a.db", read_only=True) as again:
        assert again.read("a").facts() == {"n": 1}


def test_sealed_commits_of_one_store_can_be_ingested_by_another(store, memory):
    with store.open("a") as s, s.turn("one") as t:
        t.fact("n", 1)
    commits = list(s.log())
    assert memory.ingest(commits) == len(commits)
    assert memory.ingest(commits) == 0
    assert memory.read(s.id).facts() == {"n": 1}
    assert memory.read(s.id).head.hash == s.head.hash


# -- erasing ------------------------------------------------------------------------------------------


def test_erasing_removes_the_value_and_the_chain_still_verifies(store):
    from stator.runtime.views.verify import verify

    with store.open("a") as s:
        with s.turn("my number is 555-0100") as t:
            t.fact("phone", "555-0100")
        entry = s.entries("facts")[0]
        s.erase("@3", fields=["input"])
        s.erase(record=("facts", entry.id))
    with pytest.raises(stator.errors.Erased):
        s.commit("@3").value("input")
    assert s.facts() == {}
    assert list(verify(store.port)) == []
