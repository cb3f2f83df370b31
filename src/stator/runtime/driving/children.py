"""Records the sub-agents of a turn. A child is a session of its own; its parent records its id before it
starts and its result after it ends."""

from __future__ import annotations

import msgspec

from stator.errors import BadTurn, NotFound
from stator.model.calls.known_children import MANY, turns_counted, turns_of
from stator.model.log.commit import Commit, Upsert
from stator.model.records.types import ChildRecord, Parent, SessionRecord
from stator.model.sessions.lifecycle import check_name
from stator.model.values.ids import retype
from stator.model.window.reply import text_of
from stator.runtime.driving.driver import Driver
from stator.runtime.driving.open_turn import OpenTurn
from stator.runtime.driving.tools import call_in
from stator.store.port import StorePort


def full_name(parent: SessionRecord, name: str) -> str:
    """A child is called after its parent, so that two parents may have children of one name."""
    return check_name(f"{parent.name}/{name}")


def announce(turn: OpenTurn, name: str) -> tuple[ChildRecord, list[list[int]] | None, str]:
    """Put a child's id on record before it starts: a crash must not leave an unrecorded child.

    If this turn started it in an earlier run, also the turns it had begun then, which its program
    will begin again. And the commit that its turns are asked in: the call it works for, else its start here.
    """
    parent = turn.driver
    known = _known(parent.store, parent.id, name)
    record = known or ChildRecord(session=parent.context.mint("session"), name=name)
    opened = turn.known_child(record.session)
    inside = retype(call, "commit") if (call := call_in(parent.id)) else ""
    if opened is not None:
        counted = turns_counted(opened.ended)
        later = parent.turns_of_children.after(record.session, counted) if counted < MANY else []
        return record, turns_of(opened, later, inside), inside or opened.begun.id
    draft = turn.draft(
        "child",
        status="started",
        input={"after": _turns(parent.store, record.session)},
        changes=(Upsert("children", msgspec.structs.replace(record, status="started")),),
    )
    turn.write([draft])
    return record, None, inside or draft.id


def conclude(turn: OpenTurn, record: ChildRecord, child: Driver, status: str) -> None:
    """Copy a child's end into its parent: its status, and its last answer."""
    known, turns = turn.take_child_end(record.session), child.store.head(child.id).turn
    if known is not None:  # recorded by a run that is being repeated
        same = known.commit.status == status and turns_counted(known.commit) == turns
        if same or known.is_past or turn.reused:
            return
    ended = msgspec.structs.replace(record, status=status)
    last = _last_answer(child.store, child.id)
    if last is not None and (call := call_in(turn.driver.id)):
        turn.driver.child_answers.setdefault(call, []).append(last.id)
    draft = turn.draft(
        "child",
        status=status,
        inputs=(last.id,) if last is not None else (),
        output={
            "said": text_of(last.value("output")) if last is not None else "",
            "turns": turns,
        },
        changes=(Upsert("children", ended),),
    )
    turn.write([draft])


def check_open(turn: OpenTurn | None, name: str, session: str) -> OpenTurn:
    """The turn that a child works for; `BadTurn` without an open turn."""
    if turn is None or turn.ended:
        raise BadTurn(
            f"child {name!r:.60} needs an open turn of session {session}",
            hint="with session.turn(…) first: a sub-agent works for a turn",
            session=session,
        )
    return turn


def _turns(store: StorePort, session: str) -> int:
    """How many turns a child has begun so far."""
    try:
        return store.head(session).turn
    except NotFound:
        return 0


def _known(store: StorePort, parent: str, name: str) -> ChildRecord | None:
    for entry in store.entries(parent, "children"):
        if isinstance(entry.record, ChildRecord) and entry.record.name == name:
            return entry.record
    return None


def child_record(
    parent: Driver, record: ChildRecord, *, agent: str, budget: dict[str, int]
) -> SessionRecord:
    """The session a child is, as it is created."""
    above = parent.store.session(parent.id).record
    head = parent.store.head(parent.id)
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


def _last_answer(store: StorePort, session: str) -> Commit | None:
    """The last answer of a session's model."""
    try:
        commits: list[Commit] = store.commits(session, newest_first=True, limit=200)
    except NotFound:
        return None
    for commit in commits:
        if commit.kind == "entry" and commit.actor == "model" and not commit.status:
            return commit
    return None
