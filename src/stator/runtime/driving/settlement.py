"""Lists the calls in doubt, and settles them: records the outcome of each.

A call can be settled long after its session was closed. One whose driver died is in doubt from that
moment on, whether or not the session was opened since.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from stator.errors import BadDelta, Busy, InvalidInput, WrongState
from stator.model.log.commit import Commit, Draft, Provenance
from stator.model.log.query import SessionRow
from stator.model.records.types import CallRecord
from stator.model.values.ids import short
from stator.model.views.open_calls import DIED, unknown
from stator.model.views.why import settled_by
from stator.runtime.base.context import Context
from stator.runtime.base.pages import commit_at, find_entry
from stator.runtime.driving.lifecycle import held
from stator.runtime.views.as_read import as_read, to_settle
from stator.runtime.views.refs import (
    arguments_of,
    find_call,
    intent_of,
    last_attempt,
    rows_of,
)
from stator.store.port import StorePort

Verdict = Literal["done", "not done", "run again"]
STATUS: dict[str, str] = {"done": "ok", "not done": "error", "run again": "error"}
"""A verdict → the status its settlement has: it happened, or it did not."""
PAGE = 500


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """A call that may or may not have happened."""

    session: str
    name: str
    call: str
    tool: str
    arguments: Any
    input_hash: str
    since: int
    turn: int
    seq: int
    attempt: int
    cause: str
    effect: str


class OpenDoubt:
    """A call in doubt with a method to settle it: reads like a `Doubt`."""

    def __init__(self, store: StorePort, context: Context, doubt: Doubt) -> None:
        self._store, self._context = store, context
        self.doubt = doubt

    def __getattr__(self, name: str) -> Any:
        return getattr(self.doubt, name)

    def settle(self, verdict: Verdict, value: Any = UNSET, *, why: str = "") -> Settled:
        """Record its outcome: "done" (with its value, if known), "not done" or "run again"."""
        doubt, by = self.doubt, self._context.principal
        return settle(
            self._store, self._context, doubt.call, verdict,
            by=by, value=value, why=why, session=doubt.session,
        )  # fmt: skip


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """How a call was settled."""

    session: str
    name: str
    call: str
    tool: str
    verdict: str
    commit: str
    seq: int
    why: str = ""
    """How the person knew, as they said."""


class CallEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended that is not in doubt, or not any more."""

    session: str
    name: str
    call: str
    tool: str
    how: str
    """`settled as done by ann: in the bank's log`, or `ended ok`."""
    seq: int
    at: int
    """When, in µs."""
    is_settled: bool


def doubts(
    store: StorePort, *, session: str | None = None, project: str | None = None
) -> list[Doubt]:
    """Calls in doubt: of a session, a project or the store; the newest session first. What was imported and is
    history is not among them."""
    return doubts_in(store, rows_of(store, session=session, project=project))


def doubts_in(store: StorePort, rows: Iterable[SessionRow]) -> list[Doubt]:
    """The same of some sessions."""
    return [_doubt(store, row, record) for row in rows for record in to_settle(store, row.id)]


def doubt_of(store: StorePort, call: str, *, session: str | None = None) -> Doubt | None:
    """The call of that id, or the end of one, if it is in doubt, however old; None if it is not."""
    intent = find_call(store, call, session=session)
    owner = session or intent.session
    entry = find_entry(store, owner, "calls", intent.call)
    record = entry.record if entry is not None else None
    if not isinstance(record, CallRecord) or record.status != "in doubt":
        return None
    return _doubt(store, store.session(owner), record)


def ended(store: StorePort, call: str, *, session: str | None = None) -> CallEnd | None:
    """How the call of that id, or the end of one, ended; None while that is open."""
    intent = find_call(store, call, session=session)
    owner = session or intent.session
    known = last_attempt(store, owner, intent)
    if known is None or not known.outcome or known.status == "in doubt":
        return None
    outcome = commit_at(store, owner, known.outcome)
    is_settled = outcome.kind == "settlement"
    return CallEnd(
        session=owner,
        name=store.session(owner).record.name,
        call=intent.call,
        tool=intent.tool,
        how=settled_by(outcome) if is_settled else f"ended {known.status}",
        seq=outcome.seq,
        at=outcome.when,
        is_settled=is_settled,
    )


def _doubt(store: StorePort, row: SessionRow, record: CallRecord) -> Doubt:
    intent = intent_of(store, row.id, record.call)
    return Doubt(
        session=row.id,
        name=row.record.name,
        call=record.call,
        tool=record.tool,
        arguments=arguments_of(intent),
        input_hash=intent.known("input_hash", "") if intent else "",
        since=record.since or (intent.when if intent else 0),
        turn=intent.turn if intent else 0,
        seq=intent.seq if intent else 0,
        attempt=record.attempt,
        cause=record.cause,
        effect=record.effect,
    )


