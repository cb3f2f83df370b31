"""Gathers what a log holds about a call in doubt: what was asked for, what the agent said before it, what came back,
and whether the same was called again. With that a person can find out what became of it. Lists those that were settled
lately, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.log.query import CallQuery, CallRow
from stator.model.log.shown_text import cut_short
from stator.model.records.text import arguments_text
from stator.model.views.open_calls import SettledCall
from stator.model.views.why import Reason, decision_reason, is_spoken, said_reason
from stator.runtime.views.refs import arguments_of, intent_of
from stator.runtime.views.words import ModelWords, said_before
from stator.store.port import StorePort

CALL_MAX = 500
"""Characters of a call that was settled."""
LATER = 200
"""Later calls of the same tool that are compared with it."""
DECISIONS = 3
"""Decisions before a call that are given."""
NEXT = 50
"""Commits after a call among which the next words are looked for."""


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
    decisions: list[Reason]
    """What was decided before it in the same turn, the newest last."""
    said: ModelWords | None
    """The words of the agent before it, in the same turn."""
    answer: Commit | None
    """What came back, where that settles nothing."""
    again: list[CallRow]
    """Later calls with the same arguments, in the same session; the oldest first."""
    followed: int
    """Commits of its session since."""
    then: Reason | None
    """What the agent said, or was asked, next."""


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
        decisions=[
            decision_reason(one)
            for one in decisions_before(store, doubt.session, doubt.turn, doubt.seq)
        ],
        said=said_before(store, doubt.session, doubt.seq, doubt.turn),
        answer=_commit(store, doubt.session, own[0].outcome) if own else None,
        again=_same(store, doubt, others),
        followed=store.head(doubt.session).seq - doubt.seq,
        then=_then(store, doubt),
    )


def decisions_before(store: StorePort, session: str, turn: int, seq: int) -> list[Commit]:
    """The last decisions of a turn before a seq, the last on each topic."""
    turns = store.turns(session, after=turn - 1, upto=turn) if turn > 0 else []
    if not turns:
        return []
    versions = store.versions(
        session, after=turns[0].first - 1, upto=seq - 1, collections=("decisions",)
    )
    last = {version.key: version.seq for version in versions if isinstance(version.op, Put)}
    seqs = sorted(set(last.values()))[-DECISIONS:]
    return store.commits(session, seqs=seqs, limit=DECISIONS) if seqs else []


def _then(store: StorePort, doubt: AskedCall) -> Reason | None:
    """The first words after a call: an answer of the agent, or the next prompt."""
    for commit in store.commits(doubt.session, after=doubt.seq, limit=NEXT):
        if (commit.kind == "turn" or is_spoken(commit)) and (said := said_reason(commit)).text:
            return said
    return None


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


def settled_in(
    store: StorePort, session: str, newest: Sequence[Commit], after: int
) -> list[SettledCall]:
    """Which calls in doubt the newest commits of a session settle after a seq, if nothing became of them since. The
    newest commit comes first."""
    asked = {commit.call: commit for commit in newest if commit.kind == "call"}
    seen: set[str] = set()
    found: list[SettledCall] = []
    for end in newest:
        if end.seq <= after or not end.call or end.call in seen:
            continue
        seen.add(end.call)
        if end.kind == "settlement":
            intent = asked.get(end.call) or intent_of(store, session, end.call)
            found.append(_settled(end, intent))
    return found


def _settled(end: Commit, intent: Commit | None) -> SettledCall:
    return SettledCall(
        call=end.call,
        text=cut_short(arguments_text(end.tool, arguments_of(intent)), CALL_MAX),
        verdict=end.cause or end.status,
        by=str(end.known("principal", "")),
        why=str(end.known("why", "")),
        seq=end.seq,
    )
