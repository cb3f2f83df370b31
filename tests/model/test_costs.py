"""What usage costs: the list prices that are shipped, models by their names, caches, a user's own prices."""

from __future__ import annotations

import re

import pytest

from stator.model.calls.budget import parse_prices, uses_list
from stator.model.calls.costs import ListPrices, Prices, plain, total
from stator.runtime.base.prices import list_prices

MILLION = 1_000_000
TEXT = """
[maker 2026-01-02 maker/ us.maker.]
big     10  1  12  20  50
> 100   20  2  24  40  75
small   1   -  -   -   5
claude-mini 1 0.1 1.25 2 5

[other 2026-01-03 other/]
plain   2   -  -   -   2
"""
LIST = ListPrices(TEXT)
PRICES = Prices({}, LIST)


def cost(usage, model="big", prices=PRICES, **options):
    usage = {"tokens": 1, **{f"tokens:{kind}": n for kind, n in usage.items()}}
    return prices.priced(usage, model, **options).get("money:usd:computed")


# -- the list that is shipped ---------------------------------------------------------------------


def test_every_heading_of_the_list_has_a_date():
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", date) for date in list_prices().dates.values())


def test_every_model_of_the_list_has_prices_above_zero():
    shipped = list_prices()
    found = {model: shipped.find(model) for model in shipped.lines}
    broken = [
        model
        for model, one in found.items()
        if one is None or not (one.rates["tokens:in"] > 0 and one.rates["tokens:out"] > 0)
    ]
    assert broken == []


def test_reading_a_cache_never_costs_more_than_reading_anew():
    shipped = list_prices()
    found = [(model, shipped.find(model)) for model in shipped.lines]
    assert [
        model
        for model, one in found
        if one and one.rates.get("tokens:cache_read", 0) > one.rates["tokens:in"]
    ] == []


def test_a_long_answer_never_costs_less_than_a_short_one():
    shipped = list_prices()
    found = [(model, shipped.find(model)) for model in shipped.lines]
    assert [
        (model, unit)
        for model, one in found
        if one and one.above
        for unit, rate in one.long.items()
        if rate < one.rates[unit]
    ] == []


def test_no_model_is_twice_in_the_list():
    (text,) = {path.read_text() for path in [_shipped_file()]}
    names = [line.split()[0] for line in text.splitlines() if line and line[0] not in "#[>"]
    assert sorted(names) == sorted(set(names))


def _shipped_file():
    from pathlib import Path

    from stator.runtime.base import prices

    return Path(prices.__file__).with_name(prices.LIST)


# -- which model a name is ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("claude-opus-4-5", "claude-opus-4-5"),
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("claude-opus-4-6[1m]", "claude-opus-4-6"),
        ("claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("openrouter/anthropic/claude-3.7-sonnet", "claude-3-7-sonnet"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("bedrock/eu.anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3-5-sonnet"),
        ("gpt-5-codex", "gpt-5-codex"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("openai/gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("gemini-2.0-flash-001", "gemini-2.0-flash"),
        ("MiniMax-M2", "minimax-m2"),
    ],
)
def test_a_name_with_a_known_prefix_or_date_is_its_model(name, model):
    shipped = list_prices()
    assert shipped.find(name) == shipped.find(model) is not None


@pytest.mark.parametrize(
    "name",
    [
        "", "sonnet", "opus", "<synthetic>", "gpt", "claude", "claude-opus-4-55", "claude-opus-4-5-fast",
        "gpt-5-codex-high", "my-gpt-5", "gpt-5x", "ollama/gpt-4o", "google/gpt-4o", "anthropic/gpt-5",
        "anthropic/claude-3.7-sonnet:thinking", "x-ai/grok-4:free", "azure/my-deployment", "llama3.1",
    ],
)  # fmt: skip
def test_any_other_name_is_no_model_of_the_list(name):
    assert list_prices().find(name) is None


# -- what usage costs -----------------------------------------------------------------------------


def test_each_kind_of_token_has_its_price():
    usage = {"in": MILLION, "cache_read": MILLION, "cache_write": MILLION, "out": MILLION}
    assert cost(usage, one_answer=False) == (10 + 1 + 12 + 50) * MILLION


def test_what_is_kept_for_an_hour_is_a_part_of_what_was_written():
    usage = {"cache_write": 1_000_000, "cache_write_1h": 400_000}
    assert cost(usage, one_answer=False) == 600_000 * 12 + 400_000 * 20


def test_an_answer_made_from_many_tokens_costs_more():
    assert cost({"in": 60, "cache_read": 41}) == 60 * 20 + 41 * 2
    assert cost({"in": 60, "cache_read": 40}) == 60 * 10 + 40


def test_tokens_of_a_kind_without_a_price_are_said_to_lack_one():
    priced = PRICES.priced({"tokens": 12, "tokens:in": 10, "tokens:cache_read": 2}, "small")
    assert priced["money:usd:computed"] == 10
    assert priced["tokens:unpriced"] == 2


def test_usage_that_names_money_is_left_as_it_is():
    usage = {"tokens": 10, "tokens:in": 10, "money:usd": 7}
    assert PRICES.priced(usage, "big") == usage


def test_a_model_without_a_price_is_left_as_it_is():
    assert PRICES.priced({"tokens": 10, "tokens:in": 10}, "huge") == {"tokens": 10, "tokens:in": 10}


def test_usage_without_what_an_answer_was_made_from_has_no_price():
    assert cost({"out": 10}) is None


def test_own_prices_go_before_the_list():
    own = Prices({"b*": {"tokens:in": 3}}, LIST)
    assert cost({"in": 10}, prices=own) == 30
    assert cost({"in": 10}, "small", prices=own) == 10


def test_own_prices_of_an_hour_in_a_cache_are_apart_if_they_are_named():
    usage = {"tokens": 10, "tokens:cache_write": 10, "tokens:cache_write_1h": 4}
    one = Prices({"*": {"tokens:cache_write": 1}})
    both = Prices({"*": {"tokens:cache_write": 1, "tokens:cache_write_1h": 2}})
    assert one.priced(usage, "x")["money:usd:computed"] == 10
    assert both.priced(usage, "x")["money:usd:computed"] == 6 + 8


def test_a_policy_file_can_say_that_no_list_is_used():
    assert not uses_list("[prices]\nlist = false\n")
    assert uses_list('[prices."big"]\n"tokens:in" = 1\n')
    assert parse_prices("[prices]\nlist = false\n[prices.big]\ntokens = 1\n") == {
        "big": {"tokens": 1}
    }


def test_a_sum_with_money_says_which_tokens_lack_it():
    found = total([{"tokens": 5, "money:usd:computed": 9}, {"tokens": 7}])
    assert found == {"tokens": 12, "money:usd:computed": 9, "tokens:unpriced": 7}


def test_a_sum_without_any_money_has_no_mark():
    assert total([{"tokens": 5}, {"tokens": 7}]) == {"tokens": 12}


def test_plain_amounts_add_up_what_was_recorded_and_computed():
    assert plain({"money:usd": 1, "money:usd:computed": 2, "tokens": 3}) == {
        "money:usd": 3,
        "tokens": 3,
    }


def test_a_name_of_prefixes_alone_is_no_model_however_long_it_is():
    assert LIST.find("anthropic/" * 100_000) is None
