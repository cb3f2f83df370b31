"""Works out what a session cost, at its head or at an earlier position, from what it used with which model.

The log is not read: the sums that a session has of its usage are enough where one model answered, the sums at each
change of the model where there were several. Only where the price of an answer depends on its size, answers are looked
at one by one, in sessions of bounded length.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import msgspec

from stator.model.calls.costs import Prices, added, less, names_money, prompt_tokens, total
from stator.model.log.delta import Put, Version
from stator.model.log.query import Read, SessionRow, read
from stator.model.records.types import UNPRICED, Entry, SettingRecord, SpendRecord
from stator.model.sessions.lifecycle import lent_upto
from stator.runtime.base.one_answer import ahead
from stator.store.port import StorePort

COMMITS_MAX = 5000
"""Of a session with more commits, answers are not looked at one by one."""
CHANGES_MAX = 40
"""Of a session that changed its model more often, answers are looked at one by one."""
EVER = 2**40 - 1
"""A seq that no log reaches."""
MODEL = "model"
_MODELS: Mapping[str, Any] = {"after": 0, "upto": EVER, "collections": ("settings",)}
"""What is read to know the models of a session."""


class AnswerUsage(msgspec.Struct, frozen=True):
    """What one commit of a session used."""

    seq: int
    turn: int
    usage: dict[str, int]


class SessionPart(msgspec.Struct, frozen=True):
    """What a session had spent at one of its commits, what that cost, and which model answered after it."""

    spend: Mapping[str, int]
    priced: Mapping[str, int]
    model: str


def asks_cost(session: str, prices: Prices | None) -> Iterator[Read]:
    """What `session_spend` reads of most sessions."""
    yield read("entries", session, "spend")
    if prices is not None:
        yield read("versions", session, **_MODELS)


def asks_models(store: StorePort, sessions: Iterable[str], prices: Prices | None) -> Iterator[Read]:
    """The rest of that, where what the sessions spent was read: only those that used tokens and name no money."""
    if prices is None:
        return
    for session in sessions:
        spend = spend_of(store.entries(session, "spend"))
        if spend.get("tokens") and not names_money(spend):
            yield read("versions", session, **_MODELS)


def session_spend(store: StorePort, row: SessionRow, prices: Prices | None) -> dict[str, int]:
    """What a session used, with its money if it names it, or as far as there are prices."""
    spend = spend_of(store.entries(row.id, "spend"))
    if prices is None or not spend.get("tokens") or names_money(spend):
        return spend
    return SessionCosts(store, row, prices, spend).of(spend)


def spend_of(entries: Iterable[Entry]) -> dict[str, int]:
    """What was spent, by unit."""
    records = (entry.record for entry in entries)
    return {one.unit: one.amount for one in records if isinstance(one, SpendRecord)}


class SessionCosts:
    """What one session cost, from what it had used at some position. `spend`: what it used in all."""

    def __init__(
        self, store: StorePort, row: SessionRow, prices: Prices, spend: Mapping[str, int]
    ) -> None:
        self._store, self._row, self._prices = store, row, prices
        self._is_recorded = names_money(spend)
        self._seqs, self._models = models_of(store.versions(row.id, **_MODELS))
        named = set(filter(None, self._models))
        if len(named) == 1:
            self._seqs, self._models = [0], list(named)  # also of what came before it was named
        is_tiered = any(0 < above < prompt_tokens(spend) for above in map(prices.above, named))
        changes_often = len(self._seqs) > CHANGES_MAX
        looks = (is_tiered or changes_often) and row.head <= COMMITS_MAX
        self._is_whole = looks or not is_tiered
        """Whether every answer is known by its size, where that decides about its price."""
        if changes_often and not looks:
            self._seqs, self._models = [], []  # which of them answered is not known
        self._parts = [SessionPart({}, {}, self._model_at(lent_upto(row.record.lineage) + 1))]
        if not self._is_recorded:
            self._parts += self._by_answer() if looks else self._by_model()
        self._tokens = [part.spend.get("tokens", 0) for part in self._parts]

    def of(self, spend: Mapping[str, int]) -> dict[str, int]:
        """What it had spent at some position, with what that cost; `spend` is what was recorded until there."""
        if self._is_recorded:
            return dict(spend)
        part = self._parts[max(0, bisect_right(self._tokens, spend.get("tokens", 0)) - 1)]
        rest = self._prices.priced(less(spend, part.spend), part.model, one_answer=False)
        priced = total([part.priced, rest])
        if self._is_whole or not names_money(priced):
            return priced
        # Its price depends on the sizes of answers that were not looked at.
        return {**priced, UNPRICED: spend.get("tokens", 0)}

    def _model_at(self, seq: int) -> str:
        """With which model it ran at a seq; empty if nothing says so."""
        place = bisect_right(self._seqs, seq) - 1
        return self._models[place] if place >= 0 else ""

    def _by_model(self) -> Iterator[SessionPart]:
        """Up to each change of its model, from the sums that it had then."""
        began = lent_upto(self._row.record.lineage)
        changes = [seq for seq in self._seqs if seq - 1 > began]
        ahead(self._store, *(read("entries", self._row.id, "spend", at=seq - 1) for seq in changes))
        before: dict[str, int] = {}
        priced: dict[str, int] = {}
        for seq in changes:
            spend = spend_of(self._store.entries(self._row.id, "spend", at=seq - 1))
            used = less(spend, before)
            model = self._model_at(seq - 1)
            priced = total([priced, self._prices.priced(used, model, one_answer=False)])
            before = spend
            yield SessionPart(spend, priced, self._model_at(seq))

    def _by_answer(self) -> Iterator[SessionPart]:
        spend: dict[str, int] = {}
        priced: dict[str, int] = {}
        for one, cost in self.answers():
            spend = added(spend, one.usage)
            priced = total([priced, cost])
            yield SessionPart(spend, priced, self._model_at(one.seq))

    def answers(self) -> Iterator[tuple[AnswerUsage, dict[str, int]]]:
        """What each of its own commits used, and the same with its money."""
        after = lent_upto(self._row.record.lineage)
        versions = self._store.versions(
            self._row.id, after=after, upto=self._row.head, collections=("spend",)
        )
        for one in answers(versions, {}):
            yield one, self._prices.priced(one.usage, self._model_at(one.seq))


def answers(versions: Iterable[Version], before: Mapping[str, int]) -> Iterator[AnswerUsage]:
    """What each commit used, from how the sums grew; `before`: what was spent until there."""
    amounts = dict(before)
    for seq, group in groupby(versions, key=lambda version: version.seq):
        usage, turn = {}, 0
        for version in group:
            record = version.op.record if isinstance(version.op, Put) else None
            if isinstance(record, SpendRecord):
                usage[record.unit] = record.amount - amounts.get(record.unit, 0)
                amounts[record.unit], turn = record.amount, version.turn
        if usage:
            yield AnswerUsage(seq, turn, usage)


def model_in(entries: Iterable[Entry]) -> str:
    """The model that settings name; empty if they name none."""
    for entry in entries:
        if isinstance(one := entry.record, SettingRecord) and one.name == MODEL:
            return str(one.value or "")
    return ""


def models_of(versions: Iterable[Version]) -> tuple[list[int], list[str]]:
    """From which seqs on which models answered."""
    seqs: list[int] = []
    models: list[str] = []
    for version in versions:
        record = version.op.record if isinstance(version.op, Put) else None
        if isinstance(record, SettingRecord) and record.name == MODEL:
            model = record.value if isinstance(record.value, str) else ""
            if not models or models[-1] != model:
                seqs.append(version.seq)
                models.append(model)
    return seqs, models
