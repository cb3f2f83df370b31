"""Gathers what a log holds about a call in doubt: what was asked for, what the agent said before it, what came back,
and whether the same was called again. With that a person can find out what became of it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from stator.model.log.commit import Commit
from stator.model.log.query import CallQuery, CallRow
from stator.runtime.views.words import ModelWords, said_before
from stator.store.port import StorePort

LATER = 200
"""Later calls of the same tool that are compared with it."""


class AskedCall(Protocol):
    """A call in doubt, as far as its story needs it."""

    @property
    def session(self) -> str: ...
    @property
    def call(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def input_hash(self) -> str: ...
    @property
    def turn(self) -> int: ...
    @property
    def seq(self) -> int: ...


class DoubtStory(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a call in doubt."""

    prompt: Commit | None
    """The commit of the turn that it was made in: what was asked for."""
    said: ModelWords | None
    """The words of the agent before it, in the same turn."""
    answer: Commit | None
    """What came back, where that settles nothing."""
    again: list[CallRow]
    """Later calls with the same arguments, in the same session; the oldest first."""
    followed: int
    """Commits of its session since."""


def story_of(store: StorePort, doubt: AskedCall) -> DoubtStory:
    """What the log of its session says about a call in doubt."""
    turns = store.turns(doubt.session, after=doubt.turn - 1, upto=doubt.turn, prompts=True)
    later = store.calls(
        CallQuery(session=doubt.session, tool=doubt.tool, after=doubt.seq - 1), limit=LATER
    ).rows
    own = [row for row in later if row.call == doubt.call and row.outcome]
    others = [row for row in later if row.call != doubt.call]
    return DoubtStory(
        prompt=turns[0].began if turns and doubt.turn else None,
        said=said_before(store, doubt.session, doubt.seq, doubt.turn),
        answer=_commit(store, doubt.session, own[0].outcome) if own else None,
        again=_same(store, doubt, others),
        followed=store.head(doubt.session).seq - doubt.seq,
    )


def _same(store: StorePort, doubt: AskedCall, rows: list[CallRow]) -> list[CallRow]:
    """Those of the calls that have the same arguments."""
    if not rows or not doubt.input_hash:
        return []
    seqs = sorted(row.seq for row in rows)
    intents = store.commits(doubt.session, seqs=seqs, limit=LATER)
    same = {one.seq for one in intents if one.known("input_hash", "") == doubt.input_hash}
    return sorted((row for row in rows if row.seq in same), key=lambda row: row.seq)


def _commit(store: StorePort, session: str, seq: int) -> Commit | None:
    found = store.commits(session, seqs=[seq], limit=1)
    return found[0] if found else None
