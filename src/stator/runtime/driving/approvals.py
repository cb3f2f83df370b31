"""Lists the calls that wait for a person's approval, and records what people answer.

Answering is no method of a session or a turn: an agent holds those, and what an agent holds must not
be able to approve what the agent asks for. Every grant names its principal, is a contribution to the
session that waits (or, for a whole project, to the project's own session), and counts only in the
store it was given in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from stator.errors import (
    Ambiguous,
    BadDelta,
    Erased,
    InvalidInput,
    NotFound,
    WrongState,
)
from stator.model.calls import approval
from stator.model.calls.approval import (
    SCOPES,
    Scope,
    Verdict,
    is_expired,
    is_own,
    parse_pattern,
)
from stator.model.log.commit import (
    Draft,
    Provenance,
    Remove,
    Upsert,
)
from stator.model.log.query import CallQuery, SessionQuery, SessionRow
from stator.model.records.types import ApprovalRecord, CallRecord, Entry
from stator.model.values.ids import short
from stator.model.views.open_calls import waits
from stator.runtime.base import project_session
from stator.runtime.base.context import Context
from stator.runtime.base.ownership import require_own
from stator.runtime.base.pages import each_call, find_entry, matching
from stator.runtime.base.provenance import imported_upto
from stator.runtime.driving import proofs
from stator.runtime.driving.proofs import PROGRAM, Recognised
from stator.runtime.views.refs import (
    arguments_of,
    find_call,
    intent_of,
    rows_of,
)
from stator.store.port import StorePort

FROM_PERSON = Provenance("user", "verified")


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a person's approval."""

    session: str
    name: str
    call: str
    tool: str
    effect: str
    arguments: Any
    digest: str
    since: int
    turn: int
    seq: int
    why: str = ""
    attempt: int = 1
    proof: str = ""
    """What its approval must prove: terminal, passphrase or signed; empty: nothing."""
    answer: str = ""
    """approved or denied, if it was answered and the driver has not seen the answer yet."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """An approval or a denial that a person gave, and the session it is recorded in."""

    id: str
    session: str
    name: str
    record: ApprovalRecord
    seq: int
    state: str = "standing"
    """standing (in force) or expired; or one that answers nothing here: imported (another user gave it, or it was
    given in another store), foreign (the store is not this user's own), unconfirmed (given by a release up to 0.6,
    and not confirmed since), or void (it claims a signature that does not hold)."""
    is_old: bool = False
    """Given in this store by a release up to 0.6."""


# -- asking ---------------------------------------------------------------------------------------


def time_known(store: StorePort, clock: int) -> int:
    """The time for what expires: that of the clock, or of the newest commit made here, if that is later.

    A clock that was set back must not make a grant answer again. What was imported has the time of another
    clock, and counts for nothing here.
    """
    for row in rows_of(store):
        if row.updated <= clock:
            return clock
        if row.head > imported_upto(store, row.record):
            return row.updated
    return clock


def waiting(
    store: StorePort,
    *,
    now: int,
    session: str | None = None,
    project: str | None = None,
    context: Context | None = None,
) -> list[Waiting]:
    """Calls that wait for a person's word: of a session, a project or the store; longest first. Without a context,
    no signature can be verified."""
    now = time_known(store, now)
    found = [
        _answered(store, context, _waiting(store, row, record), now)
        for row in _with_open_calls(store, session=session, project=project)
        if row.record.status not in ("closed", "archived")
        for entry in store.entries(row.id, "calls")
        if isinstance(record := entry.record, CallRecord) and waits(record)
    ]
    return sorted(found, key=lambda item: (item.since, item.call))


def _with_open_calls(
    store: StorePort, *, session: str | None, project: str | None
) -> Iterator[SessionRow]:
    """The sessions that may have calls without an outcome: with such a call, or continuing one that has."""
    if session is not None:
        yield store.session(session)
        return
    query = CallQuery(statuses=("started",))
    left = {call.session for call in each_call(store, query)}
    seen: set[str] = set()
    while left:
        seen |= left
        for one in sorted(left):
            row = store.session(one)
            if project in (None, row.record.project):
                yield row
        below = (row for one in left for row in matching(store, SessionQuery(parent=one)))
        left = {row.id for row in below if row.record.lineage} - seen


def waiting_call(
    store: StorePort, context: Context, row: SessionRow, record: CallRecord, now: int
) -> Waiting:
    """A call of which is known that it waits, with its answer if it has one."""
    return _answered(store, context, _waiting(store, row, record), time_known(store, now))


def _waiting(store: StorePort, row: SessionRow, record: CallRecord) -> Waiting:
    intent = intent_of(store, row.id, record.call)
    return Waiting(
        session=row.id,
        name=row.record.name,
        call=record.call,
        tool=record.tool,
        effect=record.effect,
        arguments=arguments_of(intent),
        digest=(intent.known("input_hash", "") if intent else ""),
        since=record.since or (intent.when if intent else 0),
        turn=intent.turn if intent else 0,
        seq=intent.seq if intent else 0,
        why=(intent.known("why", "") if intent else ""),
        attempt=record.attempt,
        proof=record.proof,
    )


def _answered(store: StorePort, context: Context | None, found: Waiting, now: int) -> Waiting:
    known = approval.answer(
        proofs.enough(
            store, context, standing_in(store, found.session), found.proof, found.attempt
        ),
        tool=found.tool,
        digest=found.digest,
        arguments=found.arguments,
        now=now,
        call=found.call,
        boot=context.boot() if context is not None else "",
    )
    if known is None or not isinstance(known.record, ApprovalRecord):
        return found
    return msgspec.structs.replace(found, answer=known.record.verdict)


def find_waiting(store: StorePort, call: str) -> Waiting:
    """The waiting call a person means, by id or the end of one."""
    intent = find_call(store, call)
    row = store.session(intent.session)
    entry = find_entry(store, row.id, "calls", intent.call)
    record = entry.record if entry is not None else None
    if not isinstance(record, CallRecord) or not waits(record):
        status = record.status if isinstance(record, CallRecord) else "over"
        raise WrongState(
            f"{intent.tool} · call {short(intent.call)} does not wait for approval: it is {status}",
            hint="stator approvals lists the calls that wait",
            call=intent.call,
            session=row.id,
            status=status,
        )
    return _waiting(store, row, record)


def standing(store: StorePort, session: str) -> list[Entry]:
    """Grants that may answer a call of this session: its own and its project's, given in this store."""
    return [entry for _, entry in standing_in(store, session)]


