"""Works out, for a query in SQL, what sessions cost that name no money: by the prices that the commands use.

Sessions are read as `ls` reads them. Their answers are read only for a query about turns or commits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from stator.model.calls.costs import Prices, computed, names_money
from stator.model.log.query import GONE, SessionRow, read
from stator.model.views.sql_views import ShownCost
from stator.runtime.base.costs import SessionCosts, asks_cost, spend_of
from stator.runtime.base.one_answer import ahead
from stator.runtime.views.as_read import for_one_answer
from stator.store.port import StorePort

STEP = 60
"""Sessions that are read together."""
DOLLARS = computed("money:usd")
_VIEWS = re.compile(r"\b(sessions|turns|commits)\b", re.IGNORECASE)
_PARTS = re.compile(r"\b(turns|commits)\b", re.IGNORECASE)
_COSTS = re.compile(r"cost_usd|cost_computed|\*", re.IGNORECASE)
"""The columns, or all columns. A product looks like those too; it only costs time."""
_COUNTED = re.compile(r"\(\s*\*\s*\)")


def shown_costs(store: StorePort, prices: Prices | None, query: str) -> list[ShownCost]:
    """The sessions with a computed cost; none, if the query does not ask what anything cost."""
    if prices is None or not _VIEWS.search(query) or not _COSTS.search(_COUNTED.sub("", query)):
        return []
    return list(_shown(store, prices, with_answers=bool(_PARTS.search(query))))


def _shown(store: StorePort, prices: Prices, *, with_answers: bool) -> Iterator[ShownCost]:
    sessions = [one for one, head in store.heads({}, others=True).items() if head != GONE]
    for start in range(0, len(sessions), STEP):
        part = sessions[start : start + STEP]
        reading = for_one_answer(store)
        ahead(reading, *(ask for one in part for ask in asks_cost(one, prices)))
        for row in reading.together(*(read("session", one) for one in part)):
            if isinstance(row, SessionRow):
                yield from _of_session(reading, row, prices, with_answers=with_answers)


def _of_session(
    store: StorePort, row: SessionRow, prices: Prices, *, with_answers: bool
) -> Iterator[ShownCost]:
    spend = spend_of(store.entries(row.id, "spend"))
    if not spend.get("tokens") or names_money(spend):
        return
    costs = SessionCosts(store, row, prices, spend)
    if (amount := _dollars(costs.of(spend))) is None:
        return
    found = ((one.seq, _dollars(cost)) for one, cost in costs.answers()) if with_answers else ()
    yield ShownCost(row.id, amount, [(seq, each) for seq, each in found if each is not None])


def _dollars(spend: Mapping[str, int]) -> int | None:
    return spend.get(DOLLARS)