def settle(
    store: StorePort,
    context: Context,
    call: str,
    verdict: Verdict,
    *,
    by: str,
    value: Any = UNSET,
    why: str = "",
    session: str | None = None,
    **said: Any,
) -> Settled:
    """Record the outcome of a call in doubt: it was "done" (`value` is its result), "not done", or is to "run again".

    `call` is an id or the end of one; a fork that inherited the call is named by `session`. `said`: fields of
    the settlement that differ from a person's.
    """
    if verdict not in STATUS:
        raise InvalidInput(
            f"unknown verdict {verdict!r:.40}", path="$.verdict", hint=", ".join(STATUS)
        )
    if value is not UNSET and verdict != "done":
        raise InvalidInput("only a call settled as done can have a value", path="$.value")
    intent = find_call(store, call, session=session)
    owner = session or intent.session
    row = store.session(owner)
    record = _settleable(store, context, row, intent)
    fields = {
        "call": record.call,
        "tool": record.tool,
        "effect": record.effect,
        "attempt": record.attempt,
        "status": STATUS[verdict],
        "cause": verdict,
        "output": value,
        "why": why,
        "actor": "user",
        "principal": by,
        "provenance": Provenance("user", "verified"),
        **said,
    }
    try:
        if record.status == "in doubt" or row.record.mode == "recorded":
            draft = Draft(id=context.mint("commit"), session=owner, kind="settlement", **fields)
            commit = store.append(
                owner, [draft, *_found_in(store, context, draft, intent)], barrier=True
            )[0]
        else:
            commit = _settle_left(store, context, owner, fields, intent)
    except BadDelta:  # another process settled it first
        raise _settled_already(store, owner, intent) from None
    return Settled(
        session=owner,
        name=row.record.name,
        call=record.call,
        tool=record.tool,
        verdict=verdict,
        commit=commit.id,
        seq=commit.seq,
        why=why,
    )


def _settle_left(
    store: StorePort, context: Context, session: str, fields: dict[str, Any], intent: Commit
) -> Commit:
    """Settle a call that its dead driver left running: first record that it is in doubt."""
    with held(store, context, session) as hold:
        # Paused in the same transaction: the session would look driven, and it is not.
        paused = hold.draft("pause", cause=DIED, actor="system")
        before = [*hold.left_behind(), paused]
        settling = hold.draft("settlement", **fields)
        found = _found_in(store, context, settling, intent)
        return store.append(session, [*before, settling, *found], barrier=True)[len(before)]


def _found_in(store: StorePort, context: Context, draft: Draft, intent: Commit) -> list[Draft]:
    """What is found in a settlement: that a check may have run."""
    # Reading lists what is to be settled; the rules are needed only where somebody settles.
    from stator.model.exchange.extraction_state import ExtractionState
    from stator.model.extraction import checks
    from stator.model.extraction.evidence import seen_commit
    from stator.model.extraction.extractor import Extractor
    from stator.runtime.base.plan_checks import learn

    state = ExtractionState(folder=context.root.rstrip("/"))
    extractor = Extractor(draft.session, state, (checks.RULE,))
    learn(store, extractor)
    extractor.see(seen_commit(intent), late=True)
    found = extractor.drafts(draft)
    return [msgspec.structs.replace(one, run=draft.run, epoch=draft.epoch) for one in found]


def _settleable(store: StorePort, context: Context, row: SessionRow, intent: Commit) -> CallRecord:
    """The call's record in the log, if readers know the call as in doubt."""
    entry = find_entry(store, row.id, "calls", intent.call)
    record = entry.record if entry is not None else None
    if not isinstance(record, CallRecord):
        raise _settled_already(store, row.id, intent)
    shown = f"{intent.tool} · call {short(intent.call)}"
    if record.status == "in doubt":
        return record
    if record.status == "awaiting approval":
        raise WrongState(
            f"{shown} has not begun: it waits for approval",
            hint=f"stator approve {short(intent.call)} or stator deny {short(intent.call)}",
            call=intent.call,
            status=record.status,
        )
    seen = find_entry(as_read(store, context), row.id, "calls", intent.call)
    if seen is not None and getattr(seen.record, "status", "") != "in doubt":
        raise Busy(f"{shown} is still running", holder=row.holder, session=row.id, call=intent.call)
    if not unknown(record):
        raise WrongState(
            f"{shown} only reads: it is not in doubt",
            hint="it can safely run again",
            call=intent.call,
            status=record.status,
        )
    return record


def _settled_already(store: StorePort, session: str, intent: Commit) -> WrongState:
    found = ended(store, intent.call, session=session)
    known = last_attempt(store, session, intent)
    how = f"ended {known.status} (@{known.outcome})" if known else "ended over"
    if found is not None and found.is_settled:
        how += f", {found.how}"
    return WrongState(
        f"{intent.tool} · call {short(intent.call)} is not in doubt: it {how}",
        hint=f"stator show {short(session)}:@{known.outcome}" if known and known.outcome else "",
        call=intent.call,
        session=session,
        status=known.status if known else "over",
    )
