"""What a session cost: one model or several, prices that depend on the size of an answer, forks, every view alike."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stator.model.calls.costs import ListPrices, Prices
from stator.runtime.base.costs import session_spend
from stator.runtime.views.as_read import as_read, for_one_answer, prices_in
from stator.runtime.views.spend_ledger import SpendLedger
from stator.runtime.views.tree import tree_of
from stator.runtime.window.film_strip import KeptStrips, read_strip
from stator.runtime.window.strip_costs import with_costs

LIST = ListPrices("""
[maker 2026-01-02]
big     10  1  12  20  50
> 500   20  2  24  40  100
small   1   -  -   -   5
""")
PRICES = Prices({}, LIST)
MONEY = "money:usd:computed"


def answer(turn, model, read=100, written=10):
    turn.reply(
        {"role": "assistant", "model": model, "content": [{"type": "text", "text": "x"}],
         "usage": {"input_tokens": read, "output_tokens": written}}
    )  # fmt: skip


def told(store, *models, name="s", read=100):
    with store.open(name) as s:
        for model in models:
            with s.turn("go") as t:
                answer(t, model, read)
    return s.id


def cost_of(store, session, prices=PRICES):
    reading = for_one_answer(store.as_read)
    return session_spend(reading, reading.session(session), prices)


def test_a_session_of_one_model_costs_its_sums_at_its_prices(either):
    assert cost_of(either, told(either, "small", "small"))[MONEY] == 2 * (100 + 50)


def test_what_several_models_used_is_priced_apart(either):
    found = cost_of(either, told(either, "small", "big", "small"))
    assert found[MONEY] == 2 * (100 + 50) + 1000 + 500


def test_the_tokens_of_a_model_without_a_price_are_said_to_lack_one(either):
    found = cost_of(either, told(either, "small", "unheard-of"))
    assert (found[MONEY], found["tokens:unpriced"]) == (150, 110)


def test_a_session_that_changes_its_model_often_is_priced_answer_by_answer(memory, monkeypatch):
    monkeypatch.setattr("stator.runtime.base.costs.CHANGES_MAX", 2)
    found = cost_of(memory, told(memory, "small", "big", "small", "big"))
    assert found[MONEY] == 2 * 150 + 2 * 1500


def test_only_long_answers_have_the_price_of_long_ones(memory):
    session = told(memory, "big", read=400)
    with memory.open("s") as s, s.turn("go") as t:
        answer(t, "big", read=600)
    assert cost_of(memory, session)[MONEY] == 400 * 10 + 500 + 600 * 20 + 1000


def test_short_answers_that_add_up_to_many_tokens_are_short(memory):
    assert cost_of(memory, told(memory, "big", "big", read=400))[MONEY] == 2 * (4000 + 500)


def test_a_long_session_says_that_its_price_is_the_lower_bound(memory, monkeypatch):
    monkeypatch.setattr("stator.runtime.base.costs.COMMITS_MAX", 2)
    found = cost_of(memory, told(memory, "big", "big", read=400))
    assert (found[MONEY], found["tokens:unpriced"]) == (2 * (4000 + 500), 820)


def test_what_a_session_names_itself_is_not_replaced(memory):
    with memory.open("s") as s, s.turn("go") as t:
        t.say(
            {"model": "small", "content": "x"},
            usage={"tokens": 10, "tokens:in": 10, "money:usd": 3},
        )
    assert MONEY not in cost_of(memory, s.id)


def test_a_fork_costs_what_it_used_itself_with_the_model_it_inherited(either):
    told(either, "small")
    fork = either.fork("s")
    with either.open(fork.name) as s, s.turn("go") as t:
        t.say("x", usage={"tokens": 40, "tokens:in": 40})
    assert cost_of(either, s.id)[MONEY] == 40


def test_a_list_that_is_switched_off_leaves_costs_unknown(memory):
    context = replace(memory.context, policy=lambda: "[prices]\nlist = false\n")
    assert prices_in(as_read(memory.port, context)) is None


def test_a_policy_file_that_cannot_be_used_leaves_costs_unknown(memory):
    context = replace(memory.context, policy=lambda: "prices = 3")
    assert prices_in(as_read(memory.port, context)) is None


def test_prices_of_a_project_that_is_not_ones_own_do_not_count(memory):
    context = replace(
        memory.context, policy=lambda: '[prices."*"]\n"tokens:in" = 0\n', policy_is_own=False
    )
    found = prices_in(as_read(memory.port, context))
    assert found is not None
    assert dict(found.own) == {}


# -- the same everywhere --------------------------------------------------------------------------


@pytest.fixture
def priced(memory, monkeypatch):
    """A store whose readers compute costs by the list of this file."""
    monkeypatch.setattr("stator.runtime.base.prices.list_prices", lambda: LIST)
    return memory


def test_the_ledger_has_each_model_with_its_cost(priced):
    told(priced, "small", "big")
    ledger = SpendLedger(lambda at: "today")
    ledger.advance(priced.port, prices_in(priced.as_read))
    (found,) = ledger.sessions()
    assert {part.model: part.spend[MONEY] for part in found.parts} == {"small": 150, "big": 1500}


def test_the_ledger_counts_what_came_before_the_only_model_was_named(priced):
    with priced.open("s") as s, s.turn("go") as t:
        t.say("x", usage={"tokens": 40, "tokens:in": 40})
    told(priced, "small")
    days = iter(range(1, 99))
    ledger = SpendLedger(lambda at: f"day {next(days)}")
    ledger.advance(priced.port, prices_in(priced.as_read))
    (found,) = ledger.sessions()
    assert {part.model for part in found.parts} == {"small"}


def test_the_ledger_is_read_anew_when_prices_change(priced):
    told(priced, "small")
    ledger = SpendLedger(lambda at: "today")
    ledger.advance(priced.port, PRICES)
    ledger.advance(priced.port, Prices({"small": {"tokens:in": 2, "tokens:out": 0}}))
    (found,) = ledger.sessions()
    assert found.parts[0].spend[MONEY] == 200


def test_a_film_strip_ends_with_what_the_session_cost(priced):
    session = told(priced, "small", "big", "small")
    page = read_strip(priced.as_read, session, "head", KeptStrips())
    assert page is not None
    strip = with_costs(priced.as_read, page).strip
    costs = [spent[MONEY] for spent in strip.spent if MONEY in spent]
    assert costs == sorted(costs)
    assert costs[-1] == cost_of(priced, session)[MONEY]


def test_the_branches_of_a_tree_have_their_costs(priced):
    session = told(priced, "small")
    (branch,) = tree_of(priced.as_read, session).branches
    assert branch.spent[MONEY] == 150