def standing_in(store: StorePort, session: str) -> list[tuple[str, Entry]]:
    """The same, each with the session that it is recorded in."""
    project = project_session.known(store, store.session(session).record)
    places = [session] if project is None else [session, project.id]
    return [(place, entry) for place in places for entry in _own(store, place)]


def _own(store: StorePort, session: str) -> list[Entry]:
    here, owner = store.info().id, store.ownership
    found = [
        entry
        for entry in store.entries(session, "approvals")
        if isinstance(entry.record, ApprovalRecord) and is_own(entry.record, session, here, owner)
    ]
    upto = imported_upto(store, store.session(session).record) if found else 0
    return [entry for entry in found if not _is_brought(entry, upto)]


def _is_brought(entry: Entry, upto: int) -> bool:
    """Whether a yes came with a bundle, so that it answers nothing here. A no still holds.

    The signature alone does not tell: a yes that was given here, then withdrawn or used up, and put
    into the log again by someone who held a copy of it, still has a valid signature.
    """
    return entry.seq <= upto and getattr(entry.record, "verdict", "") != "denied"


def grants(
    store: StorePort,
    *,
    now: int,
    session: str | None = None,
    project: str | None = None,
    context: Context | None = None,
) -> list[Grant]:
    """Every grant, also those no longer in force, newest session first. Without a context, no signature can be
    verified."""
    now = time_known(store, now)
    found = list(rows_of(store, session=session, project=project, holds="approvals"))
    if session is not None and (own := project_session.known(store, found[0].record)):
        found.append(own)
    return [grant for row in found for grant in _grants_of(store, context, row, now)]


