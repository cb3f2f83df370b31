"""`stator vouch`: a person's word, at the command line; and which tools of a proxied server read the web."""

from __future__ import annotations

import json

import pytest

import stator
from stator.errors import Unverified
from stator.surfaces.proxy.definitions import definitions


@pytest.fixture
def page(store, world):
    """A session that has read a page; the seq of the result."""
    with world.open(store) as opened, opened.open("reader") as s, s.turn("read it") as t:
        t.call(stator.tool(lambda: "text", name="fetch", effect="read", source="web"))
        return next(c.seq for c in s.log() if c.kind == "outcome")


@pytest.fixture
def is_verifiable(store, world):
    def tried():
        with world.open(store) as opened, opened.open("reader") as s, s.turn("on", new=True) as t:
            try:
                t.fact("x", 1, verified=True)
            except Unverified:
                return False
        return True

    return tried


def test_a_word_is_recorded_with_its_reason_and_taken_back(store, world, ask, page, is_verifiable):
    assert not is_verifiable()
    found = ask("vouch", f"@{page}", "--why", "read it", "--session", "reader", "--json")
    document = json.loads(found.out)
    assert (document["schema"], document["believed"]) == ("stator.vouch/1", True)
    with world.open(store) as opened:
        commit = opened.read("reader").commit(document["commit"][2:])
    assert (commit.kind, commit.value("why")) == ("trust", "read it")
    assert is_verifiable()
    said = ask("vouch", f"@{page}", "--withdraw", "--why", "wrong", "--session", "reader").out
    assert "is not believed any more" in said
    assert not is_verifiable()


def test_a_word_needs_a_reason(ask, page):
    assert ask("vouch", f"@{page}", "--session", "reader").code == 2


def test_an_agent_is_refused(ask, page, is_verifiable, monkeypatch):
    monkeypatch.setenv("CLAUDECODE", "1")
    found = ask("vouch", f"@{page}", "--why", "please", "--session", "reader")
    assert found.code == 2
    assert "a person's word" in found.err
    assert not is_verifiable()


def test_the_state_shows_what_is_believed(ask, page):
    ask("vouch", "host:docs.example", "--why", "ours", "--session", "reader")
    assert "host:docs.example is believed" in ask("state", "-c", "trust", "--session", "reader").out


@pytest.mark.parametrize(
    ("annotations", "source"),
    [
        ({"openWorldHint": True}, "web"),
        ({"openWorldHint": False}, "tool"),
        ({}, "tool"),
        (3, "tool"),
    ],
)
def test_a_proxied_tool_of_an_open_world_reads_the_web(annotations, source):
    found = definitions({"tools": [{"name": "x", "annotations": annotations}]})
    assert found["x"].source == source
