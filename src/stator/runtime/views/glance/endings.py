"""Says in one sentence how each of some sessions ended: from what a list says of it and its newest commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stator.model.calls.costs import Prices
from stator.model.log.commit import Commit
from stator.model.log.query import Read, SessionRow, read
from stator.model.log.shown_text import cut_short
from stator.model.records.types import PlanRecord, RevisionRecord
from stator.model.sessions.lifecycle import lent_upto
from stator.model.views.why import words_of
from stator.runtime.base.one_answer import ahead
from stator.runtime.views.glance.listed import ListedSession, asks_listed, listed
from stator.store.port import StorePort

NEWEST = 12
"""Commits at the end of a log in which the agent's last words are looked for."""
STEPS_MAX = 40
SAID_MAX, SUBJECT_MAX = 160, 72
FIRST = {
    "waiting": "waits for your word",
    "in doubt": "a call is in doubt",
    "interrupted": "cut off",
    "failed": "its last turn failed",
    "budget": "its budget is used up",
    "lease lost": "another program took it over",
}
"""The first words about a session that ended in one of these ways."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a session ended."""

    listed: ListedSession
    sentence: str
    is_finished: bool
    """Whether nothing of its plan is open, or called done without its check."""

    @property
    def row(self) -> SessionRow:
        return self.listed.row


def endings(
    store: StorePort, rows: Sequence[SessionRow], prices: Prices | None = None
) -> list[Ending]:
    """How these sessions ended, in one call of a store for one question that has read their plans."""
    more = (one for row in rows for one in asks_listed(row, prices))
    ahead(store, *more, *(_newest(row) for row in rows))
    return [_ending(store, one) for one in listed(store, rows, prices)]


def _newest(row: SessionRow) -> Read:
    after = lent_upto(row.record.lineage)
    return read("commits", row.id, after=after, newest_first=True, limit=NEWEST)


def _ending(store: StorePort, one: ListedSession) -> Ending:
    steps = _steps(store, one.row)
    parts = [FIRST[one.ended]] if one.ended in FIRST else []
    parts += _did(store, one, steps)
    facts = "; ".join(parts)
    words = _last_words(store, one.row) if len(parts) < 2 else ""
    since = " since it was forked" if one.row.record.lineage else ""
    sentences = filter(None, (facts, words))
    said = ". ".join(text[:1].upper() + text[1:] for text in sentences)
    return Ending(
        listed=one,
        sentence=said or f"Nothing was recorded{since}",
        is_finished=all(
            step.status in ("done", "claimed") and (not step.check or step.status == "done")
            for step in steps
        ),
    )


def _steps(store: StorePort, row: SessionRow) -> list[PlanRecord]:
    records = [entry.record for entry in store.entries(row.id, "plan", limit=STEPS_MAX)]
    return [r for r in records if isinstance(r, PlanRecord) and r.status != "dropped"]


def _did(store: StorePort, one: ListedSession, steps: Sequence[PlanRecord]) -> Iterator[str]:
    """What records say that it achieved."""
    states: list[str] = [step.status for step in steps]
    if states:
        finished = sum(status in ("done", "claimed") for status in states)
        how = "done" if "claimed" not in states else "said to be done"
        yield f"{finished} of {len(states)} steps {how}"
    for entry in store.entries(one.row.id, "revisions")[:1]:
        if isinstance(record := entry.record, RevisionRecord):
            pushed = " and pushed" if record.pushed else ""
            about = f": {_cut(record.subject, SUBJECT_MAX)}" if record.subject else ""
            yield f"committed {record.sha[:7]}{pushed}{about}"
            return
    if one.files:
        yield f"changed {one.files} file{'' if one.files == 1 else 's'}"


def _last_words(store: StorePort, row: SessionRow) -> str:
    """The first sentence of the agent's last words."""
    asked = _newest(row)
    page: list[Commit] = store.commits(*asked.args, **asked.options)
    for commit in page:
        if commit.kind == "entry" and commit.actor in ("model", "agent"):
            words = words_of(commit).strip()
            if any(char.isalnum() for char in words):
                return _cut(_first_sentence(words), SAID_MAX)
    return ""


def _cut(text: str, limit: int) -> str:
    short = cut_short(text, limit)
    return short if len(short) == len(text) else f"{short.rstrip()}…"


def _first_sentence(words: str) -> str:
    line = next((line for line in words.splitlines() if any(c.isalnum() for c in line)), words)
    plain = line.lstrip("#*->• ").replace("**", "").replace("`", "")
    head, stop, _ = plain.partition(". ")
    return (head + ("." if stop else "")).rstrip(":")