def _grants_of(store: StorePort, context: Context | None, row: SessionRow, now: int) -> list[Grant]:
    found = store.entries(row.id, "approvals")
    here, upto = (store.info().id, imported_upto(store, row.record)) if found else ("", 0)
    return [
        Grant(
            id=entry.id,
            session=row.id,
            name=row.record.name,
            record=record,
            seq=entry.seq,
            state=_state(store, context, entry, row.id, now, upto),
            is_old=approval.is_old(record, row.id, here),
        )
        for entry in found
        if isinstance(record := entry.record, ApprovalRecord)
    ]


def _state(
    store: StorePort, context: Context | None, entry: Entry, session: str, now: int, upto: int
) -> str:
    record, owner = cast("ApprovalRecord", entry.record), store.ownership
    if owner.foreign:
        return "foreign"
    here = store.info().id
    if not is_own(record, session, here, owner):
        return "unconfirmed" if approval.is_old(record, session, here) else "imported"
    if _is_brought(entry, upto):
        return "imported"
    if is_expired(record, now, context.boot() if context is not None else ""):
        return "expired"
    return "void" if proofs.is_void(store, context, entry, session) else "standing"


# -- saying ---------------------------------------------------------------------------------------


def approve(store: StorePort, context: Context, call: str, *, by: str, **how: Any) -> Grant:
    """Let a waiting call run: this one, every one of these arguments, or every one that fits a pattern."""
    return answer(store, context, call, "approved", by=by, **how)


def deny(store: StorePort, context: Context, call: str, *, by: str, **how: Any) -> Grant:
    """Refuse a waiting call, with the reason the agent is given."""
    return answer(store, context, call, "denied", by=by, **how)


def grant(
    store: StorePort,
    context: Context,
    session: str,
    pattern: str,
    *,
    by: str,
    verdict: Verdict = "approved",
    scope: Scope = "session",
    expires: int = 0,
    why: str = "",
    how: Recognised = PROGRAM,
    demand: str = "",
) -> Grant:
    """Say it before anybody asks: every call that fits the pattern, in a session or its project.

    `demand`: what the calls it is meant for demand, as far as that is known.
    """
    fitting = parse_pattern(pattern)
    record = ApprovalRecord(
        tool=fitting.tool,
        pattern=str(fitting),
        scope=scope,
        verdict=verdict,
        by=by,
        expires=expires,
    )
    return _record(store, context, session, record, why=why, how=how, demand=demand)


def answer(
    store: StorePort,
    context: Context,
    call: str,
    verdict: Verdict,
    *,
    by: str,
    scope: Scope = "once",
    pattern: str = "",
    expires: int = 0,
    why: str = "",
    how: Recognised = PROGRAM,
) -> Grant:
    """Say yes or no to a call that waits, by its id or the end of one. `how`: how the person was recognised."""
    found = find_waiting(store, call)
    if pattern:
        if parse_pattern(pattern).fits(found.tool, found.arguments) is not True:
            raise InvalidInput(
                f"the call does not match {pattern!r:.80}",
                path="$.pattern",
                hint=f"stator approvals shows the arguments of {short(found.call)}",
                call=found.call,
            )
        return grant(
            store, context, found.session, pattern, by=by, verdict=verdict, scope=scope,
            expires=expires, why=why, how=how, demand=found.proof,
        )  # fmt: skip
    if not found.digest:
        raise Erased(
            f"the arguments of call {short(found.call)} have been erased, so it cannot be answered",
            call=found.call,
        )
    record = ApprovalRecord(
        tool=found.tool,
        arguments=found.digest,
        scope=scope,
        verdict=verdict,
        by=by,
        call=found.call if scope == "once" else "",
        expires=expires,
    )
    return _record(
        store, context, found.session, record,
        call=found.call, why=why, how=how, demand=found.proof, attempt=found.attempt,
    )  # fmt: skip


