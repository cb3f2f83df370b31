"""Finds the prices that hold in a project: those of its policy file, and the list prices that are shipped."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from stator.model.calls.costs import ListPrices, Prices
from stator.runtime.base.context import Context

LIST = "list_prices.txt"


def prices_of(context: Context) -> Prices | None:
    """The prices by which costs are computed; None without any. Those of a project that is not this user's own
    do not count."""
    own, has_list = {}, True
    if context.policy_is_own and "prices" in (text := context.policy()):
        from stator.model.calls.budget import parse_prices, uses_list  # most projects have none

        own, has_list = parse_prices(text), uses_list(text)
    return Prices(own, list_prices() if has_list else None) if own or has_list else None


@cache
def list_prices() -> ListPrices:
    """The list prices that are shipped, read when they are first used."""
    return ListPrices(Path(__file__).with_name(LIST).read_text(encoding="utf-8"))
