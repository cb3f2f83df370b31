"""Settings of recorded sessions: what the agent ran with, as its transcript says it."""

from __future__ import annotations

from typing import Any

import pytest

import stator
from stator.model.exchange.items import Configured, Conversation, Prompted, TurnEnded
from stator.model.values import canon
from stator.runtime.facade.view import SessionView
from stator.runtime.ingest.recorder import Recorder

TALK = Conversation(source="claude-code", id="9d4f", name="write hello", cwd="/home/dev/demo")
PROMPT = {"digest": "0123456789abcdef", "first": "You are careful."}


@pytest.fixture(params=["memory:", "file"])
def store(request, tmp_path):
    url = "memory:" if request.param == "memory:" else tmp_path / "a.db"
    with stator.connect(url, project="demo") as opened:
        yield opened


def record(store, *items):
    recording = Recorder(store.port, store.context, TALK)
    for item in items:
        recording.take(item)
    recording.flush()
    return SessionView(store.port, recording.session)


def configured(id, **settings):
    return Configured(id=id, at=int(id) * 10, settings=settings)


def settings(view):
    return {e.record.name: canon.from_plain(e.record.value) for e in view.entries("settings")}


def recorded(view):
    """The settings commits, each with the names it changed."""
    return [
        sorted(op.record.name for op in commit.delta)
        for commit in view.log()
        if commit.kind == "settings"
    ]


def test_what_the_agent_runs_with_is_state(store):
    view = record(
        store, configured("1", model="opus", permission_mode="plan", system_prompt=PROMPT)
    )
    assert settings(view) == {"model": "opus", "permission_mode": "plan", "system_prompt": PROMPT}


def test_the_same_settings_again_add_no_commit(store):
    view = record(
        store,
        Prompted(id="p1", at=5, content="go"),
        configured("1", model="opus"),
        configured("2", model="opus"),
        TurnEnded(at=60),
    )
    assert recorded(view) == [["model"]]


def test_only_names_whose_value_changed_are_recorded(store):
    view = record(
        store,
        configured("1", model="opus", permission_mode="plan"),
        configured("2", model="haiku", permission_mode="plan"),
    )
    assert recorded(view) == [["model", "permission_mode"], ["model"]]


def test_a_setting_that_no_longer_applies_leaves_the_state(store):
    view = record(store, configured("1", sandbox="read-only"), configured("2", sandbox=None))
    assert settings(view) == {}


def test_items_read_again_add_nothing_and_change_nothing(store):
    items = [
        configured("1", model="opus", version="1.0"),
        configured("2", model="haiku"),
        configured("3", model="opus", version="1.1"),
    ]
    before = record(store, *items).head
    for start in range(len(items)):
        after = record(store, *items[start:])
        assert after.head == before
        assert settings(after) == {"model": "opus", "version": "1.1"}


@pytest.mark.parametrize(
    "value", [float("nan"), "x" * 100_000, {"a": ["b" * 5000]}, "\ud800", 2**300, [[]] * 50]
)
def test_a_value_of_any_shape_is_recorded_within_bounds(store, value):
    view = record(store, configured("1", model="opus", odd=value))
    assert settings(view)["model"] == "opus"
    assert len(repr(settings(view)["odd"])) < 5000


def test_a_value_that_is_too_deep_costs_that_value_only(store):
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    view = record(store, configured("1", model="opus", odd=deep))
    assert settings(view)["model"] == "opus"
    while deep:  # the interpreter frees a deep list only piece by piece
        deep = deep.pop()
