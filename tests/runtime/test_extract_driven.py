"""In driven sessions the same rules find the same things, in the append of the outcome."""

from __future__ import annotations

from typing import Any

import pytest

import stator
from runtime.conftest import memory_store
from stator.errors import StatorError
from stator.model.extraction.evidence import EXTRACT
from stator.model.values.ids import short
from stator.runtime.driving.driver import Driver
from stator.testing import replay

MADE = "[main 1234abc] Add it\n 1 file changed\n create mode 100644 a.py\n"


@stator.tool(name="bash", effect="write")
def bash(command: str) -> str:
    return MADE


def findings(store, name="work"):
    return [c for c in store.read(name).log() if c.origin and c.origin[0] == EXTRACT]


def agent(session, *, fails: bool = False) -> None:
    with session.turn("commit it") as turn:
        turn.call(bash, command="git commit -m x")
        turn.decide("ship", topic="release")
        if fails:
            raise KeyboardInterrupt
        turn.call(bash, command="git status")


def program(store, **options) -> None:
    with store.open("work") as session:
        agent(session, **options)


def test_a_commit_of_a_driven_session_is_a_revision():
    store: Any = memory_store()
    program(store)
    (found,) = findings(store)
    outcome = next(c for c in store.read("work").log() if c.kind == "outcome")
    assert found.seq == outcome.seq + 1
    assert found.inputs[0] == outcome.seq
    (revision,) = store.read("work").state()["revisions"].values()
    assert (revision.sha, revision.files, revision.how) == ("1234abc", ["a.py"], "inferred")


def test_a_program_that_continues_finds_nothing_twice():
    store: Any = memory_store()
    with pytest.raises(KeyboardInterrupt):
        program(store, fails=True)
    program(store)
    assert len(findings(store)) == 1
    assert not store.extract("work").found


def test_a_replay_does_not_ask_the_program_for_findings():
    store: Any = memory_store()
    program(store)
    assert replay(store.read("work"), agent, strict=True).check().records == 1


def test_a_closed_driven_session_takes_no_findings_and_is_named(monkeypatch):
    store: Any = memory_store()
    monkeypatch.setattr(Driver, "extract", lambda self, draft: [])
    program(store)
    session = store.read("work").id
    store.lifecycle.close("work")
    done = store.extract("work")
    assert (done.found, done.closed) == ([], {session: 1})
    store.lifecycle.resume("work")
    assert len(store.extract("work").found) == 1


def test_what_a_log_of_an_earlier_release_lacks_is_the_same_as_what_a_driver_records(monkeypatch):
    new: Any = memory_store()
    old: Any = memory_store()
    program(new)
    with monkeypatch.context() as patched:
        patched.setattr(Driver, "extract", lambda self, draft: [])
        program(old)
    old.extract("work")
    assert [c.delta[0].record for c in findings(new)] == [c.delta[0].record for c in findings(old)]


def test_a_program_that_is_refused_by_a_rule_leaves_no_candidate():
    store: Any = memory_store()
    rule = stator.Rule(tool="bash", action="deny", why="no shell here")
    with (
        store.open("work", rules=[rule]) as session,
        session.turn("x") as turn,
        pytest.raises(StatorError),
    ):
        turn.call(bash, command="git commit -m x")
    assert not findings(store)


def test_words_with_which_a_person_denies_a_call_are_a_candidate():
    store: Any = memory_store()
    rule = stator.Rule(tool="bash", action="ask")
    with (
        pytest.raises(stator.ApprovalNeeded),
        store.open("work", rules=[rule]) as session,
        session.turn("x") as turn,
    ):
        turn.call(bash, command="rm -rf build")
    (waiting,) = store.approvals.waiting("work")
    store.approvals.deny(waiting.call, by="local:ann", why="use make clean")
    (record,) = store.read("work").state()["candidates"].values()
    assert (record.name, record.quote) == ("refused: bash rm -rf build", "use make clean")
    assert not store.extract("work", again=True).found


def test_an_adopted_try_is_a_decision_of_the_user():
    store: Any = memory_store()
    program(store)
    second = store.fork("work", "head", as_name="second")
    original = store.read("work").id
    store.contribute("work").adopt("second:head")
    (found,) = [c for c in findings(store, original) if c.origin[1].startswith("adoption")]
    decision = found.delta[-1].record
    assert decision.what == f"the try {short(second.id)}"
    assert decision.over == [f"the original {short(original)}"]
    assert (decision.by, found.provenance.source) == ("user", "user")
