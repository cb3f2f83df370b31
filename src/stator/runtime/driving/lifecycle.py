"""Pauses, closes, archives and resumes a session that this program does not drive.

The lease of a session without a live driver is taken for a moment: what a dead driver left open is
recorded first, and the transition is appended in the same transaction. A live driver is never
displaced: it is asked to pause, and nothing else can be done to it from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from stator.errors import Busy, InvalidInput
from stator.model.calls.known import DISPLACED
from stator.model.calls.life import Asked
from stator.model.log.commit import Draft, Remove, Upsert
from stator.model.log.query import Holder, Lease
from stator.model.records.types import CallRecord, PendingRecord, SessionRecord, to_settle
from stator.model.sessions.lifecycle import REASONS, TRANSITIONS
from stator.model.values.ids import run_id
from stator.model.views.open_calls import DIED, fate, is_running, unknown
from stator.runtime.base.context import Context
from stator.store.port import StorePort

MakeDraft = Callable[..., Draft]


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """The result of pausing, closing, archiving or resuming a session."""

    session: str
    name: str
    status: str
    reason: str = ""
    asked: Holder | None = None
    """The driver that was asked to stop: it does so at its next call."""


def pause(
    store: StorePort,
    context: Context,
    session: str,
    *,
    reason: str = "user",
    by: str = "",
    **said: Any,
) -> Moved:
    """Pause a session; if it is driven, ask its driver to pause, and return who was asked."""
    try:
        return _move(store, context, session, "pause", reason, by, **said)
    except Busy as busy:
        fields = {**_said_by(by), **said}
        request = _draft(context, session, "pause_request", cause=reason, **fields)
        store.append(session, [request], barrier=True)
        return _moved(store, session, busy.holder)


def close(
    store: StorePort,
    context: Context,
    session: str,
    *,
    reason: str = "done",
    by: str = "",
    **said: Any,
) -> Moved:
    """Close a session: it accepts no more turns until it is resumed. `Busy` while it is driven."""
    return _move(store, context, session, "close", reason, by, **said)


def archive(
    store: StorePort,
    context: Context,
    session: str,
    *,
    reason: str = "done",
    by: str = "",
    **said: Any,
) -> Moved:
    """Archive a closed session: it can be read and forked, and never driven again."""
    return _move(store, context, session, "archive", reason, by, **said)


def resume(
    store: StorePort,
    context: Context,
    session: str,
    *,
    reason: str = "user",
    by: str = "",
    **said: Any,
) -> Moved:
    """Reopen a closed session: it is paused, until a program drives it."""
    status = store.session(session).record.status
    kinds = ("resume", "pause") if status == "closed" else ("pause",)
    return _move(store, context, session, kinds, reason, by, **said)


def _move(
    store: StorePort,
    context: Context,
    session: str,
    kinds: str | tuple[str, ...],
    reason: str,
    by: str,
    **said: Any,
) -> Moved:
    """`said`: more fields of the commits: why, or who, where another than a person moves the session."""
    if reason not in REASONS:
        raise InvalidInput(
            f"unknown reason {reason!r:.40}", path="$.reason", hint=", ".join(REASONS)
        )
    moves = (kinds,) if isinstance(kinds, str) else kinds
    row = store.session(session)
    if row.record.status in TRANSITIONS[moves[-1]].values():
        return _moved(store, session)  # it is there already
    try:
        with held(store, context, session) as hold:
            fields = {**_said_by(by), **said}
            drafts = [hold.draft(kind, cause=reason, **fields) for kind in moves]
            store.append(session, [*hold.left_behind(), *drafts], barrier=True)
    except Busy as busy:
        raise Busy(
            busy.what,
            holder=busy.holder,
            hint="pause it first: its driver stops at its next call",
            session=session,
        ) from None
    return _moved(store, session)


def _moved(store: StorePort, session: str, asked: Holder | None = None) -> Moved:
    row = store.session(session)
    record = row.record
    return Moved(
        session=session, name=record.name, status=row.shown, reason=record.reason, asked=asked
    )


def _said_by(by: str) -> dict[str, str]:
    return {"principal": by} if by else {}


def _draft(context: Context, session: str, kind: str, **fields: Any) -> Draft:
    fields = {"actor": "user", "principal": context.principal, **fields}
    return Draft(id=context.mint("commit"), session=session, kind=kind, **fields)


# -- holding --------------------------------------------------------------------------------------


class Hold:
    """A session held for a moment, to append what needs the lease."""

    def __init__(
        self, store: StorePort, context: Context, session: str, lease: Lease | None
    ) -> None:
        self._store = store
        self._context = context
        self._session = session
        self._lease = lease

    def draft(self, kind: str, **fields: Any) -> Draft:
        """A commit under this hold."""
        if self._lease is not None:
            epoch = self._lease.epoch
            fields = {"run": run_id(self._session, epoch), "epoch": epoch, **fields}
        return _draft(self._context, self._session, kind, **fields)

    def left_behind(self) -> list[Draft]:
        """The commits that record what a dead driver left open."""
        return [] if self._lease is None else close_out(self._store, self._lease, self.draft)

    def paused_after(self) -> list[Draft]:
        """The same, and the session paused after it: it is not driven from here."""
        left = self.left_behind()
        return [*left, self.draft("pause", cause=DIED, actor="system")] if left else []


@contextmanager
def held(store: StorePort, context: Context, session: str) -> Iterator[Hold]:
    """Hold a session; `Busy` if it is driven. One that Stator only records has no lease to hold."""
    if store.session(session).record.mode != "driven":
        yield Hold(store, context, session, None)
        return
    lease = store.acquire(session, holder(context))
    try:
        yield Hold(store, context, session, lease)
    finally:
        store.release(lease)


def holder(context: Context) -> Holder:
    """Who is running, as the lease shows them."""
    return Holder(
        epoch=0,
        host=context.host,
        pid=context.pid,
        program=context.program,
        since=context.clock(),
        process=context.process(),
    )


def close_out(
    store: StorePort, lease: Lease, draft: MakeDraft, opened: SessionRecord | None = None
) -> list[Draft]:
    """The commits that record what a driver that is gone left open: writes without an outcome are
    in doubt, its turn is interrupted.

    Nothing is executed, and what waits for a person keeps waiting. `draft(kind, **fields)` makes a
    commit under the lease.

    A driver that was displaced may still be running: its calls get a cause of their own, and are
    never reconciled. A tool that is asked now could answer that the call did not happen, and the
    old driver could make it a moment later; the call would then run twice.
    """
    session = lease.session
    cause = DIED if lease.displaced is None else DISPLACED
    gone: dict[str, Any] = {"cause": cause, "actor": "system", "principal": ""}
    drafts = [
        draft(
            "outcome",
            call=record.call,
            tool=record.tool,
            effect=record.effect,
            attempt=record.attempt,
            status=fate(record.effect),
            changes=(left_to_settle(record, cause),) if unknown(record) else (),
            **gone,
        )
        for entry in store.entries(session, "calls")
        if isinstance(record := entry.record, CallRecord) and is_running(record)
    ]
    if (opened is None or not is_new(opened)) and is_turn_open(store, session):
        drafts.append(draft("turn_end", status="interrupted", **gone))
    runs = store.entries(session, "runs")
    if runs:
        stale = tuple(Remove("runs", entry.key) for entry in runs)
        end = {"status": "interrupted", "inputs": (runs[0].seq,), "changes": stale}
        drafts.append(draft("run_end", **end, **gone))
    return drafts


FEW = 24
"""Commits at the end that as a rule say how a run ended."""


def is_new(record: SessionRecord) -> bool:
    """Whether a session has no run behind it, of its own or of what it was forked from."""
    return record.status == "open" and not record.lineage


def is_turn_open(store: StorePort, session: str) -> bool:
    """Whether a turn was left open. As a rule the newest commits, which a driver has read, say so."""
    for commit in store.commits(session, newest_first=True, limit=FEW, load=False):
        if commit.kind in ("turn", "turn_end"):
            return commit.kind == "turn"
    return store.head(session).turn_open


def left_to_settle(call: CallRecord | Asked, why: str) -> Upsert:
    """The pending item of a call in doubt: a person has to find out what became of it."""
    return Upsert("pending", PendingRecord(what=to_settle(call.call), why=f"{call.tool}: {why}"))
