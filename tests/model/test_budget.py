"""Amounts as people write them, limits, and prices that are known or unknown, never 0."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.errors import BadBudget, InvalidInput
from stator.model.calls.budget import (
    AMOUNT_MAX,
    Amount,
    Breach,
    apply,
    breach,
    is_amount,
    is_whole,
    parse_amount,
    parse_amounts,
    parse_prices,
    price,
    shown,
    total,
)
from stator.model.records.types import UNPRICED

units = st.sampled_from(["tokens", "calls", "turns", "seconds", "money:usd", "money:eur"])
values = st.integers(1, AMOUNT_MAX)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("+2usd", Amount("money:usd", 2_000_000, "add")),
        ("2.50eur", Amount("money:eur", 2_500_000)),
        ("money:usd=5", Amount("money:usd", 5_000_000)),
        ("50k tokens", Amount("tokens", 50_000)),
        ("1.5M tokens", Amount("tokens", 1_500_000)),
        ("1,200 tokens", Amount("tokens", 1200)),
        ("tokens=100000", Amount("tokens", 100_000)),
        ("tokens+=5k", Amount("tokens", 5000, "add")),
        ("3 turns", Amount("turns", 3)),
        ("1 turn", Amount("turns", 1)),
        ("+1call", Amount("calls", 1, "add")),
        ("1h", Amount("seconds", 3600)),
        ("+1h30m", Amount("seconds", 5400, "add")),
        ("2d", Amount("seconds", 172_800)),
        ("1.5 hours", Amount("seconds", 5400)),
        ("90 seconds", Amount("seconds", 90)),
        ("calls=none", Amount("calls", 0, "clear")),
    ],
)
def test_amounts_are_parsed_from_text(text, amount):
    assert parse_amount(text) == amount


@pytest.mark.parametrize(
    "text",
    ["", "usd", "2", "-2usd", "two turns", "0 turns", "1.5 turns", "0.0000001usd", "5 apples", "1e5 tokens",
     "tokens=", "=5", "99999999999999999 tokens", "1,2 tokens", "nan usd", "2 dollars", "1h tokens"],
)  # fmt: skip
def test_an_invalid_amount_is_refused(text):
    with pytest.raises(BadBudget):
        parse_amount(text)


@given(units, values)
def test_an_amount_parses_from_its_own_text(unit, value):
    assert parse_amount(shown(unit, value)) == Amount(unit, value)
    assert parse_amount("+" + shown(unit, value)) == Amount(unit, value, "add")


@given(st.lists(st.tuples(units, values), max_size=4))
def test_amounts_are_parsed_from_words_that_a_shell_split(amounts):
    words = [word for unit, value in amounts for word in shown(unit, value).split()]
    assert parse_amounts(words) == [Amount(unit, value) for unit, value in amounts]


def test_an_unknown_amount_is_shown_as_unknown():
    assert shown("money:usd", None) == "unknown"
    assert shown("money:usd", 0) == "0.00 usd"
    assert shown("money:usd", 1) == "0.000001 usd"
    assert shown("seconds", 0) == "0 seconds"


def test_a_word_is_distinguished_from_an_amount():
    assert all(map(is_amount, ["+2usd", "50k", "3", "1h30m", "calls=none", "tokens=3"]))
    assert not any(map(is_amount, ["fix-login", "s_1234", "73853a24", "2nd-try", ""]))


# -- limits ---------------------------------------------------------------------------------------


@given(st.dictionaries(units, values), st.dictionaries(units, st.integers(0, AMOUNT_MAX)))
def test_a_limit_is_used_up_exactly_when_it_is_reached(budget, spent):
    found = breach(budget, spent)
    reached = {unit for unit, limit in budget.items() if spent.get(unit, 0) >= limit}
    assert (found.unit in reached) if found else not reached


def test_a_breach_names_the_amount_spent_and_the_limit():
    found = breach({"tokens": 1000}, {"tokens": 1200}, "s_1")
    assert found == Breach("tokens", 1000, 1200, "s_1")
    assert str(found) == "1,200 tokens of 1,000 tokens spent"


def test_a_limit_can_be_set_raised_and_removed():
    amounts = parse_amounts(["+2usd", "3", "turns", "calls=none"])
    budget = apply({"money:usd": 5_000_000, "calls": 9}, amounts, {"money:usd": 5_300_000})
    assert budget == {"money:usd": 7_000_000, "turns": 3}


def test_raising_a_missing_limit_adds_to_what_is_spent():
    budget = apply({}, [parse_amount("+2usd")], {"money:usd": 5_300_000})
    assert budget == {"money:usd": 7_300_000}


@given(st.lists(st.dictionaries(units, st.integers(0, 10**9))))
def test_a_total_is_the_sum_of_its_parts(parts):
    found = total(parts)
    for unit in {unit for part in parts for unit in part}:
        assert found[unit] == sum(part.get(unit, 0) for part in parts)


# -- prices ---------------------------------------------------------------------------------------

TABLE = {
    "claude-*": {"tokens:in": 3, "tokens:out": "15", "tokens:cache_read": 0.3},
    "local": {"currency": "EUR", "tokens": 0},
}


def test_prices_per_million_tokens_give_cost_in_millionths():
    usage = {"tokens": 1_200, "tokens:in": 1000, "tokens:out": 200}
    assert price(usage, "claude-x", TABLE) == {"money:usd": 6000}


def test_a_free_model_costs_0_and_an_unknown_model_is_unpriced():
    usage = {"tokens": 1200}
    assert price(usage, "local", TABLE) == {"money:eur": 0}
    assert price(usage, "gpt-x", TABLE) == {UNPRICED: 1200}
    assert price(usage, "claude-x", TABLE) == {UNPRICED: 1200}
    assert price({}, "gpt-x", TABLE) == {}


def test_usage_without_a_price_is_reported_as_unpriced_and_the_rest_is_priced():
    usage = {"tokens:in": 1000, "tokens:cache_write": 50}
    assert price(usage, "claude-x", TABLE) == {"money:usd": 3000, UNPRICED: 50}


def test_a_fraction_of_a_millionth_is_rounded_up():
    assert price({"tokens:cache_read": 1}, "claude-x", TABLE) == {"money:usd": 1}


def test_prices_may_come_from_a_function():
    usage = {"tokens": 10}
    assert price(usage, "m", lambda used, model: {"money:usd": used["tokens"]}) == {"money:usd": 10}
    assert price(usage, "m", lambda used, model: None) == {UNPRICED: 10}


def test_a_cost_is_complete_only_if_all_usage_had_a_price():
    assert is_whole({"tokens": 5, "money:usd": 3}, "money:usd")
    assert not is_whole({"tokens": 5, "money:usd": 3, UNPRICED: 1}, "money:usd")
    assert not is_whole({"tokens": 5}, "money:usd")
    assert is_whole({}, "money:usd")
    assert is_whole({UNPRICED: 1}, "tokens")


def test_prices_are_read_from_the_policy_file():
    text = '[prices."claude-*"]\ncurrency = "usd"\n"tokens:in" = 3.00\n"tokens:out" = 15\n'
    assert price({"tokens:in": 10}, "claude-x", parse_prices(text)) == {"money:usd": 30}
    assert parse_prices("") == {}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('prices = "x"', "$.prices"),
        ('[prices]\nm = 3', "$.prices.m"),
        ('[prices.m]\ncurrency = "dollar"', "$.prices.m.currency"),
        ('[prices.m]\n"tokens:in" = -1', "$.prices.m.tokens:in"),
        ('[prices.m]\n"tokens:in" = "free"', "$.prices.m.tokens:in"),
        ('[prices.m]\n"tokens:in" = nan', "$.prices.m.tokens:in"),
        ('[prices.m]\n"tokens:in" = true', "$.prices.m.tokens:in"),
        ('[prices.m]\ncalls = 3', "$.prices.m.calls"),
    ],
)  # fmt: skip
def test_the_error_of_a_bad_price_names_the_path(text, path):
    with pytest.raises(InvalidInput) as refused:
        parse_prices(text)
    assert refused.value.path == path


@given(st.text(max_size=30) | st.from_regex(r"\+?[\d.,]{1,12}[kM]? ?[a-z:=]{0,8}", fullmatch=True))
def test_any_text_parses_as_an_amount_or_is_refused(text):
    try:
        amount = parse_amount(text)
    except BadBudget:
        return
    assert amount.op == "clear" or 0 < amount.value <= AMOUNT_MAX
