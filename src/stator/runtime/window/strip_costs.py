"""Adds to a film strip what had been spent in money, where that is computed: what a strip reads is kept without it."""

from __future__ import annotations

from msgspec.structs import replace

from stator.model.calls.costs import names_money
from stator.runtime.base.costs import SessionCosts, asks_cost, spend_of
from stator.runtime.base.one_answer import ahead
from stator.runtime.views.as_read import for_one_answer, prices_in
from stator.runtime.window.film_strip import StripPage
from stator.store.port import StorePort


def with_costs(store: StorePort, page: StripPage) -> StripPage:
    """The page with the money of its frames and samples, as far as there are prices."""
    store, session = for_one_answer(store), page.row.id
    prices = prices_in(store)
    if prices is None or any(map(names_money, page.strip.spent)):
        return page
    ahead(store, *asks_cost(session, prices))
    costs = SessionCosts(store, page.row, prices, spend_of(store.entries(session, "spend")))
    return replace(
        page,
        strip=replace(page.strip, spent=[costs.of(spent) for spent in page.strip.spent]),
        samples=[replace(one, spent=costs.of(one.spent)) for one in page.samples],
    )
