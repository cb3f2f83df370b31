"""Finds the attempts at a turn with a key, and what each of them recorded."""

from __future__ import annotations

from collections.abc import Iterable

from stator.model.calls.known import Known, KnownCall, Scrub
from stator.model.calls.once import Attempt, TurnPart, attempts
from stator.model.log.commit import CONTINUES, Commit
from stator.model.log.rewinds import visible
from stator.model.values.ids import retype
from stator.runtime.base.pages import commit_at
from stator.runtime.driving.recovery import past, turn_commits
from stator.runtime.views import reflog
from stator.runtime.views.refs import intent_of, last_attempt
from stator.store.port import StorePort

OPEN = ("started", "in doubt")


def attempts_at(store: StorePort, session: str, key: str, scrub: Scrub) -> list[Attempt]:
    """The attempts at the turn of a key, in a session and its lineage; rewound ones do not count."""
    # A key is recorded redacted, or as it is where the store was opened without redaction.
    rows = store.turns(session, keys=[key, scrub(key, None)])
    if not rows:
        return []
    known = reflog.rewinds(store, session)
    if known:
        in_force = visible(known, store.head(session).seq)
        rows = [row for row in rows if reflog.stands_whole(store, session, row, in_force)]
    return attempts([TurnPart(row, commit_at(store, session, row.first)) for row in rows])


def log_of(store: StorePort, session: str, attempt: Attempt) -> list[Commit]:
    """Everything an attempt recorded, in order, and what became known of its calls in later turns."""
    log = [
        commit
        for part in attempt.parts
        for commit in (part.first, *turn_commits(store, session, part.row))
    ]
    found = {commit.seq for commit in log}
    for call in Known(log).calls:
        intent = intent_of(store, session, call.call) if call.status in OPEN else None
        row = None if intent is None else last_attempt(store, session, intent)
        if row is not None and row.outcome and row.outcome not in found:
            log.append(commit_at(store, session, row.outcome))
    return sorted(log, key=lambda commit: commit.seq)


def made_in(store: StorePort, session: str, call: str) -> tuple[str, str, int] | None:
    """The session and the turn's id a call was made in, and which of the equal calls there it is: its
    idempotency key is derived from these, whichever turn asks about it later."""
    intent = intent_of(store, session, call)
    if intent is None:
        return None
    parts = [past(store, session, intent.turn)]
    begun = parts[0].first
    if begun.status == CONTINUES and begun.inputs and isinstance(begun.inputs[0], int):
        begun = commit_at(store, session, begun.inputs[0])
        parts = [past(store, session, begun.turn), *parts]
    if key := begun.known("key", ""):
        rows = store.turns(session, keys=[key])
        parts = [TurnPart(row, commit_at(store, session, row.first)) for row in rows]
    for attempt in attempts(parts):
        for known in Known(log_of(store, session, attempt)).calls:
            if known.call == call:
                return intent.session, retype(attempt.first.id, "turn"), known.occurrence
    return None


def calls_of(store: StorePort, session: str, tried: Iterable[Attempt]) -> list[KnownCall]:
    """The calls of these attempts."""
    return [call for one in tried for call in Known(log_of(store, session, one)).calls]
