"""Shows in the views what sessions cost that name no money, as the commands show it.

The log has tokens; what they cost depends on prices, which are no part of it. Whoever asks works it out first and gives
the answer along with the query.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import Any

from stator.model.views.sql_views import ShownCost
from stator.store.sandbox.commit_reader import MICRO
from stator.store.sandbox.shown_statuses import changed_rows
from stator.store.sandbox.view_tables import Bounds, RowSource, View

CHANGED = {"cost_usd", "cost_computed"}
NEEDED = {
    "sessions": {"id"},
    "turns": {"session", "first", "last"},
    "commits": {"session", "seq"},
}
"""View with a cost → the columns by which it is known what a row cost."""


def with_costs(source: RowSource, costs: Sequence[ShownCost]) -> RowSource:
    """The same rows, with what they cost by the prices there are."""
    return _WithCosts(source, costs) if costs else source


class _WithCosts:
    def __init__(self, source: RowSource, costs: Sequence[ShownCost]) -> None:
        self._source = source
        self._whole = {one.session: one.amount for one in costs}
        self._seqs = {one.session: [seq for seq, _ in one.answers] for one in costs}
        self._until = {
            one.session: [0, *accumulate(amount for _, amount in one.answers)] for one in costs
        }
        """By session, what was spent before each of its answers, and after the last."""

    def ordinal(self, identifier: bytes) -> int | None:
        return self._source.ordinal(identifier)

    def rows(
        self, view: View, columns: Collection[str], bounds: Bounds | None
    ) -> Iterator[tuple[Any, ...]]:
        needed = NEEDED.get(view.name)
        if needed is None or not CHANGED & set(columns):
            return self._source.rows(view, columns, bounds)
        rows = self._source.rows(view, {*columns, *CHANGED, *needed}, bounds)
        return changed_rows(view, rows, self._session if view.name == "sessions" else self._part)

    def _session(self, values: dict[str, Any]) -> None:
        _show(values, self._whole.get(values["id"]))

    def _part(self, values: dict[str, Any]) -> None:
        """A turn or a commit: what its answers cost."""
        session = values["session"]
        seqs, until = self._seqs.get(session, []), self._until.get(session, [0])
        place = values.get("seq")
        low = bisect_left(seqs, values["first"] if place is None else place)
        high = bisect_right(seqs, values["last"] if place is None else place)
        _show(values, until[high] - until[low] if high > low else None)


def _show(values: dict[str, Any], amount: int | None) -> None:
    if amount is not None and values["cost_usd"] is None:
        values["cost_usd"], values["cost_computed"] = amount / MICRO, 1
