"""Opens a session for driving: creates or finds it, takes its lease and begins a run.

It is among the branches because opening may branch: a session that another driver has can be forked
instead, a name leads to the session that was adopted for it, and a retry is driven on stricter
terms than the session it came from.
"""

from __future__ import annotations

import functools
from typing import Literal

import msgspec

from stator.errors import Busy, NotFound, StatorError, WrongState
from stator.model.log.query import Lease, SessionQuery, SessionRow
from stator.model.records.types import SessionRecord
from stator.runtime.base.context import Context
from stator.runtime.base.first_commit import opening
from stator.runtime.base.one_answer import knowing_newest
from stator.runtime.base.ownership import require_named
from stator.runtime.branches import carry, fork
from stator.runtime.driving import lifecycle
from stator.runtime.driving.driver import NEEDED_TO_BEGIN, Driver
from stator.runtime.driving.policy import Terms
from stator.runtime.views.refs import followed
from stator.store.port import StorePort

HeldMode = Literal["fail", "wait", "fork", "take"]
"""What to do about a session that another driver has."""
POLL_S = 0.25
"""How often the lease of a session that another driver has is asked for again."""
EFFECTS = "effects"
"""The label of a retry that may write without asking."""
WHY = "a retry would do this a second time"


def drive(
    store: StorePort,
    context: Context,
    record: SessionRecord,
    terms: Terms,
    *,
    busy: HeldMode = "fail",
    program: list[list[int]] | None = None,
    exact: bool = False,
    after: str | None = None,
) -> Driver:
    """Create a session or open the one of that name, under the lease.

    A name leads to the session that was adopted for it; `exact`: to the one itself. `after` names the session that it
    continues.
    """
    require_named(store, "drive a session in it")
    if after is not None:
        record = _continuing(store, record, after)
    row, made = store.create([opening(context, record)])
    if after is not None and not made:
        carry.must_continue(row, after, lambda: carry.source_of(store, record, after))
    if row.id != record.id and not exact:
        row = followed(store, row)
    return drive_existing(store, context, row, terms, busy=busy, program=program)


def _continuing(store: StorePort, record: SessionRecord, after: str) -> SessionRecord:
    """The record of a new session with the one that it continues; one that exists already keeps its own."""
    query = SessionQuery(tenant=record.tenant, project=record.project, name=record.name)
    if store.sessions(query, limit=1).rows:
        return record
    return msgspec.structs.replace(record, continues=carry.source_of(store, record, after))


def drive_existing(
    store: StorePort,
    context: Context,
    row: SessionRow,
    terms: Terms,
    *,
    busy: HeldMode = "fail",
    program: list[list[int]] | None = None,
) -> Driver:
    """Drive a session that exists."""
    require_named(store, "drive a session in it")
    lease = _acquire(store, context, row, busy)
    if lease is None:
        row = fork.fork(store, context, fork.head_of(store, row), kind="fork")
        lease = store.acquire(row.id, lifecycle.holder(context))
    try:
        # What a driver has to know before it begins, read under its lease.
        known = knowing_newest(store, row.id, lease.newest, lifecycle.FEW)
        lease = msgspec.structs.replace(lease, newest=())
        for entry in known.entries(row.id, "session", *NEEDED_TO_BEGIN)[:1]:
            if isinstance(record := entry.record, SessionRecord):
                record = msgspec.structs.replace(record, project=row.record.project)
                row = msgspec.structs.replace(row, record=record)
        terms = terms_of(store, row.record, terms)
        taken = functools.partial(carry.drafts, store, row)
        return Driver(store, row, context, lease, terms, program=program, taken=taken, known=known)
    except StatorError:
        # Nobody drives it now; with the lease kept, nobody else could.
        store.release(lease)
        raise


def _acquire(store: StorePort, context: Context, row: SessionRow, busy: HeldMode) -> Lease | None:
    """The lease; None where a fork is to be driven instead."""
    if row.record.status == "archived":
        raise WrongState(
            f"session {row.record.name!r} is archived", hint="fork it to continue", session=row.id
        )
    while True:
        try:
            return store.acquire(
                row.id,
                lifecycle.holder(context),
                take=busy == "take",
                newest=0 if lifecycle.is_new(row.record) else lifecycle.FEW,
            )
        except Busy:
            if busy == "fork":
                return None
            if busy != "wait":
                raise
        context.sleep(POLL_S)


def terms_of(store: StorePort, record: SessionRecord, terms: Terms) -> Terms:
    """The terms a session is driven on: a retry asks before it writes, until it is adopted."""
    return terms.asking_writes(WHY) if _asks(store, record) else terms


def _asks(store: StorePort, record: SessionRecord) -> bool:
    """Whether a session is a retry that asks, or continues what one began: a fork or a child of it,
    or what was adopted for it."""
    seen = {record.id}
    while (parent := record.parent) is not None and parent.kind != "import":
        retry = parent.kind == "retry"
        if retry and record.labels.get(EFFECTS) == "run":
            return False
        try:
            above = store.session(parent.session).record
        except NotFound:
            return retry
        if retry and above.adopted != record.id:
            return True
        began = 0 if above.parent is None or not above.lineage else above.parent.seq
        if above.id in seen or parent.seq <= began:  # a branch of what came before the retry
            return False
        seen.add(above.id)
        record = above
    return False
