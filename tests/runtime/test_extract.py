"""`store.extract`: logs get what the rules find in them, once, and end in the state of a log that had it all along."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.extraction_talks import call, prompt, shell
from runtime.conftest import memory_store
from stator.model.exchange.items import Conversation
from stator.model.extraction import answers, extractor
from stator.model.extraction.evidence import EXTRACT
from stator.model.extraction.extractor import RULES
from stator.model.extraction.reconcile import NOT_COMPARED
from stator.model.log.commit import Draft, Upsert
from stator.model.records.types import DecisionRecord, PlanRecord
from stator.model.values.ids import derived
from stator.runtime.ingest import recorder as recording
from stator.runtime.ingest.extract import extract
from stator.runtime.ingest.recorder import Recorder
from stator.runtime.views import checked

TALK = Conversation(source="claude-code", id="talk")
MADE = ("checks", "decisions", "artifacts", "revisions", "candidates", "working_set")
REFUSED = "The user doesn't want to proceed with this tool use."


def asked(question: str, answer: str, name: str):
    given = {"questions": [{"question": question, "options": [{"label": "A"}, {"label": "B"}]}]}
    output = f'User has answered your questions: "{question}"="{answer}". You can now continue'
    return call("AskUserQuestion", given, output, name=name)


def items_of(plan: list[str]):
    """A conversation from a list of words."""
    return [prompt(), *(item for n, word in enumerate(plan) for item in part(word, n))]


def part(word: str, n: int):
    name, sha = f"c{n}", f"{n:07x}"
    if word in ("answer A", "answer B"):
        return asked("Which?", word[-1], name)
    if word == "other answer":
        return asked("How?", "A", name)
    if word == "commit":
        return shell("git commit -m x", f"[main {sha}] made {n}", name=name)
    if word == "amend":
        return shell("git commit --amend", f"[main {sha}] made {n}", name=name)
    if word == "push":
        return shell("git push", "To x\n   0000000..0000001  main -> main", name=name)
    if word == "server":
        return call("mcp__a__x", {}, name=name)
    if word == "plan":
        return call("ExitPlanMode", {"plan": f"# {n}"}, "User has approved your plan", name=name)
    refused = call("Bash", {"command": "rm"}, REFUSED, status="denied", name=name)
    return [*refused, prompt(f"no {n}", f"p{n}")]


def record(store, items, rules=RULES):
    """Record a conversation as a release with these rules does; its session."""
    with patch.object(recording, "Extractor", _with(rules)):
        taking = Recorder(store.port, store.context, TALK)
        for item in items:
            taking.take(item)
        taking.flush()
    return taking.session


def _with(rules):
    return lambda session, state: extractor.Extractor(session, state, rules)


def again(store, session, rules=RULES, **options):
    return extract(store.port, [store.port.session(session)], rules=rules, **options)


def state(store, session):
    return {
        collection: {
            entry.key: {
                name: value
                for name, value in msgspec.to_builtins(entry.record).items()
                if name not in NOT_COMPARED
            }
            for entry in store.port.entries(session, collection)
        }
        for collection in MADE
    }


def chosen(store: Any, session: str) -> list[str]:
    """What the decisions in force say."""
    decisions = store.read(session).state()["decisions"].values()
    return [one.what for one in decisions]


def changed(rule, how):
    """An earlier version of a rule, which gave other records."""

    def find(state, one, held):
        found = rule.find(state, one, held)
        if found is None:
            return None
        changes = tuple(
            Upsert(change.collection, how(change.record))
            for change in found.changes
            if how(change.record) is not None
        )
        return msgspec.structs.replace(found, changes=changes) if changes else None

    return msgspec.structs.replace(rule, version=0, find=find)


def louder(one):
    for name in ("what", "subject", "quote"):
        if getattr(one, name, ""):
            return msgspec.structs.replace(one, **{name: getattr(one, name).upper()})
    return one


def elsewhere(one):
    return (
        msgspec.structs.replace(one, topic="another topic")
        if isinstance(one, DecisionRecord)
        else one
    )


EARLIER = {
    "without rules": (),
    "some rules": RULES[:2],
    "other words": tuple(changed(rule, louder) for rule in RULES),
    "other keys": tuple(changed(rule, elsewhere) for rule in RULES),
    "the same records": tuple(changed(rule, lambda one: one) for rule in RULES),
}
WORDS = [
    "answer A",
    "answer B",
    "other answer",
    "commit",
    "amend",
    "push",
    "server",
    "refuse",
    "plan",
]
plans = st.lists(st.sampled_from(WORDS), max_size=8)


@given(plans, st.sampled_from(sorted(EARLIER)))
def test_a_log_of_earlier_rules_gets_the_state_of_these(plan, earlier):
    items = items_of(plan)
    old, new = memory_store(), memory_store()
    session = record(old, items, EARLIER[earlier])
    assert record(new, items) == session
    again(old, session, again=True)
    assert state(old, session) == state(new, session)
    head = old.port.head(session)
    assert not again(old, session, again=True).found
    assert old.port.head(session) == head


@given(plans)
def test_rules_that_find_nothing_any_more_remove_what_was_found(plan):
    items = items_of(plan)
    old, new = memory_store(), memory_store()
    session = record(old, items)
    record(new, items, RULES[2:])
    again(old, session, RULES[2:], again=True)
    assert state(old, session) == state(new, session)
    assert not again(old, session, RULES[2:], again=True).found


def test_without_again_only_what_is_missing_is_added():
    store = memory_store()
    session = record(store, items_of(["answer A"]), EARLIER["other words"])
    assert not again(store, session).found
    assert chosen(store, session) == ["A"]


def test_what_a_person_decided_since_stays():
    store = memory_store()
    session = record(store, items_of(["answer A", "server"]), ())
    store.contribute(session).decide("neither", topic="Which?")
    found = again(store, session)
    assert [one.rule for one in found.found] == ["surroundings"]
    assert chosen(store, session) == ["neither"]
    assert not again(store, session, again=True).found


def test_what_a_person_decided_since_is_not_removed():
    store = memory_store()
    session = record(store, items_of(["answer A"]))
    store.contribute(session).decide("neither", topic="Which?")
    assert not again(store, session, (), again=True).found


def test_a_finding_that_was_overtaken_comes_back_if_the_rules_take_the_later_one_back():
    store = memory_store()
    session = record(store, items_of(["answer A", "answer B"]))
    first = changed(answers.RULE, lambda one: one if one.what == "A" else None)
    again(store, session, (msgspec.structs.replace(first, version=2),), again=True)
    assert chosen(store, session) == ["A"]


def test_findings_whose_evidence_was_erased_stay():
    store = memory_store()
    session = record(store, items_of(["answer A"]))
    outcome = next(c for c in store.read(session).log() if c.kind == "outcome")
    store.erase(store.erasing(session, f"@{outcome.seq}"))
    again(store, session, again=True)
    assert chosen(store, session) == ["A"]


def test_a_dry_run_says_what_would_be_recorded_and_writes_nothing():
    store = memory_store()
    session = record(store, items_of(["answer A"]), ())
    head = store.port.head(session)
    (one,) = again(store, session, dry_run=True).found
    assert (one.rule, one.what, one.says) == ("answer", "added", ["Which?: A (over B)"])
    assert store.port.head(session) == head


def test_a_closed_recorded_session_takes_findings_and_stays_closed():
    store = memory_store()
    session = record(store, items_of(["answer A"]), ())
    store.lifecycle.close(session)
    assert len(store.extract(session).found) == 1
    assert store.read(session).status == "closed"


def test_a_log_of_an_earlier_release_that_is_read_again_gets_nothing_in_the_wrong_place():
    store = memory_store()
    items = items_of(["answer A", "commit"])
    session = record(store, items, ())
    head = store.port.head(session)
    assert record(store, items) == session
    assert store.port.head(session) == head
    record(store, [*items, *asked("New?", "B", "c9")])
    found = [c for c in store.read(session).log() if c.origin and c.origin[0] == EXTRACT]
    assert chosen(store, session) == ["B"]
    assert len(found) == 1


def test_a_finding_is_explained_by_its_evidence():
    store = memory_store()
    session = record(store, items_of(["answer A"]), ())
    (one,) = store.extract(session).found
    commits = {commit.id: commit for commit in store.read(session).log()}
    made, evidence = commits[one.commit], commits[one.evidence]
    assert made.inputs[0] == evidence.seq
    assert made.happened == evidence.happened
    assert made.provenance.source == "user"


@pytest.mark.parametrize("scope", ["", None])
def test_every_session_of_a_scope_is_looked_at(scope):
    store = memory_store()
    record(store, items_of(["answer A"]), ())
    assert len(store.extract(project=scope).found) == 1
    assert not store.extract(project=scope, again=True).found


# -- checks of steps that an agent reports beside its transcript ------------------------------------


def report(store, session, check="make test"):
    """A step of the plan, as an agent reports it through MCP."""
    step = PlanRecord(step="s", check=check, status="done")
    made = derived("commit", session, check)
    draft = Draft(id=made, session=session, kind="plan", changes=(Upsert("plan", step),))
    store.port.append(session, [draft])


def reads(store, session):
    (entry,) = store.read(session).entries("plan")
    return entry.record.status


def noise(taking, start):
    for n in range(start, start + 20):
        for item in shell(f"echo {n}", "", name=f"c{n}"):
            taking.take(item)


def take(taking, items):
    for item in items:
        taking.take(item)
    taking.flush()


def test_a_reported_step_is_proved_by_runs_before_and_after_it(monkeypatch):
    monkeypatch.setattr(checked, "NEWEST", 3)
    store = memory_store()
    taking = Recorder(store.port, store.context, TALK)
    take(taking, [prompt(), *shell("make test", "", name="a")])
    report(store, taking.session)
    noise(taking, 100)
    taking.flush()
    assert reads(store, taking.session) == "done"
    take(taking, shell("make test", "", name="b", status="error"))
    noise(taking, 200)
    taking.flush()
    assert reads(store, taking.session) == "claimed"


def test_a_recorder_that_reads_a_conversation_again_notices_the_checks_of_the_plan(monkeypatch):
    monkeypatch.setattr(checked, "NEWEST", 3)
    store = memory_store()
    items = [prompt(), *shell("make test", "", name="a")]
    first = Recorder(store.port, store.context, TALK)
    take(first, items)
    report(store, first.session)
    first.flush()
    assert reads(store, first.session) == "done"
    head = store.port.head(first.session)
    second = Recorder(store.port, store.context, TALK)
    take(second, items)
    assert store.port.head(first.session) == head
    take(second, shell("make test", "", name="b", status="error"))
    noise(second, 100)
    second.flush()
    assert reads(store, first.session) == "claimed"


def test_a_log_without_runs_of_checks_gets_them(monkeypatch):
    monkeypatch.setattr(checked, "NEWEST", 3)
    store = memory_store()
    lines = [shell(f"echo {n}", "", name=f"c{n}") for n in range(20)]
    items = [prompt(), *shell("make test", "", name="a"), *(i for line in lines for i in line)]
    with patch.object(recording, "learn", lambda store, extractor: []):
        session = record(store, items, RULES[1:])
    report(store, session)
    assert reads(store, session) == "claimed"
    assert again(store, session).counts == {"check": 1}
    assert reads(store, session) == "done"
    assert not again(store, session).found
    assert not again(store, session, again=True).found
