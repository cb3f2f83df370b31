"""Shows in the views what readers show: that a call without an outcome is in doubt, that its turn was interrupted, and
that nobody is at work in a session.

What became of such a call is in no table: it depends on whether its program still runs. Whoever asks works it out first
and gives the answer along with the query.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator
from typing import Any

from stator.model.views.sql_views import Shown
from stator.store.sandbox.view_tables import Bounds, RowSource, View

NEEDED = {
    "calls": ({"status", "cause"}, {"session", "seq"}),
    "turns": ({"status", "failed"}, {"session", "status", "first", "last"}),
    "sessions": ({"status"}, {"id", "mode", "status", "turns"}),
}
"""View → the columns that say something else then, and those by which it is known of which row."""
LOST = ("in doubt", "cancelled")


def as_shown(source: RowSource, shown: Shown) -> RowSource:
    """The same rows, as readers see them."""
    return _AsShown(source, shown) if shown.calls or shown.sessions is not None else source


def changed_rows(
    view: View, rows: Iterator[tuple[Any, ...]], change: Callable[[dict[str, Any]], None]
) -> Iterator[tuple[Any, ...]]:
    """Rows of a view with the columns that something else is known about; the key stays."""
    for row in rows:
        values = dict(zip(view.names, row, strict=False))
        change(values)
        yield (*(values[name] for name in view.names), *row[len(view.names) :])


class _AsShown:
    def __init__(self, source: RowSource, shown: Shown) -> None:
        self._source = source
        self._sessions = shown.sessions
        self._calls = {(one.session, one.seq): one for one in shown.calls}
        self._lost: dict[str, list[int]] = {}
        """By session, the seqs of calls that get no outcome any more, in order."""
        for one in sorted(shown.calls, key=lambda one: one.seq):
            if one.status in LOST:
                self._lost.setdefault(one.session, []).append(one.seq)

    def ordinal(self, identifier: bytes) -> int | None:
        return self._source.ordinal(identifier)

    def rows(
        self, view: View, columns: Collection[str], bounds: Bounds | None
    ) -> Iterator[tuple[Any, ...]]:
        changed, needed = NEEDED.get(view.name, (set(), set()))
        if not changed & set(columns):
            return self._source.rows(view, columns, bounds)
        changes = {"calls": self._call, "turns": self._turn, "sessions": self._session}
        rows = self._source.rows(view, {*columns, *needed}, bounds)
        return changed_rows(view, rows, changes[view.name])

    def _call(self, values: dict[str, Any]) -> None:
        one = self._calls.get((values["session"], values["seq"]))
        if one is not None:
            values["status"], values["cause"] = one.status, one.cause

    def _session(self, values: dict[str, Any]) -> None:
        if self._sessions is None:
            return
        if values["mode"] == "recorded" and values["status"] == "open" and values["turns"]:
            values["status"] = "paused"
        values["status"] = self._sessions.get(values["id"], values["status"])

    def _turn(self, values: dict[str, Any]) -> None:
        lost = self._lost.get(values["session"], [])
        begin = bisect_left(lost, values["first"])
        if not values["status"] and begin < len(lost):
            values["status"] = "interrupted"
        if values["failed"] is not None:
            values["failed"] += bisect_right(lost, values["last"]) - begin
