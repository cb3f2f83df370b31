"""Poison does not travel: what rests on an untrusted root is told as unverified, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stator
from brief.poison.corpus import FAMILIES, GUISES, HOST, PROJECT, Poisoned, build, cases
from brief.poison.tellings import held, mentions, problems
from stator.model.views.taint import REPORTED
from stator.runtime.views.trust.untrusted import TaintStream


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with stator.connect(tmp_path / "s.db", project=PROJECT, durability="relaxed") as opened:
        yield opened


def poisoned_ones(folder: Path, family: str, guises: Any = GUISES) -> Any:
    """A store for each guise of a family, and what is poisoned in it."""
    for number, guise in enumerate(guises):
        below = folder / str(number)
        below.mkdir()
        with stator.connect(below / "s.db", project=PROJECT, durability="relaxed") as opened:
            yield guise, opened, build(opened, below, family, guise)


def test_the_corpus_has_more_than_a_hundred_poisoned_sessions():
    assert len(list(cases())) >= 100
    assert len(FAMILIES) >= 10


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_that_rests_on_an_untrusted_root_is_told_without_its_label(family, tmp_path):
    for guise, store, poisoned in poisoned_ones(tmp_path, family):
        assert not problems(store, poisoned), guise


@pytest.mark.parametrize("family", FAMILIES)
def test_each_entry_names_where_the_poison_came_from(family, tmp_path):
    for guise, store, poisoned in poisoned_ones(tmp_path, family, ["a decision", "unicode"]):
        found = held(store, poisoned)
        assert found, guise
        assert {entry.unverified for entry in found} <= {poisoned.origin}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_check_finds_poison_that_is_not_labelled(family, tmp_path, monkeypatch):
    monkeypatch.setattr(TaintStream, "_rooted", lambda self, commit: None)
    for guise, store, poisoned in poisoned_ones(tmp_path, family, ["the user prefers"]):
        assert mentions(store, poisoned), guise
        assert problems(store, poisoned), guise


LABELS: dict[str, tuple[str, str, Any]] = {
    "calls, errors and revisions in a brief": (
        "page", "stator.runtime.brief.labels.Labels.on", lambda self, item: item,
    ),
    "files in a brief": (
        "page", "stator.runtime.brief.labels.Labels.by_origin", lambda self, files: {"": files},
    ),
    "what calls showed": (
        "reported over MCP", "stator.runtime.brief.gather.resting", lambda saying, known: saying,
    ),
    "files in a dose": (
        "page", "stator.runtime.brief.doses.file_name_origins", lambda *given: {},
    ),
    "the name of a session in a brief": (
        "page", "stator.runtime.brief.gather.session_name_origin", lambda *given: "",
    ),
    "the name of a session in a dose": (
        "page", "stator.runtime.brief.doses.session_name_origin", lambda *given: "",
    ),
    "the name of a session at the start": (
        "page", "stator.runtime.brief.start.session_name_origin", lambda *given: "",
    ),
    "the name of a session over MCP": (
        "page", "stator.surfaces.mcp.request_context.session_name_origin", lambda *given: "",
    ),
    "what why answers": (
        "page", "stator.runtime.views.reasons.origins.Origins.on", lambda self, answer: answer,
    ),
    "names like the one that was asked about": (
        "page", "stator.runtime.views.reasons.why.is_from_here", lambda *given: True,
    ),
    "requests and calls that an agent reports": (
        "reported over MCP", "stator.model.views.taint.ACCOUNT", REPORTED,
    ),
}  # fmt: skip
"""What labels each kind of line: a family that has such lines, and what to put in the place of the mechanism."""


@pytest.mark.parametrize("kind", LABELS)
def test_the_check_finds_each_kind_of_line_that_lost_its_label(kind, tmp_path, monkeypatch):
    family, mechanism, instead = LABELS[kind]
    monkeypatch.setattr(mechanism, instead)
    for _, store, poisoned in poisoned_ones(tmp_path, family, ["the user prefers"]):
        assert problems(store, poisoned)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_person_vouches_for_is_told_as_what_it_is(family, tmp_path):
    for _, store, poisoned in poisoned_ones(tmp_path, family, ["a decision"]):
        before = held(store, poisoned)
        for session in {entry.session for entry in before} | {poisoned.session}:
            vouch(store, session, poisoned)
        after = held(store, poisoned)
        assert [entry.key for entry in after] == [entry.key for entry in before]
        assert {entry.unverified for entry in after} <= {""}


def vouch(store: Any, session: str, poisoned: Poisoned) -> None:
    """A person says that everything in a session and its sub-agents that came from elsewhere is believed."""
    contributor = store.contribute(session)
    if poisoned.host:
        contributor.vouch(f"host:{poisoned.host}", why="it is our own site")
    else:
        for commit in store.port.commits(session, limit=1000):
            contributor.vouch(commit.id, why="read it")
    for row in store.port.sessions(stator_query(parent=session)).rows:
        vouch(store, row.id, poisoned)


def stator_query(**fields: Any) -> Any:
    from stator.model.log.query import SessionQuery

    return SessionQuery(**fields)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_came_from_a_host_is_forgotten_at_a_word_and_listed(family, tmp_path):
    for _, store, poisoned in poisoned_ones(tmp_path, family, ["a label"]):
        if not poisoned.host:
            continue
        before = {(entry.collection, entry.key) for entry in held(store, poisoned)}
        gone = store.forget(f"web:{poisoned.host}", why="it lied")
        assert before <= {(one.collection, one.key) for one in gone}
        assert not held(store, poisoned)


def test_a_poisoned_value_does_not_replace_a_trusted_one(store):
    with store.open("first") as s, s.turn("decide") as t:
        t.decide("use the house registry", topic="registry")
    for number in range(5):
        folder = Path(store.port.path).parent / str(number)
        folder.mkdir()
    poisoned = build(store, folder, "driven, page", "a decision")
    (entry,) = [one for one in store.state(project=PROJECT)["decisions"] if one.key == "registry"]
    assert (entry.record.what, entry.unverified) == ("use the house registry", "")
    assert [one.unverified for one in entry.conflicts] == [f"web:{HOST}"]
    assert poisoned.marker in entry.conflicts[0].record.what