def _record(
    store: StorePort,
    context: Context,
    session: str,
    record: ApprovalRecord,
    *,
    call: str = "",
    why: str = "",
    how: Recognised = PROGRAM,
    demand: str = "",
    attempt: int = 0,
) -> Grant:
    if not record.by:
        raise InvalidInput(
            "an approval must name the person who gives it",
            path="$.by",
            hint="for example local:ann",
        )
    if record.scope not in SCOPES:
        raise InvalidInput(
            f"unknown scope {record.scope!r:.40}", path="$.scope", hint=", ".join(SCOPES)
        )
    require_own(store, "approve or deny a call")
    clock = context.clock()
    now = time_known(store, clock)
    if is_expired(record, now):
        late = (
            ""
            if is_expired(record, clock)
            else "; this store has newer commits than the clock says"
        )
        raise InvalidInput(f"that time has passed already{late}", path="$.expires")
    asked = store.session(session).record
    where = session if record.scope != "project" else project_session.own(store, context, asked).id
    record = proofs.with_proof(
        store, context, record, where, how, now=now, demand=demand, attempt=attempt
    )
    made = approval.sign(record, where, store.info().id, store.ownership)
    draft = Draft(
        id=context.mint("commit"),
        session=where,
        kind="approval",
        actor="user",
        principal=record.by,
        call=call if where == session else "",
        tool=record.tool,
        status=record.verdict,
        why=why,
        provenance=FROM_PERSON,
        changes=(Upsert("approvals", made),),
    )
    commit = store.append(where, [draft, *_found_in(store, draft)], barrier=True)[0]
    name = asked.name if where == session else project_session.PROJECT_SESSION
    return Grant(id=commit.delta[0].id, session=where, name=name, record=made, seq=commit.seq)


def _found_in(store: StorePort, draft: Draft) -> list[Draft]:
    """What the rules of extraction find in an answer: the words with which a person refused a call."""
    intent = intent_of(store, draft.session, draft.call) if draft.call else None
    if intent is None:
        return []
    # Reading a store looks at its grants; the rules are needed only where somebody answers.
    from stator.model.exchange.extraction_state import ExtractionState
    from stator.model.extraction.evidence import seen_commit
    from stator.model.extraction.extractor import Extractor

    extractor = Extractor(draft.session, ExtractionState())
    extractor.see(seen_commit(intent))
    return extractor.drafts(draft)


def revoke(
    store: StorePort, context: Context, grant: str, *, by: str, project: str | None = None
) -> Grant:
    """Take a grant back, by its id or the end of one; from now on it answers nothing."""
    known = grants(store, now=context.clock(), project=project, context=context)
    found = [item for item in known if grant and item.id.endswith(grant)]
    if not found:
        raise NotFound(f"no grant {grant!r:.60}", hint="stator approvals --grants lists them")
    if len(found) > 1:
        ids = [item.id for item in found]
        raise Ambiguous(
            f"{len(ids)} grants match {grant!r:.60}", candidates=ids, hint="give more digits"
        )
    item = found[0]
    entry = _entry(store.entries(item.session, "approvals"), item.id)
    draft = Draft(
        id=context.mint("commit"),
        session=item.session,
        kind="approval",
        actor="user",
        principal=by,
        tool=item.record.tool,
        status="revoked",
        provenance=FROM_PERSON,
        changes=(Remove("approvals", entry.key),),
    )
    try:
        store.append(item.session, [draft], barrier=True)
    except BadDelta:
        raise NotFound(f"grant {grant!r:.60} has just been used or revoked") from None
    return item


def retire(
    store: StorePort,
    context: Context,
    session: str,
    now: int,
) -> None:
    """Record every grant that a call of this session found expired: a clock that is set back later, in this boot or
    another, does not revive it."""
    boot = context.boot()
    for where, entry in standing_in(store, session):
        if is_expired(entry.record, now, boot):
            _remove(store, context, where, entry, "expired", by=context.principal)


def _remove(
    store: StorePort, context: Context, session: str, entry: Entry, status: str, *, by: str
) -> None:
    """Take a grant out of the state; another process that was faster has done the same."""
    draft = Draft(
        id=context.mint("commit"),
        session=session,
        kind="approval",
        actor="system",
        principal=by,
        tool=getattr(entry.record, "tool", ""),
        status=status,
        changes=(Remove("approvals", entry.key),),
    )
    with contextlib.suppress(BadDelta):
        store.append(session, [draft], barrier=True)


def _entry(entries: Sequence[Entry], identifier: str) -> Entry:
    for entry in entries:
        if entry.id == identifier:
            return entry
    raise NotFound(f"grant {identifier} has just been used or revoked")
