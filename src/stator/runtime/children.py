"""Sub-agents: a child is a session of its own, known to its parent before it starts and after it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stator.errors import NotFound
from stator.model.commit import Commit, Draft, Upsert
from stator.model.reply import text_of
from stator.model.session import Parent, check_name
from stator.model.state import ChildRecord, SessionRecord
from stator.store.port import Store

if TYPE_CHECKING:
    from stator.runtime.sessions import Session


def full_name(parent: SessionRecord, name: str) -> str:
    """A child is called after its parent, so that two parents may have children of one name."""
    return check_name(f"{parent.name}/{name}")


def announce(parent: Session[Any], name: str) -> tuple[ChildRecord, bool]:
    """Put a child's id on record before it starts; whether it had been started in this turn before."""
    known = _known(parent._store, parent.id, name)
    record = known or ChildRecord(session=parent.context.mint("session"), name=name)
    draft = parent._draft(
        "child",
        status="started",
        changes=(Upsert("children", msgspec.structs.replace(record, status="started")),),
    )
    return record, _submit(parent, draft)


def conclude(parent: Session[Any], record: ChildRecord, child: Session[Any], status: str) -> None:
    """Copy a child's end into its parent: how it was left, and the last thing it said."""
    ended = msgspec.structs.replace(record, status=status)
    said = _last_said(child._store, child.id)
    draft = parent._draft(
        "child",
        status=status,
        output={"said": said, "turns": child.head.turn},
        changes=(Upsert("children", ended),),
    )
    _submit(parent, draft)


def _submit(parent: Session[Any], draft: Draft) -> bool:
    """Append, unless the turn that goes on here has this on record; whether it has."""
    turn = parent._open_turn
    if turn is not None and not turn.ended:
        return turn._submit(draft) != draft.id
    parent._append([draft])
    return False


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
