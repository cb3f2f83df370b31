"""Decides where a recorded session belongs: at which commit of its parent it hangs, and what its paths are relative to.

What a session hangs at is on disk for ever, so it is decided only when it is known. A parent may be read up to a line
before the call that started a child whose own file is there already: then the child waits. Its file stays, and the
next round finds the call. Only a parent that is at rest will not name it any more.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from stator.errors import NotFound
from stator.model.exchange.items import Conversation, commit_id
from stator.model.log.commit import Commit
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.log.shown_text import legible
from stator.model.records.types import Parent
from stator.runtime.base.context import Context
from stator.runtime.base.pages import commit_at, commits
from stator.store.port import StorePort

if TYPE_CHECKING:
    from stator.runtime.views.refs import Point

TURNS_LOOKED_AT = 200
"""Turns of a parent among which the one is looked for in which a child began."""


def hangs_at(call: int, turn: int, *, at_rest: bool) -> int:
    """The position in its parent's log that a child hangs at; 0: not known yet, so the child waits.

    That is the call that started it (`call`, 0 while it is not known). Only a parent that is at rest will not name it
    any more: then it is the start of the turn during which the child began (`turn`, 0 if there is none), else the
    beginning of the log. So a child that need not wait gets the same position however much of its parent was read.
    """
    if call or not at_rest:
        return call
    return turn or 1


def is_ready(store: StorePort, conversation: Conversation, *, at_rest: bool) -> bool:
    """Whether a conversation can be begun: the log of its parent, or of what it was forked from, has reached the
    place that it begins at. One that is at rest has."""
    if at_rest:
        return True
    if conversation.fork_of:
        origin = known(store, conversation.source, conversation.fork_of)
        return origin is not None and _is_past_fork(store, origin, conversation)
    if conversation.parent:
        parent = known(store, conversation.source, conversation.parent)
        return parent is not None and bool(_call(store, parent, conversation))
    return True


def parent_of(store: StorePort, conversation: Conversation, *, began: int = 0) -> Parent | None:
    """What a sub-agent's session hangs at, once it is ready; None without a known parent. `began`: when it began, in
    µs."""
    parent = known(store, conversation.source, conversation.parent) if conversation.parent else None
    if parent is None:
        return None
    call = _call(store, parent, conversation)
    seq = hangs_at(call, 0 if call else _turn(store, parent, began), at_rest=True)
    commit = commit_at(store, parent.id, seq, load=False)
    return Parent(session=parent.id, seq=seq, hash=commit.hash, kind="child")


def fork_point(store: StorePort, conversation: Conversation) -> Point | None:
    """Where in its parent a fork begins: after the last item they share."""
    if not conversation.fork_of:
        return None
    parent = known(store, conversation.source, conversation.fork_of)
    if parent is None:
        return None
    from stator.runtime.views.refs import (
        Point,  # forks are few, and a hook that asks for a session is in a hurry
    )

    seq = last_of(commits(store, parent.id, load=False), conversation.fork_ids)
    return Point(parent.id, seq, f"@{seq}") if seq else None


def last_of(log: Iterable[Commit], ids: Container[str]) -> int:
    """The last place in a log at which one of those items was recorded; 0: none was."""
    return max((c.seq for c in log if c.origin is not None and c.origin[1] in ids), default=0)


def root_of(
    context: Context, project: str, conversation: Conversation, *, is_old: bool = False
) -> str:
    """The folder that paths are relative to: the project's, where the agent worked in it. Empty where it did not:
    paths stay absolute, because a README.md of another repository is not that of the project.

    `is_old`: the session was begun by a release up to 0.7, which took the agent's own folder instead.
    """
    here, cwd = context.root.rstrip("/"), conversation.cwd
    is_inside = not cwd or (bool(here) and (cwd == here or cwd.startswith(here + "/")))
    if is_inside and project == context.project:
        return here
    return (cwd or here) if is_old else ""


def find(store: StorePort, conversation: Conversation) -> SessionRow | None:
    """The session a conversation is recorded in, if it has begun."""
    alias = conversation.source, legible(conversation.id)
    rows = () if conversation.again else store.sessions(SessionQuery(alias=alias), limit=1).rows
    if rows:
        return rows[0]
    try:
        return store.session(conversation.session)
    except NotFound:
        return None


def known(store: StorePort, source: str, foreign: str) -> SessionRow | None:
    """The session of a conversation that is known by its id."""
    return find(store, Conversation(source=source, id=foreign))


def _call(store: StorePort, parent: SessionRow, conversation: Conversation) -> int:
    """Where the call was recorded that the child names, else the one at which the parent names the child."""
    if conversation.parent_call:
        origin = conversation.source, legible(conversation.parent_call)
        owners = (parent.id, *(part.session for part in parent.record.lineage))
        for owner in owners:
            if found := store.locate(commit_id(owner, "call", origin, 1), parent.id):
                return found[0][1]
        return 0
    for touch in store.touches("children", conversation.session, session=parent.id):
        call = commit_at(store, touch.session, touch.seq, load=False).parent
        if call and (begun := store.touches("calls", call, session=parent.id)):
            return min(one.seq for one in begun)
    return 0


def _turn(store: StorePort, parent: SessionRow, began: int) -> int:
    """Where the last turn starts that began before the child did; of a child without times, the last turn."""
    rows = store.turns(parent.id, newest_first=True, limit=TURNS_LOOKED_AT)
    for row in rows:
        if not began or commit_at(store, parent.id, row.first, load=False).when <= began:
            return row.first
    return rows[-1].first if rows else 0


def _is_past_fork(store: StorePort, origin: SessionRow, conversation: Conversation) -> bool:
    """Whether a log has a turn that is not the fork's, after the last item that both have. A prompt is the only kind
    of item that a fork shares under its id without exception."""
    log = list(commits(store, origin.id, load=False))
    last, ids = last_of(log, conversation.fork_ids), conversation.fork_ids
    own = (c for c in log if c.kind == "turn" and c.origin is not None and c.origin[1] not in ids)
    return bool(last) and any(commit.seq > last for commit in own)
