"""Sub-agents: a child is a session of its own, known to its parent before it starts and after it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stator.errors import BadTurn, NotFound
from stator.model.log.commit import Commit, Upsert
from stator.model.records.types import ChildRecord, Parent, SessionRecord
from stator.model.sessions.lifecycle import check_name
from stator.model.window.reply import text_of
from stator.store.port import Store

if TYPE_CHECKING:
    from stator.runtime.driving.turn import Turn
    from stator.runtime.facade.session import Session

MANY = 2**53
"""More turns than there are: up to the last."""


def full_name(parent: SessionRecord, name: str) -> str:
    """A child is called after its parent, so that two parents may have children of one name."""
    return check_name(f"{parent.name}/{name}")


def announce(parent: Session[Any], name: str) -> tuple[ChildRecord, list[list[int]] | None]:
    """Put a child's id on record before it starts.

    Also, where this turn started it in an earlier run: the turns it had come to then, which it now
    comes to again.
    """
    turn = _turn(parent, name)
    known = _known(parent._store, parent.id, name)
    record = known or ChildRecord(session=parent.context.mint("session"), name=name)
    begun, ended = turn._known_child(record.session)
    if begun is not None:
        first = int(begun.value("input")["after"]) + 1
        last = int(ended.value("output")["turns"]) if ended is not None else MANY
        return record, [[first, last]]
    draft = parent._draft(
        "child",
        status="started",
        input={"after": _turns(parent._store, record.session)},
        changes=(Upsert("children", msgspec.structs.replace(record, status="started")),),
    )
    turn._write([draft])
    return record, None


def conclude(parent: Session[Any], record: ChildRecord, child: Session[Any], status: str) -> None:
    """Copy a child's end into its parent: how it was left, and the last thing it said."""
    turn = _turn(parent, record.name)
    if turn._take_child_end(record.session):
        return
    ended = msgspec.structs.replace(record, status=status)
    said = _last_said(child._store, child.id)
    draft = parent._draft(
        "child",
        status=status,
        output={"said": said, "turns": child.head.turn},
        changes=(Upsert("children", ended),),
    )
    turn._write([draft])


def _turn(parent: Session[Any], name: str) -> Turn:
    turn = parent._open_turn
    if turn is None or turn.ended:
        raise BadTurn(
            f"child {name!r:.60} needs an open turn of session {parent.id}",
            hint="with session.turn(…) first: a sub-agent works for a turn",
            session=parent.id,
        )
    return turn


def _turns(store: Store, session: str) -> int:
    """How many turns a child has come to so far."""
    try:
        return store.head(session).turn
    except NotFound:
        return 0


def _known(store: Store, parent: str, name: str) -> ChildRecord | None:
    for entry in store.entries(parent, "children"):
        if isinstance(entry.record, ChildRecord) and entry.record.name == name:
            return entry.record
    return None


def child_record(
    parent: Session[Any], record: ChildRecord, *, agent: str, budget: dict[str, int]
) -> SessionRecord:
    """The session a child is, as it is created."""
    above = parent.record
    head = parent.head
    return SessionRecord(
        id=record.session,
        name=full_name(above, record.name),
        agent=agent or above.agent,
        budget=budget,
        created=parent.context.clock(),
        parent=Parent(session=parent.id, seq=head.seq, hash=head.hash, kind="child"),
        project=above.project,
        tenant=above.tenant,
    )


def _last_said(store: Store, session: str) -> str:
    """The last thing a session's model said."""
    try:
        commits: list[Commit] = store.commits(session, newest_first=True, limit=200)
    except NotFound:
        return ""
    for commit in commits:
        if commit.kind == "entry" and commit.actor == "model" and not commit.status:
            return text_of(commit.value("output"))
    return ""
