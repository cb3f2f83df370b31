"""Keeps what every session spent, by day and model, up to date while a program runs: for many sessions, in few calls.

The first answer about a large store takes several steps, each of which reads some sessions. After that, only sessions
that have moved are read. A session whose commits are of one day is read from its state; another one turn by turn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock

import msgspec

from stator.model.calls.costs import Prices, names_money, prompt_tokens, total
from stator.model.log.commit import Commit
from stator.model.log.delta import Version
from stator.model.log.query import GONE, Read, SessionRow, TurnRow, read
from stator.model.records.types import Entry
from stator.model.sessions.lifecycle import lent_upto
from stator.runtime.base.costs import EVER, answers, model_in, models_of, spend_of
from stator.store.port import StorePort

STEP = 60
"""Sessions that one step reads."""
TURNS = 5000
"""Turns of a session, the newest, that are counted by day; what is older counts for the first of them."""

Day = Callable[[int], str]
"""The day of a time in µs, as people write it."""
Spend = Mapping[str, int]


class SpendPart(msgspec.Struct, frozen=True):
    """What a session spent on one day with one model."""

    day: str
    """Empty where its source does not say when it was."""
    model: str
    """Empty where it is not recorded."""
    spend: dict[str, int]
    """With its money, as far as it is named or there are prices."""


class SessionSpend(msgspec.Struct, frozen=True):
    """What a session spent; no parts where it reports nothing."""

    row: SessionRow
    parts: list[SpendPart]


class SpendLedger:
    """What the sessions of a store spent, as far as they were read."""

    def __init__(self, day: Day, prices: Prices | None = None) -> None:
        self._day = day
        self._lock = Lock()
        self.revision = 0
        """Differs as soon as anything that it knows does."""
        self._heads: dict[str, int] = {}
        self._known: dict[str, SessionSpend] = {}
        self._prices = prices

    def advance(self, store: StorePort, prices: Prices | None = None, *, step: int = STEP) -> int:
        """Read sessions that have moved, at most `step` of them, or all if prices changed; how many are still to
        be read."""
        with self._lock:
            if prices != self._prices:
                self._prices, self._heads, self._known = prices, {}, {}
                self.revision += 1
            moved = store.heads(self._heads, others=True)
            self.revision += bool(moved)
            for session in [one for one, head in moved.items() if head == GONE]:
                self._heads.pop(session, None)
                self._known.pop(session, None)
                del moved[session]
            # Those that arrived last are asked about first.
            chosen = list(moved)[::-1][:step]
            for one in self._read(store, chosen):
                self._known[one.row.id] = one
            self._heads.update((session, moved[session]) for session in chosen)
            return len(moved) - len(chosen)

    def sessions(self) -> list[SessionSpend]:
        """Every session that was read."""
        with self._lock:
            return [one for one in self._known.values() if one.row.record.mode != "project"]

    def read(self, store: StorePort, sessions: Sequence[str]) -> list[SessionSpend]:
        """What these sessions spent; nothing of them is kept."""
        found = (
            one
            for start in range(0, len(sessions), STEP)
            for one in self._read(store, sessions[start : start + STEP])
        )
        return [one for one in found if one.row.record.mode != "project"]

    # -- reading ----------------------------------------------------------------------------------

    def _read(self, store: StorePort, sessions: Sequence[str]) -> Iterator[SessionSpend]:
        if not sessions:
            return
        told = store.together(*(one for each in sessions for one in _asks(each)))
        found: list[tuple[SessionRow, list[Entry], list[TurnRow], list[Version]]] = []
        for place in range(0, len(told), 4):
            row, entries, turns, settings = told[place : place + 4]
            if isinstance(row, SessionRow):
                found.append((row, entries, turns, settings))
        more = [one[0] for one in found if self._takes_long(*one)]
        details = dict(zip([row.id for row in more], self._detailed(store, more), strict=True))
        for row, entries, *_ in found:
            parts = details.get(row.id)
            if parts is None:
                parts = self._of_one_day(row, entries)
            yield SessionSpend(row, parts)

    def _takes_long(
        self,
        row: SessionRow,
        entries: list[Entry],
        turns: list[TurnRow],
        settings: list[Version],
    ) -> bool:
        """Whether it was used on several days, or what it cost depends on more than its sums, so that its turns must
        be read."""
        first, spend = turns[0].began if turns else None, spend_of(entries)
        if first is None or not spend:
            return False
        if self._prices is not None and not names_money(spend):
            models = {model for model in models_of(settings)[1] if model}
            above = [found for model in models if (found := self._prices.above(model))]
            if len(models) > 1 or any(prompt_tokens(spend) > found for found in above):
                return True
        return row.has_times and self._day(first.when) != self._day(row.updated)

    def _of_one_day(self, row: SessionRow, entries: list[Entry]) -> list[SpendPart]:
        spend, model = spend_of(entries), model_in(entries)
        if not spend:
            return []
        if self._prices is not None:
            spend = self._prices.priced(spend, model, one_answer=False)
        return [SpendPart(self._day(row.updated) if row.has_times else "", model, spend)]

    def _detailed(self, store: StorePort, rows: Sequence[SessionRow]) -> Iterator[list[SpendPart]]:
        """What sessions spent by day and model, from what each turn recorded."""
        reads: list[Read] = []
        for row in rows:
            after = lent_upto(row.record.lineage)
            reads += [
                read("entries", row.id, "settings", at=after),
                read(
                    "versions",
                    row.id,
                    after=after,
                    upto=row.head,
                    collections=("spend", "settings"),
                ),
                read("turns", row.id, newest_first=True, limit=TURNS),
            ]
        told = store.together(*reads) if reads else []
        # A turn counts for the day on which it began: where a source has times, its commits say when that was.
        firsts = [[turn.first for turn in turns] for turns in told[2::3]]
        begun = [
            read("commits", row.id, seqs=sorted(each), limit=TURNS, load=False)
            for row, each in zip(rows, firsts, strict=True)
        ]
        commits = store.together(*begun) if begun else []
        for place, row in enumerate(rows):
            before, versions, _ = told[3 * place : 3 * place + 3]
            yield self._parts(row, before, versions, commits[place])

    def _parts(
        self, row: SessionRow, before: list[Entry], versions: list[Version], begun: list[Commit]
    ) -> list[SpendPart]:
        timed = begun if row.has_times else []
        days = {commit.turn: self._day(commit.when) for commit in timed}
        day = self._day(timed[0].when) if timed else ""
        seqs, models = models_of(versions)
        seqs, models = [0, *seqs], [model_in(before), *models]
        if len(named := set(filter(None, models))) == 1:
            seqs, models = [0], list(named)  # also of what came before it was named
        found: dict[tuple[str, str], list[dict[str, int]]] = {}
        amounts = list(answers(versions, {}))  # a fork begins with nothing spent
        prices = None if any(names_money(one.usage) for one in amounts) else self._prices
        for one in amounts:
            day = days.get(one.turn, day)
            model = models[bisect_right(seqs, one.seq) - 1]
            usage = one.usage if prices is None else prices.priced(one.usage, model)
            found.setdefault((day, model), []).append(usage)
        return [SpendPart(day, model, total(spends)) for (day, model), spends in found.items()]


def _asks(session: str) -> tuple[Read, ...]:
    return (
        read("session", session),
        read("entries", session, "spend", "settings"),
        read("turns", session, limit=1, prompts=True),
        read("versions", session, after=0, upto=EVER, collections=("settings",)),
    )
