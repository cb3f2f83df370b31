"""Keeps what every session spent, by day and model, up to date while a program runs: for many sessions, in few calls.

The first answer about a large store takes several steps, each of which reads some sessions. After that, only sessions
that have moved are read. A session whose commits are of one day is read from its state; another one turn by turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

import msgspec

from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.log.query import GONE, Read, SessionRow, TurnRow, read
from stator.model.records.types import Entry, SettingRecord, SpendRecord
from stator.model.sessions.lifecycle import lent_upto
from stator.store.port import StorePort

STEP = 60
"""Sessions that one step reads."""
TURNS = 5000
"""Turns of a session, the newest, that are counted by day; what is older counts for the first of them."""
MODEL = "model"

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


class SessionSpend(msgspec.Struct, frozen=True):
    """What a session spent; no parts where it reports nothing."""

    row: SessionRow
    parts: list[SpendPart]


class SpendLedger:
    """What the sessions of a store spent, as far as they were read."""

    def __init__(self, day: Day) -> None:
        self._day = day
        self._lock = Lock()
        self.revision = 0
        """Differs as soon as anything that it knows does."""
        self._heads: dict[str, int] = {}
        self._known: dict[str, SessionSpend] = {}

    def advance(self, store: StorePort, *, step: int = STEP) -> int:
        """Read sessions that have moved, at most `step` of them; how many are still to be read."""
        with self._lock:
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
        answers = store.together(*(one for each in sessions for one in _asks(each)))
        found: list[tuple[SessionRow, list[Entry], list[TurnRow]]] = []
        for place in range(0, len(answers), 3):
            row, entries, turns = answers[place : place + 3]
            if isinstance(row, SessionRow):
                found.append((row, entries, turns))
        more = [row for row, entries, turns in found if self._takes_long(row, entries, turns)]
        details = dict(zip([row.id for row in more], self._detailed(store, more), strict=True))
        for row, entries, _ in found:
            parts = details.get(row.id)
            if parts is None:
                parts = self._of_one_day(row, entries)
            yield SessionSpend(row, parts)

    def _takes_long(self, row: SessionRow, entries: list[Entry], turns: list[TurnRow]) -> bool:
        """Whether it was used on several days, so that its turns must be read."""
        first = turns[0].began if turns else None
        if first is None or not row.has_times or not _amounts(entries):
            return False
        return self._day(first.when) != self._day(row.updated)

    def _of_one_day(self, row: SessionRow, entries: list[Entry]) -> list[SpendPart]:
        spend = _amounts(entries)
        if not spend:
            return []
        return [SpendPart(self._day(row.updated) if row.has_times else "", _model(entries), spend)]

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
        answers = store.together(*reads) if reads else []
        # A turn counts for the day on which it began: where a source has times, its commits say when that was.
        firsts = [[turn.first for turn in turns] for turns in answers[2::3]]
        begun = [
            read("commits", row.id, seqs=sorted(each), limit=TURNS, load=False)
            for row, each in zip(rows, firsts, strict=True)
        ]
        commits = store.together(*begun) if begun else []
        for place, row in enumerate(rows):
            before, versions, _ = answers[3 * place : 3 * place + 3]
            yield self._parts(row, before, versions, commits[place])

    def _parts(
        self, row: SessionRow, before: list[Entry], versions: list[Any], begun: list[Commit]
    ) -> list[SpendPart]:
        timed = begun if row.has_times else []
        days = {commit.turn: self._day(commit.when) for commit in timed}
        day = self._day(timed[0].when) if timed else ""
        amounts: dict[str, int] = {}  # a fork begins with nothing spent
        model = _model(before)
        found: dict[tuple[str, str], dict[str, int]] = {}
        for version in versions:
            record = version.op.record if isinstance(version.op, Put) else None
            if isinstance(record, SettingRecord) and record.name == MODEL:
                model = str(record.value or "")
            if not isinstance(record, SpendRecord):
                continue
            day = days.get(version.turn, day)
            part = found.setdefault((day, model), {})
            grown = record.amount - amounts.get(record.unit, 0)
            part[record.unit] = part.get(record.unit, 0) + grown
            amounts[record.unit] = record.amount
        return [SpendPart(day, model, spend) for (day, model), spend in found.items()]


def _asks(session: str) -> tuple[Read, ...]:
    return (
        read("session", session),
        read("entries", session, "spend", "settings"),
        read("turns", session, limit=1, prompts=True),
    )


def _amounts(entries: Sequence[Entry]) -> dict[str, int]:
    records = (entry.record for entry in entries)
    return {one.unit: one.amount for one in records if isinstance(one, SpendRecord)}


def _model(entries: Sequence[Entry]) -> str:
    for entry in entries:
        if isinstance(one := entry.record, SettingRecord) and one.name == MODEL:
            return str(one.value or "")
    return ""
