"""Budgets: amounts, prices, and the types that `store.budgets` gives.

    with stator.connect() as store:
        store.budgets.change("fix-login", "+2usd", "50k tokens")
        print(store.budgets.spent_tree("fix-login"))

See the guide on budgets.
"""

from __future__ import annotations

from stator.model.calls.budget import (
    Amount,
    Breach,
    PriceFunction,
    PriceTable,
    parse_amounts,
    parse_prices,
    price,
)
from stator.runtime.driving.budgets import Limit
from stator.runtime.facade.outside import Budgets

__all__ = [
    "Amount",
    "Breach",
    "Budgets",
    "Limit",
    "PriceFunction",
    "PriceTable",
    "parse_amounts",
    "parse_prices",
    "price",
]
