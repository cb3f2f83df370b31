"""Finds the attempts at a turn with a key, and what each of them recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stator.model.calls.known import Known, KnownCall, Scrub
from stator.model.calls.once import Attempt, TurnPart, attempts, is_stuck
from stator.model.log.commit import CONTINUES, Commit
from stator.model.log.query import CallQuery
from stator.model.log.rewinds import visible
from stator.model.values.ids import retype
from stator.runtime.base.pages import commit_at
from stator.runtime.driving.recovery import turn_commits
from stator.runtime.views import reflog
from stator.runtime.views.refs import intent_of
from stator.store.port import StorePort

WAITING = ("awaiting approval", "in doubt")
OPEN = ("started", "in doubt")


def attempts_at(store: StorePort, session: str, key: str, scrub: Scrub) -> list[Attempt]:
    """The attempts at the turn of a key, in a session and its lineage; rewound ones do not count."""
    # A key is recorded redacted, or as it is where the store was opened without redaction.
    rows = store.keyed_turns(session, [key, scrub(key, None)])
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
        ending = _ending(store, session, call) if call.status in OPEN else 0
        if ending not in found and ending:
            log.append(commit_at(store, session, ending))
    return sorted(log, key=lambda commit: commit.seq)


def _ending(store: StorePort, session: str, call: KnownCall) -> int:
    """The seq of what was last recorded of how a call ended, in whichever turn; 0 if nothing was."""
    query = CallQuery(session=session, tool=call.tool, after=call.seq - 1)
    cursor: tuple[int, ...] | None = None
    while True:
        page = store.calls(query, cursor=cursor)
        for row in page.rows:  # the newest attempt comes first
            if row.call == call.call:
                return row.outcome
        cursor = page.cursor
        if cursor is None:
            return 0


def recorded(store: StorePort, session: str, tried: Sequence[Attempt]) -> Known:
    """What the last of these attempts recorded, and the calls of those before it."""
    *before, last = tried
    return Known(log_of(store, session, last), calls_of(store, session, before))


def made_in(store: StorePort, session: str, call: str) -> tuple[str, str, int] | None:
    """The session and the turn's id a call was made in, and which of the equal calls there it is: its
    idempotency key is derived from these, whichever turn asks about it later."""
    intent = intent_of(store, session, call)
    if intent is None:
        return None
    parts = [_part(store, session, intent.turn)]
    begun = parts[0].first
    if begun.status == CONTINUES and begun.inputs and isinstance(begun.inputs[0], int):
        begun = commit_at(store, session, begun.inputs[0])
        parts = [_part(store, session, begun.turn), *parts]
    if key := begun.known("key", ""):
        rows = store.keyed_turns(session, [key])
        parts = [TurnPart(row, commit_at(store, session, row.first)) for row in rows]
    for attempt in attempts(parts):
        for known in Known(log_of(store, session, attempt)).calls:
            if known.call == call:
                return intent.session, retype(attempt.first.id, "turn"), known.occurrence
    return None


def _part(store: StorePort, session: str, number: int) -> TurnPart:
    row = store.turns(session, after=number - 1, upto=number)[0]
    return TurnPart(row, commit_at(store, session, row.first))


def calls_of(store: StorePort, session: str, tried: Iterable[Attempt]) -> list[KnownCall]:
    """The calls of these attempts."""
    return [call for one in tried for call in Known(log_of(store, session, one)).calls]


def fails_again(store: StorePort, session: str, attempt: Attempt) -> bool:
    """Whether an attempt was continued and interrupted again without getting any further."""
    log = log_of(store, session, attempt)
    waits = any(call.status in WAITING for call in Known(log).calls)
    return is_stuck(log, waits=waits)
