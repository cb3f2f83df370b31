"""The column cost_usd of `stator sql`: what was recorded, and what prices make of usage, as the commands show it."""

from __future__ import annotations

import json

import pytest

import stator

DOLLARS = 0.3
"""What 100,000 tokens that were read cost by the list."""


def answer(model):
    text = [{"type": "text", "text": "Done."}]
    usage = {"input_tokens": 100_000}
    return {"role": "assistant", "model": model, "content": text, "usage": usage}


@pytest.fixture(autouse=True)
def sessions(tmp_path, monkeypatch):
    """A session whose cost is computed, one whose cost is recorded, and one with a model of unknown price."""
    path = str(tmp_path / "costs.db")
    monkeypatch.setenv("STATOR_STORE", path)
    with stator.connect(path, project="shop") as store:
        for name in ("computed", "recorded", "unknown"):
            with store.open(name) as s:
                for prompt in ("first", "second"):
                    with s.turn(prompt) as t:
                        if name == "recorded":
                            t.say("Done.", usage={"tokens": 10, "money:usd": 2_500_000})
                        else:
                            t.reply(
                                answer("claude-sonnet-4-5" if name == "computed" else "nobody-1")
                            )


def rows(ask, query):
    return [tuple(json.loads(line).values()) for line in ask("sql", query, "--json").lines]


def test_a_session_costs_what_the_commands_say(ask):
    found = rows(ask, "SELECT name, cost_usd, cost_computed FROM sessions ORDER BY name")
    assert found == [("computed", 2 * DOLLARS, 1), ("recorded", 5.0, 0), ("unknown", None, 0)]


def test_the_sum_over_all_sessions_is_that_of_cost(ask):
    (whole, *_) = map(json.loads, ask("cost", "--by", "project", "--json").lines)
    ((dollars,),) = rows(ask, "SELECT sum(cost_usd) FROM sessions")
    assert dollars == whole["spend"]["money:usd"] / 1_000_000


def test_a_turn_costs_what_its_answers_do(ask):
    found = rows(
        ask,
        "SELECT name, turn, turns.cost_usd FROM turns"
        " JOIN sessions ON sessions.id = session WHERE name != 'unknown' ORDER BY name, turn",
    )
    assert found == [
        ("computed", 1, DOLLARS),
        ("computed", 2, DOLLARS),
        ("recorded", 1, 2.5),
        ("recorded", 2, 2.5),
    ]


def test_an_answer_costs_what_it_used(ask):
    query = "SELECT cost_usd, cost_computed FROM commits WHERE cost_usd > 0 ORDER BY cost_usd DESC"
    assert rows(ask, query) == [(2.5, 0), (2.5, 0), (DOLLARS, 1), (DOLLARS, 1)]


@pytest.mark.parametrize("view", ["sessions", "turns", "commits"])
def test_all_columns_have_the_cost_too(ask, view):
    (line, *_) = [
        found
        for found in map(json.loads, ask("sql", f"SELECT * FROM {view}", "--json").lines)
        if found["cost_computed"]
    ]
    assert line["cost_usd"] > 0


def test_a_sum_can_be_of_recorded_money_alone(ask):
    assert rows(ask, "SELECT sum(cost_usd) FROM sessions WHERE NOT cost_computed") == [(5.0,)]
