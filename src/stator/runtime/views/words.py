"""The model's own words about a session: its last answer, and the summary that it made when its view was shortened.

They are kept as what they are. Nothing in them is a fact, a decision or a plan.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stator.model.log.commit import Commit
from stator.model.log.rewinds import stands, visible
from stator.model.window.reply import text_of
from stator.runtime.views.reflog import rewinds
from stator.store.port import StorePort

PAGE = 200
NEAR = 50
"""Commits before a call in which the words are looked for that belong to it."""


class ModelWords(msgspec.Struct, frozen=True, kw_only=True):
    """A text of the model, and where it is."""

    text: str
    seq: int
    turn: int
    at: int
    """When it was written, in µs."""
    source: str = "model"


def last_words(store: StorePort, session: str, most: int | None = None) -> ModelWords | None:
    """The last answer of the model that says something, among the newest `most` commits, or None."""
    return _last(store, session, _answer, most)


def said_before(store: StorePort, session: str, seq: int, turn: int) -> ModelWords | None:
    """What the model said last in a turn before a seq; None if it said nothing."""
    for commit in store.commits(session, upto=seq - 1, newest_first=True, limit=NEAR):
        if commit.turn != turn:
            return None
        if said := _answer(commit):
            return ModelWords(text=said, seq=commit.seq, turn=commit.turn, at=commit.when)
    return None


def summary(store: StorePort, session: str) -> ModelWords | None:
    """The summary of the last compaction that has one; None if there is none."""
    return _last(store, session, _summary)


def _last(
    store: StorePort, session: str, text: Callable[[Commit], str], most: int | None = None
) -> ModelWords | None:
    upto: int | None = store.head(session).seq
    in_force = visible(rewinds(store, session), upto or 0)
    least = (upto or 0) - most if most is not None else 0
    while upto and upto > least:
        page = store.commits(session, upto=upto, newest_first=True, limit=PAGE)
        for commit in page:
            if stands(in_force, commit.seq) and (said := text(commit)):
                return ModelWords(text=said, seq=commit.seq, turn=commit.turn, at=commit.when)
        upto = page[-1].seq - 1 if page else 0
    return None


def _answer(commit: Commit) -> str:
    if commit.kind != "entry" or commit.actor != "model":
        return ""
    said = commit.known("output")
    return "" if said is None else text_of(said).strip()


def _summary(commit: Commit) -> str:
    said = commit.known("input") if commit.kind == "compaction" else None
    return str(said.get("summary") or "").strip() if isinstance(said, dict) else ""
