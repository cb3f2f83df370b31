"""Where things are in a project: what needs a person, what runs, how the last sessions ended, what a week cost."""

from __future__ import annotations

import pytest

import stator
from stator.errors import ApprovalNeeded
from stator.model.calls.costs import Prices, names_money
from stator.runtime.views.glance.listed import listed
from stator.runtime.views.glance.status import LAST, SESSIONS_MAX, WEEK_US, status

PRICES = Prices({"claude-sonnet": {"tokens:in": 3, "tokens:out": 15}})


@stator.tool(effect="write")
def pay(cents, to):
    raise stator.InDoubt("connection lost")


@stator.tool(effect="write", approve=True)
def deploy(env):
    return "done"


@stator.tool(effect="write")
def bash(command):
    return {"exit_code": 0}


def of(memory, **options):
    now = options.pop("now", memory.context.clock())
    return status(memory.as_read, project=None, now=now, **options)


def test_a_call_in_doubt_is_named_with_its_arguments_and_turn(memory):
    with memory.open("fix-basket") as s, s.turn("pay") as t:
        t.try_call(pay, cents=4200, to="ACME")
    (need,) = of(memory).needs
    assert (need.what, need.tool, need.row.record.name) == ("settle", "pay", "fix-basket")
    assert need.intent is not None
    assert need.intent.value("input") == {"cents": 4200, "to": "ACME"}
    assert need.intent.turn == 1
    assert need.cause


def test_a_call_that_waits_for_approval_needs_a_person(memory):
    with (
        pytest.raises(ApprovalNeeded),
        memory.open("release") as s,
        s.turn("ship it") as t,
    ):
        t.call(deploy, env="prod")
    assert [(need.what, need.tool) for need in of(memory).needs] == [("approve", "deploy")]


def test_steps_that_are_claimed_need_a_person_if_they_have_a_check(memory):
    with memory.open("refactor") as s, s.turn("go") as t:
        t.plan("tests pass", "done", check="pytest -q")
        t.plan("docs", "done")
    (need,) = of(memory).needs
    assert (need.what, need.steps) == ("check", ["tests pass"])
    assert need.cause


def test_a_session_that_runs_is_not_among_the_last(memory):
    with memory.open("done before") as s, s.turn("go") as t:
        t.say("ok")
    with memory.open("at work") as s, s.turn("go"):
        found = of(memory)
    assert [one.seen.row.record.name for one in found.running] == ["at work"]
    assert [one.row.record.name for one in found.last] == ["done before"]


def test_the_last_sessions_say_what_was_asked_and_how_they_ended(memory):
    for number in range(LAST + 2):
        with memory.open(f"s{number}") as s, s.turn(f"thing {number}") as t:
            t.file("a.py", "modified")
            t.file("b.py", "read")
            t.say("ok")
    found = of(memory).last
    assert [one.row.record.name for one in found] == ["s4", "s3", "s2"]
    assert {(one.files, one.ended) for one in found} == {(1, "ok")}
    assert found[0].began is not None
    assert found[0].began.value("input") == "thing 4"


def test_a_week_sums_tokens_and_money_and_says_what_has_no_price(memory):
    for number, usage in enumerate(
        [{"tokens": 100, "tokens:cache_read": 90, "money:usd": 5}, {"tokens": 7}, {}]
    ):
        with memory.open(f"s{number}", agent="codex") as s, s.turn("go") as t:
            t.say("ok", usage=usage)
    week = of(memory).week
    assert (week.sessions, week.agents, week.is_whole) == (3, {"codex": 3}, True)
    assert week.cost.spend == {
        "tokens": 107,
        "tokens:cache_read": 90,
        "money:usd": 5,
        "tokens:unpriced": 7,
    }
    later = of(memory, now=memory.context.clock() + 2 * WEEK_US).week
    assert (later.sessions, later.cost.spend) == (0, {})


def test_sub_agents_are_not_counted_but_what_they_spent_is(memory):
    with memory.open("a") as s, s.turn("go") as t:
        with s.child("kid") as kid, kid.turn("dig") as u:
            u.say("x", usage={"tokens": 5})
        t.say("y", usage={"tokens": 2})
    week = of(memory).week
    assert (week.sessions, week.cost.spend["tokens"]) == (1, 7)


def test_more_sessions_than_are_summed_are_told(memory, monkeypatch):
    monkeypatch.setattr("stator.runtime.views.glance.status.SESSIONS_MAX", 2)
    assert SESSIONS_MAX > 2
    for number in range(3):
        with memory.open(f"s{number}") as s, s.turn("go") as t:
            t.say("ok")
    found = of(memory)
    assert (found.sessions, found.week.sessions, found.week.is_whole) == (3, 2, False)


def test_an_empty_store_has_nothing(memory):
    found = of(memory)
    assert (found.sessions, found.needs, found.running, found.last) == (0, [], [], [])


# -- what a list says of a session ----------------------------------------------------------------


def entry(memory, prices=None):
    row = memory.sessions().rows[0]
    (found,) = listed(memory.as_read, [row], prices)
    return found


def with_tokens(memory, *models):
    with memory.open("s") as s, s.turn("go") as t:
        for model in models:
            t.reply(
                {"role": "assistant", "model": model, "content": [{"type": "text", "text": "x"}],
                 "usage": {"input_tokens": 1000, "output_tokens": 100}}
            )  # fmt: skip


def test_the_cost_is_computed_from_tokens_where_the_model_has_prices(memory):
    with_tokens(memory, "claude-sonnet", "claude-sonnet")
    assert not entry(memory).cost.is_computed
    found = entry(memory, PRICES).cost
    assert found.is_computed
    assert found.spend["money:usd:computed"] == 2 * (3000 + 1500)


def test_the_cost_of_two_models_lacks_the_one_without_a_price(memory):
    with_tokens(memory, "claude-sonnet", "claude-haiku", "claude-sonnet")
    found = entry(memory, PRICES).cost.spend
    assert found["money:usd:computed"] == 2 * (3000 + 1500)
    assert found["tokens:unpriced"] == 1100


def test_the_cost_of_a_model_without_prices_is_unknown(memory):
    with_tokens(memory, "gpt-5")
    found = entry(memory, PRICES).cost
    assert not found.is_computed
    assert not names_money(found.spend)


def test_a_turn_that_failed_ends_a_session_as_failed(memory):
    with pytest.raises(ValueError, match="no"), memory.open("a") as s, s.turn("go"):
        raise ValueError("no")
    assert entry(memory).ended == "failed"


def test_a_session_in_doubt_ends_in_doubt(memory):
    with memory.open("a") as s, s.turn("go") as t:
        t.try_call(pay, cents=1, to="x")
        t.say("ok")
    assert entry(memory).ended == "in doubt"


def test_a_closed_session_is_closed_and_files_that_came_and_went_do_not_count(memory):
    with memory.open("a") as s:
        with s.turn("go") as t:
            t.file("new.py", "created")
            t.file("new.py", "deleted")
            t.file("old.py", "modified")
            t.say("ok")
        s.close()
    assert (entry(memory).ended, entry(memory).files) == ("closed", 1)


def test_files_of_a_rewound_turn_do_not_count(memory):
    with memory.open("a") as s:
        for name in ("a.py", "b.py"):
            with s.turn("go") as t:
                t.file(name, "created")
                t.say("ok")
        s.rewind("t1")
    assert entry(memory).files == 1
