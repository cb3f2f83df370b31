"""The command cost: what sessions cost, by day, agent, project, model or session."""

from __future__ import annotations

import json

import pytest

import stator
from stator.surfaces.cli.commands import cost

SPENT = {
    "cheap": {"tokens": 1000, "tokens:cache_read": 900, "money:usd": 10_000},
    "dear": {"tokens": 5000, "money:usd": 2_500_000},
    "unpriced": {"tokens": 70},
    "silent": None,
}


@pytest.fixture(autouse=True)
def sessions(tmp_path, monkeypatch):
    """Four sessions of a project, and one of another."""
    path = str(tmp_path / "costs.db")
    monkeypatch.setenv("STATOR_STORE", path)
    for name, usage in SPENT.items():
        with (
            stator.connect(path, project="shop").open(name, agent=f"{name}-agent") as s,
            s.turn("work") as t,
        ):
            t.say("Done.", usage=usage)
    with stator.connect(path, project="other").open("elsewhere") as s, s.turn("work") as t:
        t.say("Done.", usage={"tokens": 4, "money:usd": 40_000})


def items(answer):
    return {item["name"]: item for item in map(json.loads, answer.lines)}


def test_the_whole_comes_first_and_says_what_it_lacks(ask):
    lines = ask("cost").lines
    assert lines[0].startswith("project shop · cost · 3 sessions (1 more without recorded usage), ")
    assert lines[1] == "> $2.51 · 5.2 k tokens (+ 900 cached)"
    assert lines[2] == "1 of 3 sessions used tokens of unknown price; prices: stator.toml"


@pytest.mark.parametrize("by", cost.KINDS)
def test_every_row_counts_only_sessions_with_recorded_usage(ask, by):
    found = [json.loads(line) for line in ask("cost", "--by", by, "--json").lines]
    assert sum(item["sessions"] for item in found) == 3


def test_since_a_time_sessions_without_recorded_usage_are_told_too(ask):
    whole, lately = ask("cost").lines[0], ask("cost", "--since", "1d").lines[0]
    assert lately == whole


def test_a_heading_that_is_too_wide_keeps_its_dates(ask, monkeypatch):
    dates = ask("cost").lines[0].partition("usage)")[2]
    monkeypatch.setenv("COLUMNS", "60")
    assert ask("cost").lines[:2] == [
        f"project shop · cost · 3 sessions{dates}",
        "1 more session without recorded usage",
    ]


def test_a_glance_shows_days_agents_and_sessions_and_what_cost_most_first(ask):
    lines = ask("cost").lines
    assert lines[4].split() == ["BY", "SESSIONS", "TOKENS", "CACHED", "COST"]
    sections = [line for line in lines if line and line[0] != " "][7:]
    assert sections == ["model", "agent", "day", "session"]
    at = lines.index("session")
    assert [line.split()[0] for line in lines[at + 1 :]] == ["dear", "cheap", "unpriced"]


def test_unknown_is_a_dash_and_never_0(ask):
    row = next(line for line in ask("cost", "--by", "session").lines if line.startswith("unpriced"))
    assert row.split() == ["unpriced", "70", "–", "–"]


def test_a_project_is_named_where_all_of_them_are_asked_for(ask):
    assert (
        items(ask("cost", "--by", "project", "--everywhere", "--json"))["other"]["cost"] == "$0.04"
    )
    assert "other" not in items(ask("cost", "--by", "project", "--json"))


def test_one_session_is_about_itself(ask):
    lines = ask("cost", "dear").lines
    assert lines[0].startswith("session dear · cost · 1 session, ")
    assert lines[1] == "$2.50 · 5.0 k tokens"


def test_json_has_the_amounts_by_unit(ask):
    found = items(ask("cost", "--by", "agent", "--json"))["cheap-agent"]
    assert (found["sessions"], found["tokens"], found["cached"]) == (1, 100, 900)
    assert found["spend"]["money:usd"] == 10_000


@pytest.mark.parametrize("by", cost.KINDS)
def test_every_kind_of_group_sums_up_to_the_whole(ask, by):
    found = items(ask("cost", "--by", by, "--json"))
    assert sum(item["spend"].get("money:usd", 0) for item in found.values()) == 2_510_000


def test_a_cut_is_said_in_text_and_in_json(ask, monkeypatch):
    assert (
        ask("cost", "--by", "session", "-n", "1").lines[-1] == "… more sessions than this one: -n 2"
    )
    monkeypatch.setattr(cost, "SESSIONS_MAX", 2)
    assert "only the 2 sessions used last are counted" in ask("cost").out
    assert json.loads(ask("cost", "--json").lines[-1])["cut"]["shown"] == 2


def test_a_glance_begins_with_the_total_this_week_and_today(ask):
    total, week, today = ask("cost").lines[5:8]
    assert total.split() == ["total", "3", "5.2", "k", "900", ">", "$2.51"]
    assert week.startswith("last 7 days, since ")
    assert week.endswith("3   5.2 k     900  > $2.51")
    assert today.split()[1:] == total.split()[1:]


def test_a_few_groups_of_a_kind_are_all_shown(ask, monkeypatch):
    monkeypatch.setattr(cost, "GLANCE", 1)
    named = [line.split()[0] for line in ask("cost").lines if line.startswith("  ")]
    assert [one for one in named if one in SPENT] == ["dear", "cheap", "unpriced"]
    assert [one for one in named if one.endswith("-agent")] == [
        "dear-agent",
        "cheap-agent",
        "unpriced-agent",
    ]
    monkeypatch.setattr(cost, "FEW", 2)
    assert "agent  of 3: --by agent" in ask("cost").lines


def test_a_time_without_costs_says_what_was_used_before(ask):
    answer = ask("cost", "--since", "2199-01-01")
    assert (answer.code, answer.lines) == (
        0,
        [
            "nothing was used since 1 Jan 2199 00:00 in project shop; all time: > $2.51 (stator cost)",
        ],
    )


def test_a_time_without_costs_says_so_as_json(ask):
    (item,) = map(json.loads, ask("cost", "--since", "2199-01-01", "--json").lines)
    assert item["nothing"]["all_time"]["cost"] == "> $2.51"
    assert item["nothing"]["all_time"]["sessions"] == 3


def test_an_unknown_kind_names_those_there_are(ask):
    answer = ask("cost", "--by", "colour")
    assert (answer.code, "--by day, week, month, agent" in answer.err) == (2, True)
