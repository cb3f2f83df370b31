"""Reads what a session is given when it starts: what is in doubt, what waits for a person, which session was before.

A session that continues gets what concerns itself alone, and nothing that it got before and still has in its view.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from stator.errors import NotFound
from stator.model.brief import doses
from stator.model.brief.doses import Dose, ToldLine, age, session_about
from stator.model.log.query import CallQuery, SessionQuery, SessionRow
from stator.model.values.ids import short
from stator.runtime.base.context import Context
from stator.runtime.base.pages import counts_of, matching
from stator.runtime.base.project_flags import Trash
from stator.runtime.views.as_read import for_one_answer, is_history, may_be_in_doubt, to_settle
from stator.runtime.views.last_acts import by_last_act
from stator.runtime.views.trust.names import session_name_origin
from stator.store.port import StorePort

ROWS = 30
"""Sessions, from the newest, among which the one before is looked for; and calls that are looked at."""


class Starting(msgspec.Struct, frozen=True, kw_only=True):
    """The session that a start dose is for."""

    session: str
    """Its id, whether or not it is in the store yet."""
    resumed: bool = False
    """It has a past of its own: it was resumed, compacted or forked."""
    has_handle: bool = False
    """It was given its handle before, and still has it in its view."""


def start_dose(store: StorePort, context: Context, starting: Starting) -> Dose:
    """What a session is given when it starts."""
    store = for_one_answer(store)
    if starting.resumed:
        lines = list(_own_lines(store, starting.session))
        if starting.has_handle and not lines:
            return Dose(kind="start")
        return doses.start_dose(lines, "" if starting.has_handle else starting.session)
    lines = list(_open_calls(store, context))
    previous = next(worked_in(store, context, starting.session), None)
    if previous is not None:
        when = age(context.clock(), previous.used) if previous.has_times else ""
        about = session_about(previous.record.agent, when, _ended(store, previous))
        origin = session_name_origin(store, previous, context)
        lines.append(
            ToldLine(
                texts=(previous.record.name,),
                limit=doses.NAME_BYTES,
                rank=2,
                mark="the session before this one, which may be unrelated:",
                note=f"{short(previous.id)} ({about}){doses.name_note(origin)}",
                session=previous.id,
            )
        )
    return doses.start_dose(lines, starting.session)


def _open_calls(store: StorePort, context: Context) -> Iterator[ToldLine]:
    """What is in doubt in the project and what waits for a person, with the command for it."""
    trash = Trash(store)
    for status, mark, command in (
        ("in doubt", "in doubt, it may or may not have happened:", "settle"),
        ("awaiting approval", "waits for a person:", "approve"),
    ):
        query = CallQuery(project=context.project, statuses=(status,))
        if status == "in doubt" and not may_be_in_doubt(store, query):
            continue
        found = [
            row
            for row in store.calls(query, limit=ROWS).rows
            if row.status == status
            and store.session(row.session) not in trash
            and (status != "in doubt" or not is_history(store, row.session, row.outcome or row.seq))
        ]
        if found:
            more = f" (and {len(found) - 1} more: stator top)" if len(found) > 1 else ""
            call = short(found[0].call)
            yield ToldLine(
                texts=(found[0].tool,), mark=mark, limit=60, rank=int(command == "approve"),
                note=f"in {short(found[0].session)}: stator {command} {call}{more}",
                session=found[0].session,
            )  # fmt: skip


def _own_lines(store: StorePort, session: str) -> Iterator[ToldLine]:
    """What concerns a session that continues: its own calls in doubt, and what left its view."""
    try:
        store.session(session)
    except NotFound:
        return
    if doubtful := to_settle(store, session):
        more = (
            f" (and {len(doubtful) - 1} more: stator calls {short(session)})"
            if len(doubtful) > 1
            else ""
        )
        call = short(doubtful[-1].call)
        yield ToldLine(
            texts=(doubtful[-1].tool,), mark="in doubt, your call may or may not have happened:",
            note=f"{call}: check it, then stator settle {call}{more}", limit=60, session=session,
        )  # fmt: skip
    evicted = counts_of(store, session).live.get("evicted", 0)
    if evicted:
        yield ToldLine(
            texts=(), rank=1, session=session,
            mark=f"{evicted:,} things left your view when it was compacted: stator evicted {short(session)}"
            " lists them, stator recall KEY gives one back",
        )  # fmt: skip


def worked_in(store: StorePort, context: Context, own: str) -> Iterator[SessionRow]:
    """Sessions of the project that people worked in, the newest first, without this one; at the end those of which
    it is not known when that was."""
    trash = Trash(store)
    rows = islice(matching(store, SessionQuery(project=context.project)), ROWS)
    for row in by_last_act(store, rows):
        record = row.record
        is_child = record.parent is not None and record.parent.kind == "child"
        if record.mode == "project" or record.adopted or is_child or not row.turns:
            continue
        if row.id != own and row not in trash:
            yield row


def _ended(store: StorePort, row: SessionRow) -> str:
    """How a session ended, in a few words, from its last turn alone."""
    last = store.turns(row.id, newest_first=True, limit=1)
    status = last[0].status if last else ""
    if row.shown == "active":
        return "still at work"
    if row.shown == "interrupted" or status in ("interrupted", "aborted", "cancelled"):
        return "interrupted"
    if status == "error":
        return "its last turn failed"
    return "ended" if status else "stopped in the middle of a turn"
