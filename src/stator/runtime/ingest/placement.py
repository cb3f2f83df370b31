"""Decides where a recorded session belongs: at which commit of its parent it hangs, and what its paths are relative to.

What a session hangs at is on disk for ever, so it is decided only when it is known. A parent may be read up to a line
before the call that started a child whose own file is there already: then the child waits. Its file stays, and the
next round finds the call. Only a parent that is at rest will not name it any more.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import msgspec

from stator.errors import NotFound
from stator.model.exchange.item_commits import legible
from stator.model.exchange.items import Conversation, commit_id
from stator.model.log.commit import Commit
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.records.types import Parent
from stator.runtime.base.context import Context
from stator.runtime.base.pages import commit_at, commits
from stator.runtime.views.refs import Point
from stator.store.port import StorePort

TURNS_LOOKED_AT = 200
"""Turns of a parent among which the one is looked for in which a child began."""

NEWEST = 50
"""The newest commits of a parent, among which one is looked for that is later than the child's beginning."""


class ParentLog(msgspec.Struct, frozen=True, kw_only=True):
    """What a parent's log says about the start of a child. Places are positions in it; 0 means unknown."""

    call: int = 0
    """The call that started the child."""
    turn: int = 0
    """The turn during which the child began: where it starts."""
    is_past: bool = False
    """Whether the log holds something that happened after the child began."""


def hangs_at(log: ParentLog, *, names_call: bool, at_rest: bool) -> int:
    """The position in its parent's log that a child hangs at; 0: not known yet, so the child waits.

    That is the call that started it. A parent that names no such call, and will not (`at_rest`, or, where the child
    does not name its call either, because the log is past the child's beginning), gives the start of the turn.
    """
    if log.call:
        return log.call
    if at_rest or (log.is_past and not names_call):
        return log.turn or 1
    return 0


def is_ready(store: StorePort, conversation: Conversation, *, began: int, at_rest: bool) -> bool:
    """Whether a conversation can be begun: its parent's log has reached what it hangs at, or will not reach it.

    `began`: when it began, in µs; `at_rest`: whether its parent, or what it was forked from, is at rest.
    """
    if at_rest:
        return True
    if conversation.fork_of:
        origin = known(store, conversation.source, conversation.fork_of)
        return origin is not None and _is_past_fork(store, origin, conversation)
    if conversation.parent:
        parent = known(store, conversation.source, conversation.parent)
        if parent is None:
            return False
        log = _parent_log(store, parent, conversation, began)
        return bool(hangs_at(log, names_call=bool(conversation.parent_call), at_rest=False))
    return True


def parent_of(store: StorePort, conversation: Conversation, *, began: int = 0) -> Parent | None:
    """What a sub-agent's session hangs at, as far as its parent's log says by now; None without a known parent."""
    parent = known(store, conversation.source, conversation.parent) if conversation.parent else None
    if parent is None:
        return None
    log = _parent_log(store, parent, conversation, began)
    seq = hangs_at(log, names_call=bool(conversation.parent_call), at_rest=True)
    commit = commit_at(store, parent.id, seq, load=False)
    return Parent(session=parent.id, seq=seq, hash=commit.hash, kind="child")


def fork_point(store: StorePort, conversation: Conversation) -> Point | None:
    """Where in its parent a fork begins: after the last item they share."""
    if not conversation.fork_of:
        return None
    parent = known(store, conversation.source, conversation.fork_of)
    if parent is None:
        return None
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
    rows = store.sessions(SessionQuery(alias=alias), limit=1).rows
    if rows:
        return rows[0]
    try:
        return store.session(conversation.session)
    except NotFound:
        return None


def known(store: StorePort, source: str, foreign: str) -> SessionRow | None:
    """The session of a conversation that is known by its id."""
    return find(store, Conversation(source=source, id=foreign))


def _parent_log(
    store: StorePort, parent: SessionRow, conversation: Conversation, began: int
) -> ParentLog:
    newest = store.commits(parent.id, newest_first=True, limit=NEWEST, load=False) if began else []
    return ParentLog(
        call=_call(store, parent, conversation),
        turn=_turn(store, parent, began),
        is_past=any(commit.origin is not None and commit.happened > began for commit in newest),
    )


def _call(store: StorePort, parent: SessionRow, conversation: Conversation) -> int:
    """Where the call was recorded that the child names, else the one at which the parent names the child."""
    if conversation.parent_call:
        origin = conversation.source, legible(conversation.parent_call)
        found = store.locate(commit_id(parent.id, "call", origin, 1), parent.id)
        return found[0][1] if found else 0
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
    """Whether a log has something after the last item that it shares with a fork."""
    last = last_of(commits(store, origin.id, load=False), conversation.fork_ids)
    after = commits(store, origin.id, after=last, load=False) if last else ()
    return any(commit.origin is not None for commit in after)
