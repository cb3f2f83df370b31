"""Every screen works when every record of a session was erased."""

from __future__ import annotations

import pytest

import stator
from stator.model.records.tables import COLLECTIONS

SCREENS = [
    "show shop",
    "state shop",
    "state shop --json",
    "decisions shop --all",
    "decisions shop --all --json",
    "files shop",
    "log shop",
    "diff shop:t0..head",
    "brief shop",
    "why app.py",
    "calls shop",
    "evicted shop",
    "artifact --session shop",
    "tree shop",
    "search plan",
    "resume shop",
    "du",
    "ls --all",
    "approvals --grants",
    "budget shop",
    "reflog shop",
    "verify",
]


@pytest.fixture(scope="module")
def erased_store(tmp_path_factory):
    path = tmp_path_factory.mktemp("erased") / "agent.db"
    with (
        stator.connect(path, project="shop", durability="relaxed") as store,
        store.open("shop") as s,
    ):
        with s.turn("work") as t:
            t.say("at work", usage={"tokens": 10})
            t.decide("plan a", topic="plan", why="it works")
            t.fact("test command", "pytest")
            t.file("app.py", "modified")
            t.plan(["one", "two"])
            t.pend("later")
            t.prefer("tabs", True)
            t.dead_end("by hand", why="slow")
            t.use("file", "app.py")
            t.note("scratch", 1)
            t.set(count=1)
            t.artifact("report", "text")
        s.tag("first")
        s.flag("look")
        s.score("quality", 1)
        store.approvals.grant("shop", "pay")
        for name in COLLECTIONS:
            for entry in s.entries(name) if name != "session" else ():
                s.erase(record=(name, entry.id))
    return path


@pytest.fixture
def emptied(erased_store, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(erased_store))


@pytest.mark.parametrize("screen", SCREENS)
def test_a_screen_shows_erased_records_or_leaves_them_out(emptied, ask, screen):
    answer = ask(*screen.split())
    assert answer.code in (0, 1), answer.err
    assert "Traceback" not in answer.err
