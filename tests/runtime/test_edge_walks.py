"""Walks the edges of sessions of every origin: imported, grafted, begun with an earlier release, asked over MCP."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import stator
from runtime.bundle_fixtures import machine, work
from runtime.edge_stories import TOOLS, asks, last, only
from runtime.test_edge_laws import held, kinds_behind
from stator.errors import Unverified
from stator.importing import discover, import_transcripts
from stator.model.log.delta import Put
from stator.runtime.ingest.self_report import Reporter

TESTS = Path(__file__).parent.parent
TRANSCRIPTS = TESTS.parent / "examples" / "transcripts"
MADE = ("decision", "fact", "file", "plan")


def test_every_file_of_an_imported_session_reaches_a_prompt(store):
    result = import_transcripts(store, discover([str(TRANSCRIPTS)]))
    files, logs = 0, dict[str, Any]()
    for one in result.taken:
        view = store.read(one.session)
        for commit in view.log():
            touched = any(isinstance(op, Put) and op.collection == "files" for op in commit.delta)
            if touched or commit.kind in ("plan", "call", "outcome"):
                assert "turn" in kinds_behind(store, view.id, commit, logs), commit
                files += touched
            if commit.kind == "entry" and commit.actor == "model":
                assert all(c.seq < commit.seq for c in held(list(view.log()), commit))
    assert files


def test_an_imported_session_holds_no_id_of_its_own_as_text(store):
    result = import_transcripts(store, discover([str(TRANSCRIPTS)]))
    for one in result.taken:
        log = list(store.read(one.session).log())
        own = {commit.id for commit in log}
        assert not [item for c in log for item in c.inputs if item in own]


def test_a_grafted_session_was_made_from_the_same_commits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here, there = machine(tmp_path / "here", "shop"), machine(tmp_path / "there", "shop")
    view = work(here)
    here.export("fix-login", tmp_path / "a.stator")
    there.import_bundle(tmp_path / "a.stator")
    with there.open("fix-login") as s, s.turn("there") as t:
        t.results(t.reply(asks("look", "peek")), TOOLS)
        t.decide("their way", topic="auth")
        t.reply(asks())
        t.fact("theirs", 1)
    with here.open("fix-login") as s, s.turn("here") as t:
        t.decide("our way", topic="auth")
    there.export("fix-login", tmp_path / "b.stator")
    (one,) = here.import_bundle(tmp_path / "b.stator").sessions
    assert one.fate == "fork"
    theirs = list(there.read(view.id).log())
    ours = list(here.read(one.into).log())
    wanted = {c.id: [o.id for o in held(theirs, c)] for c in theirs}
    found = {c.id: [o.id for o in held(ours, c)] for c in ours}
    assert {name: made for name, made in found.items() if name in wanted} == wanted
    for commit in ours:
        if commit.kind in MADE:
            assert "turn" in kinds_behind(here, one.into, commit)
    assert here.verify().ok


@pytest.mark.parametrize("release", ["0.1.0", "0.4.0", "0.6.0"])
def test_a_session_begun_with_an_earlier_release_continues_with_edges(tmp_path, release):
    path = tmp_path / "store.db"
    shutil.copyfile(TESTS / "compat" / "data" / f"{release}.db", path)
    with stator.connect(path, project="compat", trust=True) as store:
        rows = [row for row in store.sessions(limit=100).rows if row.record.mode == "driven"]
        row = next(row for row in rows if row.turns and row.record.status != "archived")
        before = store.read(row.id).head.seq
        with store.open(row.id) as s, s.turn("and now", new=True) as t:
            t.decide("before the answer")
            t.results(t.reply(asks("look")), TOOLS)
            t.fact("x", 1)
            t.file("a.py", "created")
        log = list(store.read(row.id).log())
        for commit in log[before:]:
            assert all(c.seq < commit.seq for c in held(log, commit))
            if commit.kind in MADE:
                assert "turn" in kinds_behind(store, row.id, commit)
        answer = [c for c in log if c.kind == "entry"][-1]
        assert any(c.seq <= before for c in held(log, answer))
        assert store.verify().ok


def test_what_an_agent_reports_over_mcp_was_made_in_the_open_turn(memory):
    with memory.open("a") as s, s.turn("go") as t:
        t.reply(asks())
        reporter = Reporter(memory.port, memory.context, s.id, source="mcp", key="once")
        reporter.decide("x")
        (first,) = reporter.send()
        t.reply(asks())
        again = Reporter(memory.port, memory.context, s.id, source="mcp", key="once")
        again.decide("x")
        assert again.send() == [first]
        inside = Reporter(memory.port, memory.context, s.id, source="mcp", call=last(s, "turn").id)
        inside.fact("y", 1)
        inside.send()
    prompt, answer = last(s, "turn"), only(s, "entry")[0]
    assert [c.seq for c in held(list(s.log()), first)] == [prompt.seq, answer.seq]
    assert last(s, "fact").inputs == [prompt.seq]


def test_outside_a_turn_a_report_was_made_from_nothing_here(memory):
    memory.open("a").pause()
    reporter = Reporter(memory.port, memory.context, memory.read("a").id, source="mcp")
    reporter.fact("x", 1, verified=True)
    assert [commit.inputs for commit in reporter.send()] == [[]]


def test_everything_in_a_foreign_store_is_untrusted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with stator.connect(tmp_path / "mine.db") as mine, mine.open("a") as s, s.turn("go") as t:
        t.reply(asks())
    shutil.copy(tmp_path / "mine.db", tmp_path / "copy.db")
    with stator.connect(tmp_path / "copy.db") as copy, copy.open("a") as s, s.turn("on") as t:
        assert copy.foreign
        with pytest.raises(Unverified, match="its store is foreign"):
            t.fact("x", 1, verified=True)
